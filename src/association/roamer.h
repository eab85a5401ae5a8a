// When the card's own association moves because a module asks for it (RequestKind::roam), and whereto. Pure: time and
// all that is known are handed in.
//
// The module says when a handoff is near; that nothing is lost by it is seen to here: the card stays in its network,
// leaves nothing that is as good, does not go to and fro, and asks ever more seldom when it does not work out.
#pragma once

#include "src/association/choice.h"
#include "src/association/rests.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tandem::association
{

class Roamer
{
public:
  // An access point has to be so much stronger, dB: more than one reading differs from the next by (3 dB), of both.
  static constexpr float margin = 5;
  // From the word to the modules to the roam: a round trip, and some more.
  static constexpr Duration ready_for = std::chrono::milliseconds { 300 };
  // How long a roam may take; EAP takes some seconds.
  static constexpr Duration roam_limit = std::chrono::seconds { 10 };
  // No way back before this, and no other roam.
  static constexpr Duration not_back = std::chrono::seconds { 60 }, apart = std::chrono::seconds { 10 };

  struct Seen
  {
    Tick now {};
    bool wanted = false; // a module's request stands
    std::string interface {
    };                      // the card's own
    std::string problem {}; // why nothing can be asked of wpa_supplicant; empty: it can
    std::string state {};   // wpa_supplicant's word, "COMPLETED" when it is neither associating nor authenticating
    std::optional<Mac> own {};
    std::set<Mac> links {};         // all addresses of that association: `own` is one of them, whichever (802.11be)
    std::optional<float> signal {}; // dBm, of the own access point as its driver counts; absent: as heard
    std::vector<Heard> heard {};
    std::set<std::string> networks {}; // as Situation::networks
    bool stations = false;             // virtual stations hold the channel
  };

  struct Step
  {
    std::optional<Mac> announce {}; // a roam to it is near; unwanted() when the user's network is not for it
    std::optional<Mac> ask {};      // it is to be asked for now; refused() when wpa_supplicant does not agree
    bool arrived = false;           // what was announced is over, and the card is there
    Tick next = Tick::max();        // look again
    std::string said {};            // for the log
    bool problem = false;           // of that
  };
  Step look(const Seen& seen);
  // What look() announced must not be: another one is chosen next.
  void unwanted(const std::string& why, Tick now);
  // wpa_supplicant did not agree to what look() asked for.
  void refused(const std::string& why, Tick now);

  // Whether it waits for something, wanted or not.
  bool busy() const { return phase_ != Phase::idle; }

  struct Counters
  {
    std::uint64_t asked = 0;  // roams, of wpa_supplicant
    std::uint64_t moved = 0;  // the card went there
    std::uint64_t worse = 0;  // of these: not better than where it came from
    std::uint64_t failed = 0; // it did not, or wpa_supplicant refused
    std::uint64_t stayed = 0; // times that a request, or what stood against it, was another one, and nothing was asked
  };
  const Counters& counters() const { return counters_; }
  // What became of the last request, for the user; empty: there was none.
  const std::string& last() const { return last_; }

private:
  enum class Phase : std::uint8_t
  {
    idle,
    announced, // modules get ready
    moving,    // wpa_supplicant was asked
    judged,    // there; whether it was worth it is seen a little later
  };
  struct Chosen
  {
    std::optional<Mac> to {};
    std::string why {};   // against it
    bool problem = false; // the user can do something about it
  };

  Chosen choose(const Seen& seen) const;
  void follow_own(const Seen& seen);
  void idle(const Seen& seen, Step& step);
  void announced(const Seen& seen, Step& step);
  void moving(const Seen& seen, Step& step);
  void judged(const Seen& seen, Step& step);
  void stay(const Chosen& chosen, Step& step);
  void fail(const std::string& why, Tick now);
  void rest(Tick now, const std::string& why);

  Phase phase_ = Phase::idle;
  Tick since_ {}; // of the phase
  Mac to_ {}, from_ {};
  std::optional<float> from_signal_ {};
  Rests rests_ {};    // of access points that it did not work out with
  Rests all_rest_ {}; // nothing is asked at all; of the address that is nobody's
  std::optional<Mac> own_ {};
  std::set<Mac> links_ {}; // of `own_`
  Tick own_seen_ {};
  Tick moved_at_ = Tick::min(); // by whomever
  std::map<Mac, Tick> left_ {};
  std::string against_ {}; // this time
  std::string said_ {};    // in the log
  std::string last_ {};
  Counters counters_ {};
};

} // namespace tandem::association
