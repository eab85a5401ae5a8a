// What MPTCP downloads bring and MPTCP uploads take away by Wi-Fi and by cellular, all of them together.
#pragma once

#include <tandem/module.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tandem::rate
{

struct Carried
{
  std::uint64_t wifi = 0, cell = 0; // bytes, of flows that ended too
  Tick queue_at {};                 // when one on Wi-Fi last had a queue
};

// How many send, within a second or two.
class Senders
{
public:
  // One of them does; `last`: when it was last told so.
  void sends(Tick& last, Tick now)
  {
    roll(now);
    if (last < began_) ++count_;
    last = now;
  }
  std::uint32_t count(Tick now)
  {
    roll(now);
    return std::max(count_, before_);
  }

private:
  void roll(Tick now)
  {
    constexpr Duration span = std::chrono::seconds { 1 };
    if (now - began_ < span) return;
    before_ = now - began_ < 2 * span ? count_ : 0;
    count_ = 0;
    began_ = now;
  }
  Tick began_ {};
  std::uint32_t count_ = 0, before_ = 0;
};

struct Subflows
{
  Carried down {}, up {};    // acknowledged by this host, by the peer
  Tick upload_at {};         // when an upload last moved on Wi-Fi
  Senders by_cell {};        // uploads
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
  // Whether what it sends is an upload's.
  bool uploads(const FlowView& flow, Tick now) const;
  // Nothing is promised: what it has brought and taken until now is not accounted for later.
  void pass_over(const FlowView& flow);
  // `queue_up`: what it sends waits somewhere.
  void account(const FlowView& flow, Tick now, bool queue_up, Subflows& to);

  Subflows* all = nullptr;
  std::uint64_t counted = 0; // bytes that `all` knows of
  Seq una {};                // what the peer has acknowledged; 0: nothing was seen yet
  std::uint64_t sent = 0;    // bytes of it
  std::uint64_t told_up = 0; // likewise, that `all` knows of; of cellular only
  Tick sent_at {};           // by cellular, as part of an upload
  bool is_wifi = false, is_denied = false;
};

} // namespace tandem::rate
