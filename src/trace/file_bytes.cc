#include "src/trace/file_bytes.h"

#include "src/trace/recorded.h"

#include <algorithm>
#include <cstring>

namespace tandem::trace
{
namespace
{

constexpr std::size_t piece = 256u << 10;

}

FileBytes::FileBytes(const std::filesystem::path& file) : file_ { std::fopen(file.c_str(), "rb") }, room_(piece)
{
  if (!file_) throw BadFile { file, {}, "cannot be opened for reading" };
  std::setvbuf(file_.get(), nullptr, _IONBF, 0); // the room is here
}

std::span<const std::byte> FileBytes::fetch(std::size_t size)
{
  std::memmove(room_.data(), room_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (room_.size() < size) room_.resize(std::max(size, 2 * room_.size()));
  end_ += std::fread(room_.data() + end_, 1, room_.size() - end_, file_.get());
  return std::span { room_ }.first(std::min(size, end_));
}

} // namespace tandem::trace
