// All sources of driver statistics in one place: each within its rate, validated, stale when it falls silent; and what
// their reports mean for the link, the access points and the modem. Does I/O only through its sources.
#pragma once

#include "src/feeder/radio/air_log.h"
#include "src/feeder/radio/busy_meter.h"
#include "src/feeder/radio/estimator.h"
#include "src/feeder/radio/own_load.h"
#include "src/feeder/radio/radio_event.h"
#include "src/feeder/radio/report_validation.h"
#include "src/feeder/radio/station_log.h"
#include "src/feeder/radio/token_bucket.h"
#include "src/feeder/sources/source.h"

#include <tandem/link.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::feeder
{

class Feeder
{
public:
  // A line for the log: whether it is a problem, and the words.
  using Say = std::function<void(bool problem, const std::string& words)>;
  // Gets every report that was let in, before anything is made of it.
  using Tap = std::function<void(const std::string& source, const Report&)>;

  // `own`: the addresses of our Wi-Fi interface.
  Feeder(std::vector<std::unique_ptr<Source>> sources, std::vector<Mac> own, Say say, EstimatorSettings settings = {});

  // Takes in everything that has come; appends what it means for the link to our access point. Tries again to open what
  // is closed.
  void receive(Tick now, std::vector<RadioEvent>& events);
  // Our links have other interfaces now, but for the Wi-Fi one.
  void set_interfaces(const std::vector<std::string>& interfaces);
  // When receive() wants to be called although no descriptor is readable.
  Tick due() const;
  struct Descriptor
  {
    int fd = -1;
    bool frames = false; // many a second: need not be read at once while nobody waits for them
  };
  std::vector<Descriptor> descriptors() const;
  void tap(Tap tap) { tap_ = std::move(tap); }

  // A source of frames is open, and has not fallen silent.
  bool hears_frames() const;
  // Its signal is a measured one: it varies.
  bool signal_validated() const;
  // What is known of the access point that we are associated with; nothing when stale or not associated.
  std::optional<ApEstimate> current() const;
  // The same for modules, without signals that are not measured ones.
  std::optional<RadioState> radio() const;
  // MHz on which we are associated: as frames were heard, else as a scan or the survey has it. 0: not known.
  unsigned frequency() const;
  const std::optional<Mac>& ap() const { return ap_; }
  const ApEstimator& estimator() const { return estimator_; }
  const std::map<std::string, ModemStats>& modems() const { return modems_; }
  const std::map<std::string, InterfaceChange>& interfaces() const { return interfaces_; }
  const std::map<unsigned, Survey>& surveys() const { return surveys_; } // by frequency
  struct Known
  {
    Candidate candidate;
    Tick at {};

    Tick heard() const { return at - candidate.age.value_or(Duration {}); }
  };
  const std::map<Mac, Known>& candidates() const { return candidates_; }
  // dBm, of the strongest other access point with our network's name that was seen lately.
  std::optional<float> best_candidate() const;

  enum class State : std::uint8_t
  {
    closed, // it does not work: see problem
    silent, // open, nothing has come yet
    fresh,
    stale, // it has spoken, and then no more: it does not count
  };
  struct Status
  {
    std::string name;
    State state = State::closed;
    std::string problem;
    std::uint64_t reports = 0;
    std::uint64_t skipped = 0; // not usable
    std::uint64_t limited = 0; // beyond the rate limit
    std::uint64_t stale = 0;   // times it fell silent
    std::optional<Duration> age {};
    std::array<std::uint64_t, doubt_count> doubts {};
  };
  std::vector<Status> status(Tick now) const;

private:
  struct Slot
  {
    explicit Slot(std::unique_ptr<Source> s)
        : source { std::move(s) }, gate { double(source->rate_limit()), double(source->rate_limit()) }
    {
    }

    std::unique_ptr<Source> source;
    TokenBucket gate; // a second's worth at once
    ReportValidation validation {};
    Tick tried {};
    Tick last {};
    Tick said_at {};
    bool frames = false; // it gives frames
    bool driver = false; // it gives station statistics
    bool modem = false;  // it tells of modems
    bool steady = false; // it tells something again and again, not only when something happens
    bool is_stale = false;
    bool said_closed = false;
    std::array<bool, doubt_count> said_doubt {};
    std::uint64_t reports = 0, limited = 0, stale = 0;
  };

  void read(Slot& slot, Tick now, std::vector<RadioEvent>& events);
  void take(Slot& slot, const Report& report, std::vector<RadioEvent>& events);
  void tell_doubts(Slot& slot);
  void went_away(const Slot& slot);
  bool driver_tells_ap() const;
  void follow_own(const Slot& slot);
  bool may_fall_silent(const Slot& slot) const;
  bool make_room_for(const Candidate& fresh);
  void check_staleness(Slot& slot, Tick now);

  std::vector<Slot> slots_;
  Say say_;
  Tap tap_ {};
  Mac own_;
  AirLog air_;
  StationLog station_ {};
  ApEstimator estimator_;
  std::optional<Mac> ap_ {}, ap_told_ {};
  std::map<std::string, ModemStats> modems_ {};
  std::map<std::string, InterfaceChange> interfaces_ {};
  std::map<unsigned, Survey> surveys_ {};
  BusyMeter busy_ {};
  OwnLoad load_;
  Tick seen_ {}; // when the sources were read last
  std::map<Mac, Known> candidates_ {};
  std::vector<Report> reports_ {};
};

constexpr std::string_view name(Feeder::State state)
{
  constexpr std::string_view names[] = { "closed", "silent", "fresh", "stale" };
  return names[static_cast<std::size_t>(state)];
}

} // namespace tandem::feeder
