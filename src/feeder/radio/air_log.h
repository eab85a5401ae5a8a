// Makes radio events of captured frames: which of them are our access point's, and what became of our own. Pure.
#pragma once

#include "src/feeder/radio/frame.h"
#include "src/feeder/radio/radio_event.h"

#include <array>

namespace tandem::feeder
{

class AirLog
{
public:
  // After so many attempts in a row without an acknowledgement a frame counts as given up (dot11ShortRetryLimit).
  static constexpr unsigned attempts = 7;

  explicit AirLog(const Mac& own) : own_ { own } {}

  // The event that a frame captured at `at` makes. The access point is learned from the frames that go to and fro.
  RadioEvent take(const Frame& frame, Tick at);
  const std::optional<Mac>& ap() const { return ap_; }
  // The association has ended: there is no access point of ours until frames go to and fro again.
  void forget_ap();

private:
  void note_for_us(const Frame& frame, RadioEvent& event);

  Mac own_;
  std::optional<Mac> ap_ {};
  std::optional<Mac> ap_asked_ {}; // we sent to this one, which has not answered yet
  std::optional<Mac> awaiting_ {}; // who sent the latest frame to our access point: the next acknowledgement is for it
  unsigned unanswered_ = 0;
  std::uint64_t last_sent_ = 0; // frames of one aggregate carry the same time

  // Frames for us that were heard damaged, the newest ones.
  struct Damaged
  {
    std::uint16_t sequence = 0;
    Tick at {};
  };
  std::array<Damaged, 32> damaged_ {};
  std::size_t damaged_count_ = 0;
};

} // namespace tandem::feeder
