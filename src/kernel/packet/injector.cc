#include "src/kernel/packet/injector.h"

#include <utility>

namespace tandem::kernel
{

void Injector::bind(Link link, const std::string& interface)
{
  RawSockets& by = sockets_[static_cast<std::size_t>(link)];
  by = {};
  if (interface.empty()) return;
  std::uint32_t mark = marks_.injected.value;
  if (link == Link::cell) mark = marks_.by_cell.on(mark);
  RawSockets open { mark };
  // The interface may go between any two calls. It stays closed then: send() says ENODEV until bound again.
  if (open.bind(interface)) by = std::move(open);
}

void Injector::follow_routes(Link link)
{
  sockets_[static_cast<std::size_t>(link)] = RawSockets { marks_.injected.value };
}

int Injector::send(std::span<const std::byte> packet, Link link) noexcept
{
  const auto at = static_cast<std::size_t>(link);
  const int code = sockets_[at].send(packet);
  ++(code == 0 ? stats_[at].packets : stats_[at].failures);
  return code;
}

} // namespace tandem::kernel
