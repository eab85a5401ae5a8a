// What was learnt, by place. Bounded: the least recently used is forgotten, and counted.
#pragma once

#include "src/evidence/place.h"
#include "src/evidence/tally.h"

#include <tandem/units.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::evidence
{

struct Network
{
  std::uint32_t id = 0;
  NetworkSigns signs {};
  WallTime used = 0;

  // For people: its SSID, else its gateway.
  const std::string& name() const { return signs.ssid.empty() ? signs.gateway : signs.ssid; }
  bool operator==(const Network&) const = default;
};

// Of one place: by module, and by what acts together ("freeze+mirror").
struct Record
{
  std::map<std::string, Tally, std::less<>> tallies {};
  WallTime used = 0;

  bool operator==(const Record&) const = default;
};

// A cellular path by which nothing reached the server: a source filter, a NAT. A fact of the path, whoever found it.
struct PathNote
{
  static constexpr WallTime longest_rest = 6 * 3600;

  std::uint8_t failures = 0; // in a row; towards all servers: groups of them
  WallTime until = 0;        // it is not tried before
  WallTime used = 0;

  // For how long still it is not tried. With a clock set back that is not longer than it could have been: no time.
  WallTime rests(WallTime now) const { return now < until && until - now <= longest_rest ? until - now : 0; }
  bool operator==(const PathNote&) const = default;
};

// A clock that is put right in small steps is not one that was set back.
constexpr WallTime clock_step = 60;

// Whether what was found at a time counts still: not when it is too old, nor of a time that has not come.
constexpr bool still_counts(WallTime found, WallTime lasts, WallTime now)
{
  return found <= now + clock_step && now - found < lasts;
}

// A cellular path by which the ACKs of some flow reached the server. By the Wi-Fi network as well as by the cellular
// link, since the ACKs have an address of the former: whether a source filter of the latter lets it through, and
// whether the server knows it or a translation of it, differs from one to the next (docs/decisions/0033).
struct KnownPath
{
  static constexpr WallTime lasts = 4 * 3600;

  WallTime validated = 0;  // lately
  Prefix source {};        // of the addresses that the ACKs had: one network's name may stand for many places
  Duration added_delay {}; // over the way by Wi-Fi; negative: faster

  bool counts(WallTime now) const { return still_counts(validated, lasts, now); }
  bool operator==(const KnownPath&) const = default;
};

// As it is found, by one flow.
struct PathSeen
{
  Place place {};
  Prefix source {};
  WallTime now = 0;
};

// Whether an access point keeps the frames of a station that is away and sends them at link-up (docs/decisions/0034).
struct KeptFrames
{
  static constexpr WallTime lasts = Tally::lasts;
  static constexpr std::uint8_t most = 7;

  std::uint8_t kept = 0;   // blackouts in a row after which it had
  std::uint8_t missed = 0; // after which it had not although it was known to: so many more in a row it takes
  WallTime used = 0;       // when either was last found

  bool counts(WallTime now) const { return still_counts(used, lasts, now); }
  bool keeps(WallTime now) const { return kept > missed && counts(now); }
  bool operator==(const KeptFrames&) const = default;
};

struct Limits
{
  std::size_t networks = 256;
  std::size_t records = 2048; // of all networks together
  std::size_t tallies = 16;   // of a record
  std::size_t paths = 512;    // that failed, and likewise that are known
  std::size_t access_points = 512;
};

class Memory
{
public:
  Memory() = default;
  explicit Memory(Limits limits) : limits_ { limits } {}

  // The network with these signs, a new one if there is none. A new name of a known gateway is the same network; so is
  // one that was known by its gateway alone. 0 when nothing is seen.
  std::uint32_t recognize(const NetworkSigns& signs, WallTime now);

  // How a module stands at a place: as that place says, once it has seen enough, else as the network does.
  Standing standing(const Place& place, std::string_view what, WallTime now);
  // The same for how much a comparison is worth.
  double urgency(const Place& place, std::string_view what, WallTime now);
  // A comparison at a place counts there and for the network. True when some standing is another one.
  bool add(const Place& place, std::string_view what, double difference, double weight, WallTime now);
  // What acts together harms, whichever of it does.
  void rest(const Place& place, std::string_view what, WallTime now);
  // Of one place alone. Null when nothing is known.
  const Tally* find(const Place& place, std::string_view what) const;

  // A path by this cellular link was validated, or was not. Three parts of the Internet in a row that cannot be reached
  // stand for all: then it is the cellular network. What fails is known no more, from no network.
  void path_found(const std::string& cell, const Prefix& prefix, bool works, WallTime now);
  bool path_failed(const std::string& cell, const Prefix& prefix, WallTime now) const;

  // It was validated with this added delay: other flows may go by it. Nothing when the network is not known.
  void path_known(const PathSeen& seen, Duration added_delay);
  // The added delay of a path that may be gone by; nothing when it is not known, no longer, or failed since.
  std::optional<Duration> known_path(const PathSeen& of) const;
  // A flow that went by it has its doubts: no other one does now, from no network.
  void doubt_path(const std::string& cell, const Prefix& prefix);
  // All by a cellular link: behind its interface there is another operator or modem now.
  void doubt_paths(const std::string& cell);
  // What is too old, or of a time that has not come: the clock was set back, and nobody knows how old it is.
  void sweep_paths(WallTime now);

  // After a blackout at this access point, by its hardware address: it had kept frames, or had not. Of one that is not
  // known to keep any the latter is not noted. Nothing when the network is not known.
  void frames_kept(std::uint32_t network, const std::string& access_point, bool kept, WallTime now);
  // Whether it does, as far as is known.
  bool keeps_frames(std::uint32_t network, const std::string& access_point, WallTime now) const;

  // All that is known of networks with this name, and of paths by cellular links that it means (cell_name.h); how many
  // networks and cellular links that were. With either go the paths known by both. What modules gained with a cellular
  // link is the Wi-Fi network's.
  std::size_t forget(std::string_view name);
  std::size_t forget_all();

  struct Forgotten
  {
    std::uint64_t networks = 0, records = 0, paths = 0, access_points = 0;
  };
  const Forgotten& forgotten() const { return forgotten_; }
  std::uint64_t changes() const { return changes_; } // whether there is something new to write down

  const Limits& limits() const { return limits_; }
  const std::vector<Network>& networks() const { return networks_; }
  const std::map<Place, Record>& records() const { return records_; }
  using PathKey = std::pair<std::string, Prefix>;
  const std::map<PathKey, PathNote>& paths() const { return paths_; }
  using AccessPoint = std::pair<std::uint32_t, std::string>; // of a network, by its hardware address
  const std::map<AccessPoint, KeptFrames>& access_points() const { return access_points_; }
  // Cellular links of which a path failed, each once.
  std::vector<std::string> cells() const;
  const std::map<Place, KnownPath>& known_paths() const { return known_; }

  // What was written down before; false when it is too much, or contradicts what is there.
  bool restore(const Network& network);
  bool restore(const Place& place, WallTime used);
  bool restore(const Place& place, const std::string& what, const Tally& tally);
  bool restore(const PathKey& key, const PathNote& note);
  bool restore(const Place& place, const KnownPath& path);
  bool restore(const AccessPoint& access_point, const KeptFrames& note);

private:
  Network* by(const std::function<bool(const Network&)>& fits);
  Network& add_network(const NetworkSigns& signs, WallTime now);
  void merge(std::uint32_t from, std::uint32_t into, WallTime now);
  void forget_network(std::uint32_t id);
  Record& record(const Place& place, WallTime now);
  Tally& tally(const Place& place, std::string_view what, WallTime now);
  std::set<std::string> all_cells() const;
  template <class Which>
  void forget_known(Which which);
  Tally* deciding(const Place& place, std::string_view what, WallTime now);

  Limits limits_ {};
  std::vector<Network> networks_ {};
  std::map<Place, Record> records_ {};
  std::map<PathKey, PathNote> paths_ {};
  std::map<Place, KnownPath> known_ {};
  std::map<AccessPoint, KeptFrames> access_points_ {};
  std::uint32_t next_id_ = 1;
  Forgotten forgotten_ {};
  std::uint64_t changes_ = 0;
};

} // namespace tandem::evidence
