#include "src/fetch/byte_store.h"

#include <algorithm>
#include <iterator>

namespace tandem::fetch
{

bool ByteStore::add(std::uint64_t at, std::span<const std::byte> bytes)
{
  const std::uint64_t end = at + bytes.size();
  std::uint64_t from = at;
  while (from < end)
  {
    from = first_gap(from);
    if (from >= end) break;
    const auto next = chunks_.lower_bound(from);
    const std::uint64_t to = next == chunks_.end() ? end : std::min(end, next->first);
    const auto part = bytes.subspan(static_cast<std::size_t>(from - at), static_cast<std::size_t>(to - from));
    // What goes on from the chunk before is put behind it, so that a stream in order makes few chunks; but not into one
    // without end, so that old offsets can go.
    constexpr std::size_t chunk_size = 64 * 1024;
    if (next != chunks_.begin())
      if (auto before = std::prev(next);
          before->first + before->second.size() == from && before->second.size() < chunk_size)
      {
        before->second.insert(before->second.end(), part.begin(), part.end());
        size_ += part.size();
        from = to;
        continue;
      }
    if (chunks_.size() >= chunk_limit) return false;
    chunks_.emplace_hint(next, from, std::vector<std::byte>(part.begin(), part.end()));
    size_ += part.size();
    from = to;
  }
  return true;
}

std::uint64_t ByteStore::first_gap(std::uint64_t from) const
{
  auto chunk = chunks_.upper_bound(from);
  if (chunk == chunks_.begin()) return from;
  --chunk;
  for (; chunk != chunks_.end() && chunk->first <= from; ++chunk)
    from = std::max(from, chunk->first + chunk->second.size());
  return from;
}

std::vector<std::byte> ByteStore::read(const Piece& piece) const
{
  std::vector<std::byte> out;
  if (piece.from >= piece.to || !holds(piece)) return out;
  out.reserve(static_cast<std::size_t>(piece.size()));
  std::uint64_t at = piece.from;
  for (auto chunk = std::prev(chunks_.upper_bound(at)); at < piece.to; ++chunk)
  {
    const auto skip = static_cast<std::ptrdiff_t>(at - chunk->first);
    const std::uint64_t to = std::min(piece.to, chunk->first + chunk->second.size());
    out.insert(out.end(), chunk->second.begin() + skip,
               chunk->second.begin() + static_cast<std::ptrdiff_t>(to - chunk->first));
    at = to;
  }
  return out;
}

void ByteStore::trim(std::span<const Piece> pinned)
{
  for (auto chunk = chunks_.begin(); size_ > limit_ && chunk != chunks_.end();)
  {
    const std::uint64_t from = chunk->first, to = from + chunk->second.size();
    const auto needed = [&](const Piece& piece) { return piece.from < to && from < piece.to; };
    if (std::any_of(pinned.begin(), pinned.end(), needed))
    {
      ++chunk;
      continue;
    }
    size_ -= chunk->second.size();
    chunk = chunks_.erase(chunk);
  }
}

} // namespace tandem::fetch
