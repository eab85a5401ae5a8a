// Whether losses come with the load: evidence for what drops packets without letting them wait long.
#pragma once

#include <tandem/units.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem::mirror
{

// The air loses the same share of what is sent, however much that is. A policer, a queue of a few packets or one under
// an AQM loses next to nothing once the sender has slowed down, at a delay that says little (RFC 2697, RFC 8289;
// docs/decisions/0008-wireless-losses.md). So two times are compared: those after an episode that was left to the
// sender, until the next one, and all others.
class LoadWatch
{
public:
  // So many segments more have arrived.
  void arrived(float segments, Tick now)
  {
    // When nothing was lost either once the sender had its window back, it was not that.
    if (easing_ && now >= eased_until_) easing_ = false;
    if (easing_)
    {
      gap_ += segments;
      return;
    }
    pressed_ += segments;
    if (pressed_ <= memory) return;
    pressed_ /= 2;
    pressed_lost_ /= 2;
  }

  // An episode that no delay explains.
  void lost()
  {
    if (easing_)
      end_gap();
    else
      pressed_lost_ += 1;
  }

  // The sender answers an episode.
  void answered(Tick now)
  {
    if (easing_) end_gap();
    easing_ = true;
    gap_ = 0;
    eased_until_ = now + eased;
  }

  // Whether far less is lost after answers than an air with the same share of losses would have. Where the air loses at
  // random that is said wrongly once or more in one of a hundred flows of a hundred episodes.
  bool tells() const
  {
    if (pressed_lost_ < enough) return false;
    const float share = pressed_lost_ / pressed_;
    float expected = easing_ ? std::min(share * gap_, most) : 0;
    for (std::size_t i = 0; i < gaps_; ++i)
      expected += std::min(share * static_cast<float>(last_[i]), most);
    return expected >= each * gaps_ + more;
  }

private:
  // For so long an answer has an effect: until a sender has its window back (with CUBIC 4 s, RFC 9438 4.2, where that
  // is a hundred segments).
  static constexpr Duration eased = std::chrono::seconds { 5 };
  static constexpr float memory = 20000; // segments at other times
  static constexpr float enough = 10;    // episodes then
  static constexpr float each = 3, more = 6;
  // One answer alone counts no more: the air may have begun to lose something after it.
  static constexpr float most = 12;

  void end_gap()
  {
    easing_ = false;
    std::copy_backward(last_.begin(), last_.end() - 1, last_.end());
    last_[0] = static_cast<std::uint16_t>(std::min(gap_, 65535.0f));
    gaps_ = static_cast<std::uint8_t>(std::min<std::size_t>(gaps_ + 1u, last_.size()));
  }

  bool easing_ = false;
  std::uint8_t gaps_ = 0;
  std::array<std::uint16_t, 4> last_ {}; // segments between an answer and the next episode, the newest first
  float gap_ = 0;                        // since the last answer
  float pressed_ = 0, pressed_lost_ = 0;
  Tick eased_until_ {};
};

} // namespace tandem::mirror
