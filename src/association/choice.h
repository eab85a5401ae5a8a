// Which access points in range are worth a virtual station beside the card's own association, and when one is given up.
// Pure: time and all that is heard are handed in.
//
// As in Croitoru et al. (NSDI 2015), section 2, every access point that can be used is associated with, and MPTCP's
// senders, steered by modules/ecn, choose among them: signal alone does not tell the best one. Beyond the paper: the
// card's own association comes first, and no access point comes and goes faster than it is of use.
#pragma once

#include "src/association/rests.h"

#include <tandem/units.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tandem::association
{

// How each virtual station is named; a number follows.
constexpr const char* own_prefix = "tandem-sta";

struct Heard
{
  Mac ap {};
  std::string ssid {};            // any bytes; empty when hidden
  unsigned frequency = 0;         // MHz
  std::optional<float> signal {}; // dBm
  std::optional<Duration> age {}; // since it was heard
};

// Older than this, a scan says little: a walk of 1 m/s has left 15 m behind.
constexpr Duration stale_scan = std::chrono::seconds { 15 };

// A virtual station that Tandem made.
struct Station
{
  std::string interface {
  };
  Mac ap {};
  bool associated = false;
  std::optional<float> signal {}; // dBm, as its driver counts; absent: as heard
  unsigned frequency = 0;         // MHz, when it was made; what is heard of the access point counts first
};

struct Situation
{
  Tick now {};
  std::vector<Heard> heard {};
  // Names that the user has configured, and neither disabled, excluded nor bound to one access point; nothing: nobody
  // tells.
  std::optional<std::set<std::string>> networks {};
  bool seen = true;          // false: the card could not be asked, and nothing is known of `heard` and `own`
  std::optional<Mac> own {}; // the access point of the card itself; none: not associated
  std::string interface {
  }; // the card's own
  std::vector<Station> stations {};
  std::size_t most = 0; // access points in all, the card's own included; below 2: no virtual station
  // Why this card can have no virtual station, or no more of them; empty: it can.
  std::string cannot {};
  // On how many channels all of them may be, the card's own included, and at how many access points when it is more
  // than one. `one_channel`: why it is one.
  std::size_t channels = 1;
  std::size_t most_apart = 0;
  std::string one_channel {};
};

// One access point, and what is to be with it.
struct Judgement
{
  Heard heard {};
  std::string interface {
  };                  // that is associated with it; empty: none
  bool worth = false; // a station, or the card itself, is to be there
  std::string why {}; // in a few words for the user
};

struct Choice
{
  std::vector<Judgement> all {}; // strongest first
  std::optional<Mac> join {};    // at most one at a time
  struct Leave
  {
    std::string interface {
    };
    std::string why {};
  };
  std::vector<Leave> leave {};
};

// The newest word on each access point: one that has changed its channel is listed on both for a while.
std::vector<Heard> newest(const std::vector<Heard>& all);

// What was heard of this access point; null: nothing.
const Heard* heard_of(const std::vector<Heard>& all, const Mac& ap);
// MHz on which the access point is heard; `otherwise` where it is not, or nothing tells.
unsigned frequency_of(const std::vector<Heard>& all, const Mac& ap, unsigned otherwise);

class Chooser
{
public:
  // IEEE 802.11-2016, 19.3.19.2: what a receiver must be able to hear in 20 MHz. One that is joined carries MCS 3
  // (26 Mb/s and a stream), one that is left no longer carries MCS 0.
  static constexpr float join_signal = -74, leave_signal = -82; // dBm
  // One that is as much stronger as one step of the two takes the place of another when there is no more room.
  static constexpr float stronger = 8; // dB

  // Call at most some times a second while stations are kept or wanted; what it returns is to be done.
  Choice look(const Situation& now);

  // The association was tried and did not come about, or ended by itself, or no address was to be had there.
  void failed(const Mac& ap, Tick now, std::string why);

private:
  std::string against(const Heard& heard, const Heard* own, const Situation& now) const;
  std::vector<Station> who_stays(const Situation& now, const Heard* own, std::size_t room, Choice& choice);

  Rests rests_ {};
  std::map<Mac, Tick> weak_since_ {};
  std::map<Mac, Tick> stronger_since_ {};
};

} // namespace tandem::association
