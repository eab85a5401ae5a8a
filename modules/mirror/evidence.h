// Was it the air or a full queue? One score for each episode of losses.
#pragma once

#include <cstdint>

namespace tandem::mirror
{

// What is known of an episode. Durations in seconds.
struct Evidence
{
  bool timed = false;      // the queueing delay is known
  bool timestamps = false; // and may soon be, if it is not yet
  double queued = 0;       // the most that was queued at one of its holes
  double top = 0; // the most that stood in the queue for a while in the last half minute, this episode included
  double rtt_min = 0;
  double recent = 0;      // the most that stood there in the last few seconds
  bool repeated = false;  // the last episodes all came at this delay
  bool growing = false;   // the sender seems to be in slow start
  bool unproved = false;  // the air surely loses something, and no loss has shown yet where the queue ends
  bool loaded = false;    // far less is lost once the sender has slowed down
  bool others = false;    // what other flows lose here is a full queue's, and this one knows little itself
  bool steered = false;   // Tandem's own window kept the queue below this
  std::uint32_t lost = 0; // bytes in holes
  std::uint32_t span = 0; // bytes from the first hole to the recovery point
  std::uint32_t holes = 0;
  double expected = 0;       // holes in so many bytes, at the rate of losses that were surely the air's
  bool radio = false;        // a fresh source of frames listens
  std::uint32_t damaged = 0; // holes at whose time it heard a damaged frame for this host
};

// The part of the evidence that decided.
enum class Weight : std::uint8_t
{
  none,    // there is none
  young,   // the flow is too young to know its queue
  queue,   // how full it was
  steered, // it was kept short
  others,  // what other flows lose here
  share,   // how much was lost at once
  load,    // far less is lost when less is sent
  radio,   // damaged frames heard, or not heard
};

struct Score
{
  double congestion = 1; // 0: the air, 1: a full queue
  Weight why = Weight::none;
};

// Delays below this are not told from none: timestamps tick in milliseconds (RFC 7323 5.4). In seconds.
constexpr double smallest_top = 0.003;

// How likely the losses are congestion's. A hole counts the more the fuller the queue was when it was made, measured by
// what the queue has been seen to hold; a mixed episode counts as its worst hole. Published (CoNEXT 2009): a corrupted
// frame received at that time means a random loss.
Score judge(const Evidence& evidence);

} // namespace tandem::mirror
