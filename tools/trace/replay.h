// `tandem trace replay`: a recording goes through the modules once more, by the same code as live, with other settings.
//
// Open loop: the packets of the recording are what its senders sent then. From the first decision that a sender would
// have noticed on, its packets would have been others; so a flow is followed up to that decision, and no further.
#pragma once

#include "src/chain/chain.h"
#include "src/trace/heading.h"
#include "tools/trace/flow_book.h"
#include "tools/trace/unread.h"

#include <tandem/admission.h>
#include <tandem/module.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::trace_tool
{

// One setting, checked: the knob takes the value.
struct KnobValue
{
  std::string module {};
  std::string knob {};
  double value = 0;
};

// What leaves this laptop of one packet, or beside packets.
struct Decision
{
  enum class What : std::uint8_t
  {
    sent,     // the packet, with `edit`
    dropped,  // the packet, thinned
    injected, // `bytes`, made by a module or the chain
  };
  What what = What::sent;
  Edit edit {};
  std::vector<std::byte> bytes {};
  Link by = Link::wifi;    // of what was injected
  std::string_view why {}; // a literal of a module's, or of the recording, kept by whoever reads it

  // Whether the same leaves by the same way; the reason may be another.
  bool sends_the_same(const Decision& other) const
  {
    return what == other.what && bytes == other.bytes && by == other.by && edit.ack == other.edit.ack
           && edit.window == other.edit.window && edit.ts_echo == other.edit.ts_echo
           && edit.ts_value == other.edit.ts_value && edit.ecn == other.edit.ecn && edit.route == other.edit.route;
  }
  bool operator==(const Decision& other) const { return why == other.why && sends_the_same(other); }
  // "passed", "ack 2000, by cell", "dropped", "injected by cell: 10.0.0.2:40000 > ... ".
  std::string text() const;
};

// The modules with their chain, in virtual time: alarms fire at their very times.
class Player
{
public:
  struct Settings
  {
    std::vector<KnobValue> knobs {};
    std::uint64_t seed = 0;
    bool cell = true; // whether there is a cellular link
  };

  // All of `modules` are switched on.
  Player(const Settings& settings, std::vector<std::shared_ptr<Module>> modules);

  using Injected = std::function<void(const FlowKey& flow, Tick at, Decision decision)>;

  // What happens by itself up to `until`; `injected` is told of each segment.
  void run(Tick until, const Injected& injected);
  // One packet at `now`, which may not be before the last call's.
  Decision segment(const Segment& segment, bool queued, Tick now, const Injected& injected);
  // Whether a packet like this is queued, copied or not seen, as live.
  Admission admit(const Segment& segment) const { return tandem::admit(wanted_, segment); }

  chain::Chain& chain() { return chain_; }

private:
  void carry_out(Tick now, const Injected& injected);

  std::vector<std::shared_ptr<Module>> modules_;
  chain::Chain chain_;
  Wanted wanted_ {};
  Tick next_ = Tick::min();
};

// Two decisions about the same packet that differ.
struct Difference
{
  std::uint64_t packet = 0; // number in the file; of an injected segment the packet it was found at
  std::int64_t time_ns = 0; // since 1970
  std::string segment {};   // the packet in words; "" of an injected segment
  std::string before {};    // without the settings, or what the recording says
  std::string after {};     // with them
  bool leaves = false;      // the sender would have noticed; else only the reason differs
};

struct ReplayedFlow
{
  BookedFlow flow {};
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;                                        // that arrived
  std::map<std::string, std::uint64_t, std::less<>> decisions {}; // by reason, up to the first difference that leaves
  std::vector<Difference> differences {};                         // in the reason only, at most `most_differences`
  std::optional<Difference> first {};                             // the first one that the sender would have noticed
};

struct ReplayOptions
{
  std::filesystem::path file {};
  Player::Settings with {};
  // Compared with: nothing done at all, the same modules with these settings, or what the recording says.
  enum class Against : std::uint8_t
  {
    nothing,
    settings,
    recording,
  };
  Against against = Against::nothing;
  Player::Settings without {};
  std::vector<Address> locals {};
  std::size_t most_differences = 20; // of each flow
};

struct Replay
{
  std::optional<trace::Heading> heading {};
  std::uint64_t packets = 0;
  std::uint64_t segments = 0;
  std::int64_t first_ns = 0, last_ns = 0;
  Unread unread {};
  std::uint64_t out_of_order = 0; // times that went backwards; such a packet counts as simultaneous with the last
  std::vector<ReplayedFlow> flows {};
  std::string fault {}; // what ended the file early; what came before it is replayed
};

// `make` gives a set of fresh modules each time. Throws trace::BadFile when nothing can be read.
using ModuleMaker = std::function<std::vector<std::shared_ptr<Module>>()>;
Replay replay(const ReplayOptions& options, const ModuleMaker& make);

} // namespace tandem::trace_tool
