// Sends injected packets by a chosen interface, marked so that no rule queues them.
#pragma once

#include "src/kernel/marks.h"

#include <tandem/link.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tandem::kernel
{

class Injector
{
public:
  explicit Injector(const Marks& marks);
  ~Injector();
  Injector(const Injector&) = delete;
  Injector& operator=(const Injector&) = delete;

  // Binds `link` to an interface name; an empty name closes it. Called again after the interface was recreated. The
  // interface need not exist yet: send() then returns ENODEV. Throws std::system_error without CAP_NET_RAW.
  void bind(Link link, const std::string& interface);
  // What is sent by `link` from now on goes where the routes of this host lead it, as packets of its own TCP do.
  void follow_routes(Link link);

  // A whole IPv4 or IPv6 packet with valid checksums. Never blocks. 0 or an errno (EAGAIN: device queue full, ENODEV,
  // ENETDOWN, EMSGSIZE, EINVAL for what is no IP packet).
  int send(std::span<const std::byte> packet, Link link) noexcept;

  struct Stats
  {
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;
    std::uint64_t failures = 0;
    int last_error = 0;
  };
  const Stats& stats(Link link) const;

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace tandem::kernel
