// What MPTCP downloads bring by Wi-Fi and by cellular, all of them together.
#pragma once

#include <tandem/module.h>

#include <cstdint>

namespace tandem::rate
{

struct Subflows
{
  std::uint64_t wifi = 0, cell = 0; // bytes, of flows that ended too
  std::uint32_t on_wifi = 0;        // subflows now
  std::uint32_t denied = 0;         // whose peer must not be reached by cellular
  Tick queue_at {};                 // when one on Wi-Fi last had a queue
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
  void account(const FlowView& flow, Tick now, Subflows& to);

  Subflows* all = nullptr;
  std::uint64_t counted = 0; // bytes that `all` knows of
  bool is_wifi = false, is_denied = false;
};

} // namespace tandem::rate
