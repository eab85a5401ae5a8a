#include "src/evidence/memory.h"

#include "src/evidence/cell_name.h"

#include <algorithm>
#include <utility>

namespace tandem::evidence
{

namespace
{

constexpr WallTime first_path_rest = 60;
constexpr unsigned parts_for_all = 3;

WallTime last_of(const KnownPath& path)
{
  return path.validated;
}
template <class One>
WallTime last_of(const One& one)
{
  return one.used;
}

// Whether `a` was used less recently than `b`. What has a time that has not come is from before the clock was set back:
// else all that is learnt until that time comes would be the first to go.
bool is_older(WallTime a, WallTime b, WallTime now)
{
  const bool a_ahead = a > now + clock_step, b_ahead = b > now + clock_step;
  return a_ahead != b_ahead ? a_ahead : a < b;
}

// Of a map, what was used least recently.
template <class Map>
void drop_oldest(Map& map, WallTime now, std::uint64_t& forgotten)
{
  const auto oldest = std::min_element(map.begin(), map.end(),
                                       [now](const auto& a, const auto& b)
                                       { return is_older(last_of(a.second), last_of(b.second), now); });
  if (oldest == map.end()) return;
  map.erase(oldest);
  ++forgotten;
}

} // namespace

Network* Memory::by(const std::function<bool(const Network&)>& fits)
{
  const auto found = std::find_if(networks_.begin(), networks_.end(), fits);
  return found == networks_.end() ? nullptr : &*found;
}

std::uint32_t Memory::recognize(const NetworkSigns& signs, WallTime now)
{
  if (signs.empty()) return 0;
  Network* named = signs.ssid.empty() ? nullptr : by([&](const Network& one) { return one.signs.ssid == signs.ssid; });
  // Half the world has the gateway 192.168.1.1: an address alone counts only where nothing else is known.
  Network* behind = nullptr;
  if (signs.unique)
    behind = by([&](const Network& one) { return one.signs.unique && one.signs.gateway == signs.gateway; });
  else if (signs.ssid.empty())
    behind = by([&](const Network& one) { return one.signs.ssid.empty() && one.signs.gateway == signs.gateway; });

  if (named != nullptr && behind != nullptr && named != behind)
  {
    const std::uint32_t id = named->id;
    if (behind->signs.ssid.empty())
      merge(behind->id, id, now);
    else
      behind->signs = { .ssid = behind->signs.ssid }; // the gateway serves another network now
    named = by([id](const Network& one) { return one.id == id; });
  }
  Network& known = named != nullptr ? *named : behind != nullptr ? *behind : add_network(signs, now);
  NetworkSigns fresh = known.signs;
  if (!signs.ssid.empty()) fresh.ssid = signs.ssid;
  if (signs.unique || (!signs.gateway.empty() && !fresh.unique))
  {
    fresh.gateway = signs.gateway;
    fresh.unique = signs.unique;
  }
  if (fresh != known.signs) ++changes_;
  known.signs = fresh;
  known.used = now;
  return known.id;
}

Network& Memory::add_network(const NetworkSigns& signs, WallTime now)
{
  while (networks_.size() >= limits_.networks)
  {
    const auto oldest =
        std::min_element(networks_.begin(), networks_.end(),
                         [now](const Network& a, const Network& b) { return is_older(a.used, b.used, now); });
    forget_network(oldest->id);
    ++forgotten_.networks;
  }
  ++changes_;
  return networks_.emplace_back(Network { next_id_++, signs, now });
}

// Of two tallies of one thing the one that has seen more counts.
void Memory::merge(std::uint32_t from, std::uint32_t into, WallTime now)
{
  std::vector<std::pair<Place, Record>> moved;
  for (const auto& [place, record] : records_)
    if (place.network == from) moved.emplace_back(place, record);
  forget_network(from);
  for (auto& [place, record] : moved)
  {
    place.network = into;
    Record& there = records_[place];
    there.used = std::max(there.used, record.used);
    for (auto& [what, tally] : record.tallies)
    {
      const auto known = there.tallies.find(what);
      if (known != there.tallies.end())
      {
        if (known->second.gains.count() < tally.gains.count()) known->second = tally;
        continue;
      }
      there.tallies.emplace(what, tally);
      std::uint64_t dropped = 0;
      while (there.tallies.size() > limits_.tallies)
        drop_oldest(there.tallies, now, dropped);
    }
  }
}

void Memory::forget_network(std::uint32_t id)
{
  std::erase_if(records_, [id](const auto& one) { return one.first.network == id; });
  forget_known([id](const Place& place) { return place.network == id; });
  std::erase_if(access_points_, [id](const auto& one) { return one.first.first == id; });
  std::erase_if(networks_, [id](const Network& one) { return one.id == id; });
  ++changes_;
}

std::size_t Memory::forget(std::string_view name)
{
  if (name.empty()) return 0; // not those that have no SSID, or no gateway
  std::vector<std::uint32_t> found;
  for (const Network& one : networks_)
    if (one.signs.ssid == name || one.signs.gateway == name) found.push_back(one.id);
  for (const std::uint32_t id : found)
    forget_network(id);
  std::size_t cells_found = 0;
  for (const std::string& cell : all_cells())
  {
    if (!means(name, cell)) continue;
    std::erase_if(paths_, [&](const auto& one) { return one.first.first == cell; });
    doubt_paths(cell);
    ++cells_found;
    ++changes_;
  }
  return found.size() + cells_found;
}

std::vector<std::string> Memory::cells() const
{
  std::vector<std::string> all;
  for (const auto& [key, note] : paths_)
    if (all.empty() || all.back() != key.first) all.push_back(key.first);
  return all;
}

std::set<std::string> Memory::all_cells() const
{
  std::set<std::string> all;
  for (const auto& [key, note] : paths_)
    all.insert(key.first);
  for (const auto& [place, path] : known_)
    all.insert(place.cell);
  return all;
}

std::size_t Memory::forget_all()
{
  const std::size_t there = networks_.size() + all_cells().size();
  networks_.clear();
  records_.clear();
  paths_.clear();
  known_.clear();
  access_points_.clear();
  ++changes_;
  return there;
}

Record& Memory::record(const Place& place, WallTime now)
{
  auto found = records_.find(place);
  if (found == records_.end())
  {
    while (records_.size() >= limits_.records)
      drop_oldest(records_, now, forgotten_.records);
    found = records_.emplace(place, Record {}).first;
  }
  found->second.used = now;
  return found->second;
}

Tally& Memory::tally(const Place& place, std::string_view what, WallTime now)
{
  auto& all = record(place, now).tallies;
  auto found = all.find(what);
  if (found == all.end())
  {
    std::uint64_t dropped = 0;
    while (all.size() >= limits_.tallies)
      drop_oldest(all, now, dropped);
    found = all.emplace(std::string { what }, Tally { .used = now }).first;
  }
  found->second.refresh(now);
  return found->second;
}

const Tally* Memory::find(const Place& place, std::string_view what) const
{
  const auto record = records_.find(place);
  if (record == records_.end()) return nullptr;
  const auto found = record->second.tallies.find(what);
  return found == record->second.tallies.end() ? nullptr : &found->second;
}

// The tally that decides at a place; null when nothing is known. Looking makes no record.
Tally* Memory::deciding(const Place& place, std::string_view what, WallTime now)
{
  const auto look = [&](const Place& at) -> Tally*
  {
    const auto found = records_.find(at);
    if (found == records_.end()) return nullptr;
    const auto one = found->second.tallies.find(what);
    if (one == found->second.tallies.end()) return nullptr;
    found->second.used = now;
    one->second.refresh(now);
    return &one->second;
  };
  Tally* here = look(place);
  if (here != nullptr && (here->standing != Standing::acting || here->gains.count() >= Tally::enough)) return here;
  Tally* everywhere = look(place.everywhere());
  return everywhere != nullptr ? everywhere : here;
}

Standing Memory::standing(const Place& place, std::string_view what, WallTime now)
{
  const Tally* tally = deciding(place, what, now);
  return tally == nullptr ? Standing::acting : tally->standing;
}

double Memory::urgency(const Place& place, std::string_view what, WallTime now)
{
  const Tally* tally = deciding(place, what, now);
  return tally == nullptr ? 1 : tally->urgency();
}

bool Memory::add(const Place& place, std::string_view what, double difference, double weight, WallTime now)
{
  ++changes_;
  const bool here = tally(place, what, now).add(difference, weight, now);
  if (place == place.everywhere()) return here;
  return tally(place.everywhere(), what, now).add(difference, weight, now) || here;
}

void Memory::rest(const Place& place, std::string_view what, WallTime now)
{
  ++changes_;
  tally(place, what, now).rest(now);
}

void Memory::path_found(const std::string& cell, const Prefix& prefix, bool works, WallTime now)
{
  ++changes_;
  if (works)
  {
    paths_.erase({ cell, prefix });
    paths_.erase({ cell, {} });
    return;
  }
  const auto fail = [&](const Prefix& where, unsigned from)
  {
    const PathKey key { cell, where };
    if (!paths_.contains(key))
      while (paths_.size() >= limits_.paths)
        drop_oldest(paths_, now, forgotten_.paths);
    PathNote& note = paths_[key];
    if (now - note.used > Tally::lasts) note = {};
    if (note.failures < 16) ++note.failures;
    note.used = now;
    if (note.failures >= from)
      note.until = now + std::min(first_path_rest << (note.failures - from), PathNote::longest_rest);
    return note.failures == 1;
  };
  // What has worked lately may just be away, such as a cell without coverage: the next failure counts.
  if (std::any_of(known_.begin(), known_.end(),
                  [&](const auto& one)
                  { return one.first.cell == cell && one.first.prefix == prefix && one.second.counts(now); }))
    return doubt_path(cell, prefix);
  // Another part of the Internet, not this one again.
  if (fail(prefix, 1)) fail({}, parts_for_all);
  doubt_path(cell, prefix);
  if (path_failed(cell, {}, now)) doubt_paths(cell);
}

bool Memory::path_failed(const std::string& cell, const Prefix& prefix, WallTime now) const
{
  const auto failed = [&](const Prefix& where)
  {
    const auto found = paths_.find({ cell, where });
    return found != paths_.end() && found->second.rests(now) > 0;
  };
  return failed(prefix) || failed({});
}

void Memory::path_known(const PathSeen& seen, Duration added_delay)
{
  if (seen.place.network == 0 || seen.place.cell.empty()) return;
  ++changes_;
  if (!known_.contains(seen.place))
    while (known_.size() >= limits_.paths)
      drop_oldest(known_, seen.now, forgotten_.paths);
  known_[seen.place] = { seen.now, seen.source, added_delay };
}

std::optional<Duration> Memory::known_path(const PathSeen& of) const
{
  const auto found = known_.find(of.place);
  if (found == known_.end() || found->second.source != of.source || !found->second.counts(of.now)) return {};
  if (path_failed(of.place.cell, of.place.prefix, of.now)) return {};
  return found->second.added_delay;
}

template <class Which>
void Memory::forget_known(Which which)
{
  if (std::erase_if(known_, [&](const auto& one) { return which(one.first); }) > 0) ++changes_;
}

void Memory::doubt_path(const std::string& cell, const Prefix& prefix)
{
  forget_known([&](const Place& place) { return place.cell == cell && place.prefix == prefix; });
}

void Memory::doubt_paths(const std::string& cell)
{
  forget_known([&](const Place& place) { return place.cell == cell; });
}

void Memory::sweep_paths(WallTime now)
{
  if (std::erase_if(known_, [now](const auto& one) { return !one.second.counts(now); }) > 0) ++changes_;
}

void Memory::frames_kept(std::uint32_t network, const std::string& access_point, bool kept, WallTime now)
{
  if (network == 0 || access_point.empty()) return;
  const AccessPoint key { network, access_point };
  auto found = access_points_.find(key);
  if (found != access_points_.end() && !found->second.counts(now)) found->second = {};
  if (found == access_points_.end())
  {
    if (!kept) return;
    while (access_points_.size() >= limits_.access_points)
      drop_oldest(access_points_, now, forgotten_.access_points);
    found = access_points_.emplace(key, KeptFrames {}).first;
  }
  KeptFrames& note = found->second;
  // A download that waits for frames in vain loses more than one that had not needed to act: doubt grows with each.
  if (kept)
    note.kept = std::min<std::uint8_t>(note.kept + 1, KeptFrames::most + 1);
  else
  {
    if (note.keeps(now)) note.missed = std::min<std::uint8_t>(note.missed + 1, KeptFrames::most);
    note.kept = 0;
  }
  note.used = now;
  ++changes_;
}

bool Memory::keeps_frames(std::uint32_t network, const std::string& access_point, WallTime now) const
{
  const auto found = access_points_.find({ network, access_point });
  return found != access_points_.end() && found->second.keeps(now);
}

bool Memory::restore(const Network& network)
{
  const auto same = [&](const Network& one)
  { return one.id == network.id || (!network.signs.ssid.empty() && one.signs.ssid == network.signs.ssid); };
  if (network.id == 0 || network.signs.empty() || networks_.size() >= limits_.networks || by(same) != nullptr)
    return false;
  networks_.push_back(network);
  next_id_ = std::max(next_id_, network.id + 1);
  return true;
}

bool Memory::restore(const Place& place, WallTime used)
{
  if (by([&](const Network& one) { return one.id == place.network; }) == nullptr) return false;
  return records_.size() < limits_.records && records_.emplace(place, Record { {}, used }).second;
}

bool Memory::restore(const Place& place, const std::string& what, const Tally& tally)
{
  const auto found = records_.find(place);
  if (found == records_.end() || found->second.tallies.size() >= limits_.tallies) return false;
  return found->second.tallies.emplace(what, tally).second;
}

bool Memory::restore(const PathKey& key, const PathNote& note)
{
  return paths_.size() < limits_.paths && paths_.emplace(key, note).second;
}

bool Memory::restore(const Place& place, const KnownPath& path)
{
  if (by([&](const Network& one) { return one.id == place.network; }) == nullptr) return false;
  return known_.size() < limits_.paths && known_.emplace(place, path).second;
}

bool Memory::restore(const AccessPoint& access_point, const KeptFrames& note)
{
  if (by([&](const Network& one) { return one.id == access_point.first; }) == nullptr) return false;
  return access_points_.size() < limits_.access_points && access_points_.emplace(access_point, note).second;
}

} // namespace tandem::evidence
