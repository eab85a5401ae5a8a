// What a real sender's receiver said, written down by senders/record.py, played to a Tracker.
#pragma once

#include "src/flow/tracker.h"

#include <tandem/flow.h>
#include <tandem/segment.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

namespace tandem::flow::test
{

class Recorded
{
public:
  // Of senders/NAME.acks.
  explicit Recorded(const std::string& name) : file_ { std::string { TANDEM_SENDERS } + '/' + name + ".acks" }
  {
    view.bypass = Bypass::mid_flow;
  }

  bool readable() const { return file_.good(); }

  // Plays it all; `each` is called after every ACK.
  void play(const std::function<void()>& each = [] {})
  {
    std::string word;
    while (file_ >> word)
    {
      if (word == "#")
        std::getline(file_, word);
      else if (word == "rtt")
        open();
      else if (ack(word))
        each();
    }
  }

  std::function<void(const Segment&)> also = [](const Segment&) {}; // is handed every segment, too
  FlowView view {};
  Tick now { std::chrono::seconds { 1 } };

private:
  void open()
  {
    std::int64_t rtt = 0;
    std::string word, order;
    unsigned mss = 0;
    file_ >> rtt >> word >> order >> word >> mss;
    view.first_seen = now;
    Segment syn = bare(tcp_flag::syn);
    syn.seq = { 0 };
    offer(syn, "24813");
    hand_on(syn);
    now += std::chrono::microseconds { rtt };
    Segment answer = bare(tcp_flag::syn | tcp_flag::ack);
    answer.direction = Direction::ingress;
    answer.ack = { 1 };
    offer(answer, order);
    answer.mss = static_cast<std::uint16_t>(mss);
    hand_on(answer);
    now -= std::chrono::microseconds { rtt };
    number_ = { 1 };
    timestamps_ = view.timestamps_ok;
  }

  void hand_on(const Segment& segment)
  {
    tracker_.seen(segment, view, now);
    also(segment);
  }

  static Segment bare(std::uint16_t flags)
  {
    Segment segment {};
    segment.flags = flags;
    segment.window = 65535;
    return segment;
  }

  static void offer(Segment& syn, const std::string& order)
  {
    syn.option_order = static_cast<std::uint32_t>(std::stoul(order, nullptr, 16));
    syn.mss = std::uint16_t { 1460 };
    syn.options = option::mss;
    for (const char kind : order)
    {
      if (kind == '3') syn.options |= option::window_scale;
      if (kind == '4') syn.options |= option::sack_permitted;
      if (kind == '8') syn.options |= option::timestamps;
    }
    if (syn.has_option(option::window_scale)) syn.window_scale = std::uint8_t { 10 };
    if (syn.has_option(option::timestamps)) syn.timestamps = Timestamps {};
  }

  bool ack(const std::string& word)
  {
    std::istringstream from { word };
    std::int64_t later = 0, moved = 0, echo = 0;
    char comma = 0;
    if (!(from >> later >> comma >> moved >> comma >> echo)) return false;
    now += std::chrono::microseconds { later };
    number_ = number_ + static_cast<std::uint32_t>(moved);
    echo_ = echo_ + static_cast<std::int32_t>(echo);
    Segment segment = bare(tcp_flag::ack);
    segment.seq = { 1 };
    segment.ack = number_;
    if (timestamps_) segment.timestamps = Timestamps { { 0 }, echo_ };
    std::uint32_t left = 0, right = 0;
    char dash = 0;
    while (from >> comma >> left >> dash >> right)
      segment.sack_blocks[segment.sack_count++] = { number_ + left, number_ + right };
    hand_on(segment);
    tracker_.left(segment, segment.ack, segment.window, {}, view, now);
    return true;
  }

  std::ifstream file_;
  Tracker tracker_ {};
  Seq number_ {};
  TsClock echo_ {};
  bool timestamps_ = false;
};

} // namespace tandem::flow::test
