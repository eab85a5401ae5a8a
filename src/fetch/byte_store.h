// What has arrived of a byte stream of late, by offset: bounded in bytes and in pieces, oldest offsets go first.
#pragma once

#include "src/fetch/fetcher.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace tandem::fetch
{

class ByteStore
{
public:
  explicit ByteStore(std::uint64_t limit) : limit_ { limit } {}

  // Keeps what of `bytes` is not here yet: what came first stays, whatever a second copy says. False when nothing more
  // is taken because too many separate chunks are held.
  bool add(std::uint64_t at, std::span<const std::byte> bytes);
  // The first offset at or behind `from` that is not held.
  std::uint64_t first_gap(std::uint64_t from) const;
  bool holds(const Piece& piece) const { return first_gap(piece.from) >= piece.to; }
  // Exactly the piece; empty when it is not held.
  std::vector<std::byte> read(const Piece& piece) const;
  // Throws away the lowest offsets until the limit is kept, but nothing of `pinned`.
  void trim(std::span<const Piece> pinned);

  std::uint64_t size() const { return size_; }

private:
  static constexpr std::size_t chunk_limit = 8192;

  std::map<std::uint64_t, std::vector<std::byte>> chunks_ {}; // by offset, without overlap
  std::uint64_t size_ = 0;
  std::uint64_t limit_ = 0;
};

} // namespace tandem::fetch
