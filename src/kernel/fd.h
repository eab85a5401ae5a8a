// A file descriptor that is closed by its owner's end.
#pragma once

#include <unistd.h>

#include <utility>

namespace tandem::kernel
{

class Fd
{
public:
  Fd() = default;
  explicit Fd(int number) : number_ { number } {}
  Fd(Fd&& other) noexcept : number_ { std::exchange(other.number_, -1) } {}
  Fd& operator=(Fd&& other) noexcept
  {
    if (this != &other) reset(std::exchange(other.number_, -1));
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() noexcept { return std::exchange(number_, -1); } // the caller's from now on
  void reset(int number = -1) noexcept
  {
    if (number_ >= 0) ::close(number_);
    number_ = number;
  }

private:
  int number_ = -1;
};

} // namespace tandem::kernel
