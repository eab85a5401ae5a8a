// The bytes of a file from its beginning to its end, looked at in memory: a system call for each quarter megabyte, and
// no copy of what is looked at. Inner header of src/trace.
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace tandem::trace
{

class FileBytes
{
public:
  // Opens the file. Throws BadFile when that cannot be done.
  explicit FileBytes(const std::filesystem::path& file);

  // The next `size` bytes, fewer at the end of the file. They stay where they are until the next call.
  std::span<const std::byte> look(std::size_t size)
  {
    return size <= end_ - begin_ ? std::span { room_ }.subspan(begin_, size) : fetch(size);
  }
  // Goes on behind so many bytes, which look() has shown.
  void skip(std::size_t size) { begin_ += size; }

private:
  struct Close
  {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::span<const std::byte> fetch(std::size_t size);

  std::unique_ptr<std::FILE, Close> file_;
  std::vector<std::byte> room_;
  std::size_t begin_ = 0, end_ = 0; // of what is in `room_` and not behind yet
};

} // namespace tandem::trace
