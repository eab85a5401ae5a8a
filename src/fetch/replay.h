// The published way to fetch lost bytes: a mirror connection over the cellular link that replays the request, and of
// whose answer only the wanted pieces are received (src/fetch/mirror_tcp.h). Plaintext only, off by default.
#pragma once

#include "src/fetch/fetcher.h"
#include "src/fetch/replay_options.h"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <memory>

namespace tandem::fetch
{

struct ReplayStats
{
  std::uint64_t connections = 0; // mirror connections opened
  std::uint64_t asked = 0;
  std::uint64_t fetched = 0;
  std::uint64_t refused = 0;
  std::uint64_t cell_bytes = 0; // IP bytes both ways
  std::uint64_t stalls = 0;     // of connections that are over
  std::uint64_t ahead = 0;
};

// Runs on the thread of `context`; every call must be made there. Reads the monotonic clock and the kernel's random
// numbers, and owns raw ports (src/kernel/packet/raw_port.h).
class Replay final : public Fetcher
{
public:
  Replay(boost::asio::io_context& context, ReplayOptions options);
  ~Replay() override;
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Reasons are literals. Besides those of why_not_replay() and same_answer(): no way to the server by the cellular
  // link, silence, a reset, a piece that the mirror has passed, a missed deadline.
  void fetch(std::shared_ptr<const Download> download, Piece wanted, Tick deadline, Done done) override;
  void forget(std::uint64_t flow) override;
  // The mirror connection keeps up with the download: as published it skips ahead, and a lost piece is a short way off.
  // Costs about as many cellular bytes as the download has.
  void follow(const std::shared_ptr<const Download>& download, std::uint64_t progress) override;
  std::uint64_t take_unbooked() override;
  // Opens the mirror connection ahead of the first need. Harmless when it is there, or when the download is refused.
  void prepare(const std::shared_ptr<const Download>& download) override;

  ReplayStats stats() const;

private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

} // namespace tandem::fetch
