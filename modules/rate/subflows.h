// What MPTCP downloads bring and MPTCP uploads take away by Wi-Fi and by cellular, all of them together.
#pragma once

#include <tandem/module.h>

#include <cstdint>

namespace tandem::rate
{

struct Carried
{
  std::uint64_t wifi = 0, cell = 0; // bytes, of flows that ended too
  Tick queue_at {};                 // when one on Wi-Fi last had a queue
};

struct Subflows
{
  Carried down {}, up {};    // acknowledged by this host, by the peer
  std::uint32_t on_wifi = 0; // subflows now
  std::uint32_t denied = 0;  // whose peer must not be reached by cellular
};

// Of one subflow. Takes itself off at its end.
struct Subflow
{
  Subflow() = default;
  Subflow(const Subflow&) = delete;
  Subflow& operator=(const Subflow&) = delete;
  ~Subflow()
  {
    if (all == nullptr) return;
    all->on_wifi -= is_wifi ? 1u : 0u;
    all->denied -= is_denied ? 1u : 0u;
  }
  // `queue_up`: what it sends waits somewhere.
  void account(const FlowView& flow, Tick now, bool queue_up, Subflows& to);

  Subflows* all = nullptr;
  std::uint64_t counted = 0; // bytes that `all` knows of
  Seq una {};                // what the peer has acknowledged; 0: nothing was seen yet
  std::uint64_t sent = 0;    // bytes of it
  bool is_wifi = false, is_denied = false;
};

} // namespace tandem::rate
