// Whether losses come with the load: evidence for what drops packets without letting them wait.
#pragma once

#include <algorithm>

namespace tandem::mirror
{

// The air loses the same share of what is sent, however much that is. A policer, a queue of a few packets or one under
// an AQM loses next to nothing once the sender has slowed down, at a delay that says nothing (RFC 2697, RFC 8289;
// docs/decisions/0008-wireless-losses.md). So two times are compared: those after an episode that was left to the
// sender, until the next one, and all others.
class LoadWatch
{
public:
  // So many segments more have arrived.
  void arrived(float segments)
  {
    (eased_left_ > 0 ? eased_ : pressed_) += segments;
    eased_left_ -= segments;
    if (eased_ + pressed_ > memory)
      for (float* count : { &eased_, &pressed_, &eased_lost_, &pressed_lost_ })
        *count /= 2;
  }

  // An episode that no delay explains.
  void lost()
  {
    (eased_left_ > 0 ? eased_lost_ : pressed_lost_) += 1;
    eased_left_ = 0;
  }

  // The sender answers an episode.
  void answered() { eased_left_ = eased; }

  // Whether far less is lost after answers than an air with the same share of losses would have. Where the air loses at
  // random that is said wrongly once or more in 0.6 % of flows of a hundred episodes.
  bool tells() const
  {
    return pressed_lost_ >= enough && pressed_lost_ * eased_ >= pressed_ * (each * eased_lost_ + more);
  }

private:
  // Segments within which an answer has an effect; and so many of them are remembered in all.
  static constexpr float eased = 1500;
  static constexpr float memory = 20000;
  static constexpr float enough = 10; // episodes
  static constexpr float each = 3, more = 6;

  float eased_left_ = 0;
  float eased_ = 0, pressed_ = 0;
  float eased_lost_ = 0, pressed_lost_ = 0;
};

} // namespace tandem::mirror
