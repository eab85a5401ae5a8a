// Sends injected packets by a chosen interface, marked so that no rule queues them.
#pragma once

#include "src/kernel/marks.h"
#include "src/kernel/packet/raw_sockets.h"

#include <tandem/link.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tandem::kernel
{

class Injector
{
public:
  explicit Injector(const Marks& marks) : marks_ { marks } {}

  // Binds `link` to an interface name; an empty name closes it. Called again after the interface was recreated. The
  // interface need not exist yet: send() then returns ENODEV. Throws std::system_error without CAP_NET_RAW.
  void bind(Link link, const std::string& interface);
  // What is sent by `link` from now on goes where the routes of this host lead it, as packets of its own TCP do.
  void follow_routes(Link link);

  // As RawSockets::send(), counted.
  int send(std::span<const std::byte> packet, Link link) noexcept;

  struct Stats
  {
    std::uint64_t packets = 0;
    std::uint64_t failures = 0;
  };
  const Stats& stats(Link link) const { return stats_[static_cast<std::size_t>(link)]; }

private:
  Marks marks_;
  std::array<RawSockets, link_count> sockets_ {};
  std::array<Stats, link_count> stats_ {};
};

} // namespace tandem::kernel
