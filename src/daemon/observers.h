// The observers of all links on the packet thread's loop: which packets are copied, and how many of them.
#pragma once

#include "src/kernel/packet/observer.h"

#include <tandem/admission.h>
#include <tandem/link.h>
#include <tandem/units.h>

#include <ev.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tandem::daemon
{

class Observers
{
public:
  // A copy of a packet of the link's interface.
  using Take = std::function<void(Link, const kernel::ObservedPacket&)>;

  // `one_in`: sampling to begin with. `done` is called from the loop after copies of a link were taken in; `down` says
  // that its interface is down or gone.
  Observers(struct ev_loop* loop, std::uint32_t one_in, Take take, std::function<void(Link, bool down)> done);
  ~Observers();
  Observers(const Observers&) = delete;
  Observers& operator=(const Observers&) = delete;

  // What is to be observed from now on; nothing without `ifindex`. Says so once in the log when it does not work.
  void want(Link link, const std::string& interface, int ifindex, const Wanted& wanted);
  // Takes in what waits, at once. False when the interface is down or gone.
  bool drain(Link link);
  // Follows the traffic, so that about `observed_per_second` copies are made on each link.
  void retune(Tick now);

  bool observing(Link link) const { return at(link).observer.has_value(); }
  std::uint32_t one_in(Link link) const { return at(link).sampling.one_in; }
  std::uint64_t seen(Link link) const { return at(link).seen; }

private:
  // About so many are enough for RTT and path validation.
  static constexpr double observed_per_second = 1000;

  struct One
  {
    Observers* all = nullptr;
    Link link = Link::wifi;
    int ifindex = 0;
    std::optional<kernel::Observer> observer {};
    kernel::Sampling sampling {};
    std::uint64_t seen = 0, seen_before = 0;
    bool complained = false, told_fault = false;
    ev_io io {};
  };
  const One& at(Link link) const { return ones_[static_cast<std::size_t>(link)]; }
  One& at(Link link) { return ones_[static_cast<std::size_t>(link)]; }
  void close(One& one);

  struct ev_loop* loop_;
  Take take_;
  std::function<void(Link, bool)> done_;
  Tick tuned_ {};
  std::array<One, link_count> ones_ {};
};

} // namespace tandem::daemon
