#include "src/feeder/radio/air_log.h"

#include <algorithm>

namespace tandem::feeder
{

namespace
{

bool is_group(const Mac& address)
{
  return (address[0] & 1) != 0;
}

} // namespace

RadioEvent AirLog::take(const Frame& frame, Tick at)
{
  RadioEvent event { .at = at };
  const auto of_ours = [&](RadioEventKind kind)
  {
    event.kind = kind;
    event.signal = frame.signal;
    return event;
  };

  if (frame.kind == Frame::Kind::acknowledgement)
  {
    const bool expected = awaiting_ == frame.receiver;
    awaiting_.reset();
    // For our access point: by us, most often, and in any case the echo of what it sent.
    if (ap_ == frame.receiver) event.kind = RadioEventKind::sent;
    if (!expected || frame.damaged) return event;
    if (frame.receiver != own_) return of_ours(RadioEventKind::heard);
    unanswered_ = 0;
    if (ap_asked_)
    {
      const bool moved = ap_ && ap_ != ap_asked_;
      ap_ = ap_asked_;
      ap_asked_.reset();
      if (moved) return of_ours(RadioEventKind::associated);
    }
    return of_ours(RadioEventKind::acknowledged);
  }
  awaiting_.reset();
  if (!frame.transmitter) return event;

  if (*frame.transmitter == own_)
  {
    event.kind = RadioEventKind::sent;
    if (!frame.to_ap) return event;
    awaiting_ = own_;
    ap_asked_.reset();
    if (ap_ != frame.receiver) ap_asked_ = frame.receiver;
    event.attempt = frame.sent == 0 || frame.sent != last_sent_;
    event.retry = frame.retry;
    if (event.attempt) ++unanswered_;
    last_sent_ = frame.sent;
    if (unanswered_ < attempts) return event;
    unanswered_ = 0;
    event.kind = RadioEventKind::failed;
    return event;
  }
  if (ap_ && frame.to_ap && frame.receiver == *ap_ && !frame.damaged) awaiting_ = frame.transmitter;
  if (!frame.damaged && frame.from_ap && frame.receiver == own_ && frame.kind == Frame::Kind::data
      && ap_ != frame.transmitter)
  {
    const bool moved = ap_.has_value();
    ap_ = frame.transmitter;
    ap_asked_.reset();
    return of_ours(moved ? RadioEventKind::associated : RadioEventKind::heard);
  }
  if (ap_ != frame.transmitter) return event;
  if (frame.receiver == own_ && frame.kind == Frame::Kind::data) note_for_us(frame, event);
  switch (frame.kind)
  {
  case Frame::Kind::beacon:
    return of_ours(RadioEventKind::beacon);
  case Frame::Kind::goodbye:
    event.deauthentication = !frame.damaged && (frame.receiver == own_ || is_group(frame.receiver));
    break;
  case Frame::Kind::data:
  case Frame::Kind::acknowledgement:
  case Frame::Kind::other:
    break;
  }
  return of_ours(RadioEventKind::heard);
}

void AirLog::forget_ap()
{
  ap_.reset();
  ap_asked_.reset();
  awaiting_.reset();
  unanswered_ = 0;
}

// Most damaged frames are repeated at once and lose nothing. The attempts have one number, which wraps after 4096
// frames.
void AirLog::note_for_us(const Frame& frame, RadioEvent& event)
{
  if (!frame.sequence)
  {
    event.damaged = frame.damaged;
    return;
  }
  constexpr Duration repeated_within = std::chrono::milliseconds { 100 };
  Damaged* known = nullptr;
  for (std::size_t i = 0; i < std::min(damaged_count_, damaged_.size()); ++i)
    if (damaged_[i].sequence == *frame.sequence && damaged_[i].at != Tick {}
        && event.at - damaged_[i].at < repeated_within)
      known = &damaged_[i];
  if (!frame.damaged && known != nullptr)
  {
    event.repaired = known->at;
    known->at = Tick {};
  }
  if (!frame.damaged || known != nullptr) return;
  event.damaged = true;
  damaged_[damaged_count_++ % damaged_.size()] = { *frame.sequence, event.at };
}

} // namespace tandem::feeder
