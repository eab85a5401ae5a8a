// Random and bursty packet loss.
#pragma once

#include "tools/lab/medium/random.h"

#include <optional>

namespace tandem::medium
{

// The Gilbert-Elliott channel (Gilbert 1960, Elliott 1963), stepped once per packet: the chain first moves, then the
// packet is lost with the loss probability of the state it is in. Stationary loss = (r*good + p*bad) / (p + r); mean
// burst length = 1/r packets.
struct Gilbert
{
  double p = 0;    // probability good -> bad, per packet
  double r = 1;    // probability bad -> good, per packet
  double bad = 1;  // loss probability in the bad state (1 - h in Elliott's notation)
  double good = 0; // loss probability in the good state (1 - k)

  bool operator==(const Gilbert&) const = default;
};

struct LossSettings
{
  double random = 0; // independent loss, 0 .. 1
  std::optional<Gilbert> gilbert {};

  bool operator==(const LossSettings&) const = default;
};

class LossModel
{
public:
  explicit LossModel(Random random) : random_(random) {}

  // A changed setting keeps the state of the chain: a burst in progress goes on.
  void configure(const LossSettings& settings) { settings_ = settings; }

  // Whether the next packet is lost.
  bool lose()
  {
    bool lost = random_.chance(settings_.random);
    if (settings_.gilbert)
    {
      const Gilbert& chain = *settings_.gilbert;
      bad_ = bad_ ? !random_.chance(chain.r) : random_.chance(chain.p);
      lost |= random_.chance(bad_ ? chain.bad : chain.good);
    }
    return lost;
  }

private:
  Random random_;
  LossSettings settings_ {};
  bool bad_ = false;
};

} // namespace tandem::medium
