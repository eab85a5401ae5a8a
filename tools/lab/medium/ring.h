// A first-in first-out queue with indexed access that allocates only while it grows.
#pragma once

#include <cstddef>
#include <vector>

namespace tandem::medium
{

// std::deque frees and allocates blocks as it moves; this keeps one power-of-two array, so a queue in steady state
// allocates nothing.
template <typename T>
class Ring
{
public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  T& operator[](std::size_t index) { return slots_[(head_ + index) & (slots_.size() - 1)]; }
  const T& operator[](std::size_t index) const { return slots_[(head_ + index) & (slots_.size() - 1)]; }
  T& front() { return slots_[head_]; }
  const T& front() const { return slots_[head_]; }
  T& back() { return (*this)[size_ - 1]; }

  void push(const T& value)
  {
    if (size_ == slots_.size()) grow();
    slots_[(head_ + size_) & (slots_.size() - 1)] = value;
    ++size_;
  }

  void pop()
  {
    head_ = (head_ + 1) & (slots_.size() - 1);
    --size_;
  }

  void clear()
  {
    head_ = 0;
    size_ = 0;
  }

private:
  void grow()
  {
    std::vector<T> larger(slots_.empty() ? 16 : slots_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i)
      larger[i] = (*this)[i];
    slots_.swap(larger);
    head_ = 0;
  }

  std::vector<T> slots_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

} // namespace tandem::medium
