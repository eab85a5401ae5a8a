#include "tools/lab/emulator/load_scenario.h"

#include "src/control/literal.h"
#include "tools/lab/emulator/mentions.h"
#include "tools/lab/emulator/mistakes.h"
#include "tools/lab/emulator/tables.h"
#include "tools/lab/emulator/timeline.h"

#include <algorithm>
#include <set>

namespace tandem::lab
{

namespace
{

using namespace std::chrono_literals;

const toml::table& as_table(const toml::node& node, const std::string& key)
{
  if (const auto* table = node.as_table()) return *table;
  throw BadInput(place(node) + ": " + key + ": a table is allowed, written [" + key + "]");
}

toml::table parse_document(const std::filesystem::path& file)
{
  try
  {
    return toml::parse_file(file.string());
  }
  catch (const toml::parse_error& e)
  {
    std::string where = file.string();
    if (e.source().begin) where += ":" + std::to_string(e.source().begin.line);
    throw BadInput(where + ": " + std::string(e.description()));
  }
}

std::string_view trimmed(std::string_view text)
{
  while (!text.empty() && text.front() == ' ')
    text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ')
    text.remove_suffix(1);
  return text;
}

// VALUE of --set: TOML when it reads as TOML, else a string, so that --set wifi.rate=minstrel needs no quotes.
toml::table parse_override(std::string_view value, const std::string& source)
{
  try
  {
    return toml::parse("value = " + std::string(value), std::string_view(source));
  }
  catch (const toml::parse_error&)
  {
  }
  try
  {
    return toml::parse("value = '''" + std::string(value) + "'''", std::string_view(source));
  }
  catch (const toml::parse_error&)
  {
    throw BadInput(source + ": a TOML value is allowed behind the '='");
  }
}

void apply_override(toml::table& document, const std::string& text)
{
  const std::string source = "--set " + text;
  const auto equals = text.find('=');
  const auto dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals)
    throw BadInput(source + ": SECTION.KEY=VALUE is allowed, like wifi.loss=0.003");
  const std::string section(trimmed(text.substr(0, dot)));
  const std::string key(trimmed(text.substr(dot + 1, equals - dot - 1)));
  static const std::vector<std::string_view> sections { "scenario", "wifi", "cell", "wan", "server", "ap", "station" };
  if (std::find(sections.begin(), sections.end(), section) == sections.end())
  {
    std::string message = source + ": unknown section; allowed:";
    for (auto s : sections)
      message += " " + std::string(s);
    throw BadInput(message);
  }
  const bool list = section == "server" || section == "ap" || section == "station";
  if (!document.contains(section))
  {
    if (section == "station") throw BadInput(source + ": the scenario has no [[station]] to change");
    toml::table fresh;
    if (list)
    {
      fresh.insert("name", section == "server" ? "srv1" : "ap1");
      toml::array array;
      array.push_back(std::move(fresh));
      document.insert(section, std::move(array));
    }
    else
      document.insert(section, std::move(fresh));
  }
  // Nodes carry the place they came from only when they are moved, so each target gets its own parse.
  const auto put = [&](toml::node& target)
  {
    toml::table* table = target.as_table();
    if (table == nullptr) throw BadInput(place(target) + ": " + section + ": a table is allowed here");
    toml::table parsed = parse_override(trimmed(std::string_view(text).substr(equals + 1)), source);
    parsed.get("value")->visit([&](auto&& node) { table->insert_or_assign(key, std::move(node)); });
  };
  toml::node* target = document.get(section);
  if (!list) return put(*target);
  if (toml::array* array = target->as_array())
    for (auto& element : *array)
      put(element);
}

class Loader
{
public:
  Loader(const std::filesystem::path& file, const std::vector<std::filesystem::path>& dirs) : file_(file), dirs_(dirs)
  {
  }

  Scenario load(const std::vector<std::string>& overrides)
  {
    toml::table document = parse_document(file_);
    for (const auto& text : overrides)
      mistakes_.gather([&] { apply_override(document, text); });
    document_ = &document;
    gather_unknown(document, "", { "scenario", "wifi", "cell", "wan", "ap", "station", "server", "timeline" });
    result_.name = file_.stem().string();
    mistakes_.gather([this] { general(); });
    sound_ &= mistakes_.gather([this] { wifi(); });
    if (sound_) sound_ = mistakes_.gather([this] { aps(); }) && sound_;
    mistakes_.gather([this] { cell(); });
    sound_ &= mistakes_.gather([this] { wan(); });
    if (sound_)
    {
      mistakes_.gather([this] { stations(); });
      mistakes_.gather([this] { result_.timeline = read_timeline(list("timeline"), result_, mistakes_); });
    }
    mistakes_.tell();
    return std::move(result_);
  }

private:
  // Hands `take_value` the value of a key, if the table has it; whether it was taken, or there was none.
  template <typename Take>
  bool read(const toml::table& table, const std::string& where, std::string_view key, Take take_value)
  {
    return mistakes_.gather([&] { with(table, where, key, take_value); });
  }

  // The same for names and the like: with a mistake there, what refers to them would look wrong, too.
  template <typename Take>
  void read_sound(const toml::table& table, const std::string& where, std::string_view key, Take take_value)
  {
    sound_ &= read(table, where, key, take_value);
  }

  // Takes over the keys of `table` that `keys` knows, in the order of `keys`.
  template <typename Settings>
  void take(const std::vector<Key<Settings>>& keys, Settings& settings, const toml::table& table,
            const std::string& section)
  {
    for (const auto& key : keys)
    {
      const auto set = [&](const Value& v) { key.set(settings, v); };
      if (read(table, section, key.name, set) || key.name != "standard") continue;
      sound_ = false; // what the other keys may be hangs on it
      return;
    }
  }

  void gather_unknown(const toml::table& table, const std::string& section, const std::vector<std::string_view>& known)
  {
    for (const auto& [key, node] : table)
      if (std::find(known.begin(), known.end(), key.str()) == known.end())
        mistakes_.gather([&] { unknown_key(node, section.empty() ? "" : section + ".", key.str(), known); });
  }

  const toml::table* section(const std::string& name) const
  {
    const toml::node* node = document_->get(name);
    return node == nullptr ? nullptr : &as_table(*node, name);
  }

  // The tables of [[name]].
  std::vector<const toml::table*> list(const std::string& name) const
  {
    std::vector<const toml::table*> result;
    const toml::node* node = document_->get(name);
    if (node == nullptr) return result;
    const toml::array* array = node->as_array();
    if (array == nullptr)
      throw BadInput(place(*node) + ": " + name + ": a list is allowed, each element written [[" + name + "]]");
    for (const auto& element : *array)
    {
      const toml::table* table = element.as_table();
      if (table == nullptr)
        throw BadInput(place(element) + ": " + name + ": a table is allowed, written [[" + name + "]]");
      result.push_back(table);
    }
    return result;
  }

  // The section `kind` of the profile that `table` (or the default) names; the parsed file stays alive as long as the
  // loader.
  const toml::table& profile(const std::string& name, const std::string& kind, const toml::table* table)
  {
    const toml::node* node = table != nullptr ? table->get("profile") : nullptr;
    const std::string mention =
        (node != nullptr ? place(*node) : file_.string()) + ": " + kind + ".profile = \"" + name + '"';
    std::filesystem::path found;
    if (name.find('/') != std::string::npos)
    {
      found = name;
      if (found.is_relative()) found = file_.parent_path() / found;
    }
    else
      for (const auto& dir : dirs_)
        if (found.empty() && std::filesystem::exists(dir / (name + ".toml"))) found = dir / (name + ".toml");
    if (found.empty() || !std::filesystem::exists(found))
    {
      std::set<std::string> there;
      for (const auto& dir : dirs_)
        if (std::filesystem::is_directory(dir))
          for (const auto& entry : std::filesystem::directory_iterator(dir))
            if (entry.path().extension() == ".toml") there.insert(entry.path().stem().string());
      std::string allowed;
      for (const auto& n : there)
        allowed += " " + n;
      throw BadInput(mention + ": no such profile; there are:" + (allowed.empty() ? " none" : allowed));
    }
    profiles_.push_back(parse_document(found));
    const toml::table& document = profiles_.back();
    gather_unknown(document, found.stem().string(), { "profile", "wifi", "cell" });
    const toml::node* inner = document.get(kind);
    if (inner == nullptr)
      throw BadInput(mention + ": that profile has no [" + kind + "]; it is for another kind of link");
    return as_table(*inner, kind);
  }

  void general()
  {
    const toml::table* table = section("scenario");
    if (table == nullptr) return;
    gather_unknown(*table, "scenario", { "name", "summary", "duration", "seed", "mptcp", "relay" });
    read(*table, "scenario", "relay", [](const Value& v) { static_cast<void>(v.boolean()); });
    read(*table, "scenario", "mptcp", [this](const Value& v) { result_.mptcp = v.boolean(); });
    read(*table, "scenario", "name", [this](const Value& v) { result_.name = v.text(); });
    read(*table, "scenario", "summary", [this](const Value& v) { result_.summary = v.text(); });
    read(*table, "scenario", "duration", [this](const Value& v) { result_.duration = v.duration(1ms); });
    read(*table, "scenario", "seed",
         [this](const Value& v)
         { result_.seed = static_cast<std::uint64_t>(v.integer(0, std::numeric_limits<std::int64_t>::max())); });
  }

  void wifi()
  {
    const toml::table* table = section("wifi");
    if (table != nullptr)
    {
      gather_unknown(*table, "wifi", names(wifi_keys()));
      read(*table, "wifi", "profile", [this](const Value& v) { result_.wifi.profile = v.text(); });
    }
    const toml::table& base = profile(result_.wifi.profile, "wifi", table);
    gather_unknown(base, "wifi", names(wifi_keys()));
    take(wifi_keys(), result_.wifi, base, "wifi");
    if (table != nullptr) take(wifi_keys(), result_.wifi, *table, "wifi");
    if (result_.wifi.air.phy.cw_min > result_.wifi.air.phy.cw_max)
      mistakes_.add(file_.string() + ": wifi.cw_min = " + std::to_string(result_.wifi.air.phy.cw_min)
                    + ": at most wifi.cw_max is allowed");
  }

  void cell()
  {
    const toml::table* table = section("cell");
    const auto known = joined(names(cell_keys()), names(pipe_keys()));
    if (table != nullptr)
    {
      gather_unknown(*table, "cell", known);
      read(*table, "cell", "profile", [this](const Value& v) { result_.cell.profile = v.text(); });
    }
    const toml::table& base = profile(result_.cell.profile, "cell", table);
    gather_unknown(base, "cell", known);
    take(pipe_keys(), result_.cell.pipes, base, "cell");
    if (table == nullptr) return;
    take(cell_keys(), result_.cell, *table, "cell");
    take(pipe_keys(), result_.cell.pipes, *table, "cell");
  }

  void wan()
  {
    result_.wan.down.delay = result_.wan.up.delay = 20ms;
    result_.wan.down.rate = result_.wan.up.rate = Rate { 1e9 };
    if (const toml::table* table = section("wan"))
    {
      gather_unknown(*table, "wan", names(pipe_keys()));
      take(pipe_keys(), result_.wan, *table, "wan");
    }
    std::set<std::string> seen;
    for (const toml::table* table : list("server"))
    {
      gather_unknown(*table, "server", joined({ "name", "congestion" }, names(pipe_keys())));
      ServerSettings server;
      server.name = "srv" + std::to_string(result_.servers.size() + 1);
      server.pipes = result_.wan;
      read_sound(*table, "server", "name", [&](const Value& v) { server.name = device_name(v, seen, 5); });
      seen.insert(server.name);
      read(*table, "server", "congestion",
           [&](const Value& v)
           {
             v.choice({ "cubic", "reno", "bbr", "dctcp", "vegas", "westwood" });
             server.congestion = v.text();
           });
      take(pipe_keys(), server.pipes, *table, "server");
      result_.servers.push_back(std::move(server));
    }
    if (result_.servers.empty()) result_.servers.push_back({ .name = "srv1", .pipes = result_.wan });
  }

  // Names become parts of network device and namespace names.
  static std::string device_name(const Value& value, const std::set<std::string>& taken, std::size_t longest)
  {
    std::string name = value.text();
    const bool fine = !name.empty() && name.size() <= longest
                      && std::all_of(name.begin(), name.end(),
                                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
    if (!fine || taken.contains(name))
      value.refuse("a name of its own is allowed, 1 to " + std::to_string(longest) + " of a-z and 0-9");
    return name;
  }

  void aps()
  {
    std::set<std::string> seen;
    for (const toml::table* table : list("ap"))
    {
      gather_unknown(*table, "ap",
                     { "name", "channel", "signal", "interface", "rate", "frame_error", "uplink", "uplink_queue",
                       "uplink_flows" });
      ApSettings ap;
      ap.name = "ap" + std::to_string(result_.aps.size() + 1);
      read_sound(*table, "ap", "name", [&](const Value& v) { ap.name = device_name(v, seen, 8); });
      seen.insert(ap.name);
      read(*table, "ap", "channel", [&](const Value& v) { ap.channel = static_cast<unsigned>(v.integer(1, 177)); });
      read(*table, "ap", "signal", [&](const Value& v) { ap.signal_dbm = v.number(-120, 0); });
      read_sound(*table, "ap", "interface", [&](const Value& v) { ap.interface = interface_number(v); });
      read(*table, "ap", "rate",
           [&](const Value& v)
           {
             if (result_.wifi.pipe) v.refuse("this key does not go with standard = \"pipe\"");
             ap.rate = wifi_rate(result_.wifi.air.phy, v);
           });
      read(*table, "ap", "frame_error",
           [&](const Value& v)
           {
             if (result_.wifi.pipe) v.refuse("this key does not go with standard = \"pipe\"");
             ap.frame_error = v.probability();
           });
      read(*table, "ap", "uplink",
           [&](const Value& v)
           {
             ap.uplink = v.rate();
             // Below it a token bucket could not pass a full packet.
             if (ap.uplink->bits_per_second < 1e5) v.refuse("a rate from \"100kbit\" is allowed");
           });
      read(*table, "ap", "uplink_queue",
           [&](const Value& v) { ap.uplink_queue = static_cast<unsigned>(v.integer(1, 100000)); });
      read(*table, "ap", "uplink_flows",
           [&](const Value& v) { ap.uplink_flows = static_cast<unsigned>(v.integer(0, 100)); });
      if (const toml::node* queue = table->get("uplink_queue"); queue != nullptr && !table->contains("uplink"))
        mistakes_.gather(
            [&] {
              Value(*queue, "ap.uplink_queue")
                  .refuse("only together with `uplink`, a rate: without one nothing queues there");
            });
      result_.aps.push_back(std::move(ap));
    }
    if (result_.aps.empty()) result_.aps.push_back({ .name = "ap1" });
    if (sound_) interfaces();
  }

  void interfaces()
  {
    std::vector<std::optional<std::size_t>> at(most_interfaces);
    std::size_t count = 0;
    const auto tables = list("ap");
    for (std::size_t i = 0; i < result_.aps.size(); ++i)
    {
      if (!result_.aps[i].interface) continue;
      const Value value(*tables[i]->get("interface"), "ap.interface");
      auto& place = at[*result_.aps[i].interface];
      if (place) value.refuse("another interface is allowed: this one is at " + result_.aps[*place].name);
      place = i;
      count = std::max(count, *result_.aps[i].interface + 1);
      if (result_.wifi.pipe && count > 1)
        value.refuse("only \"wlan0\" is allowed with standard = \"pipe\": it is one link without channel access");
    }
    if (count == 0) return;
    result_.interfaces.clear();
    for (std::size_t i = 0; i < count; ++i)
    {
      if (!at[i])
        throw BadInput(place(*document_->get("ap")) + ": ap.interface: wlan" + std::to_string(i)
                       + " is at no access point; interfaces are numbered from wlan0 without a gap");
      result_.interfaces.push_back(*at[i]);
    }
  }

  void stations()
  {
    for (const toml::table* table : list("station"))
    {
      gather_unknown(*table, "station", { "name", "ap", "direction", "load", "size", "signal" });
      if (result_.wifi.pipe)
        throw BadInput(
            place(*table)
            + ": station: a Wi-Fi with standard = \"pipe\" has no neighbours; leave it out, or take another profile");
      BackgroundSettings station;
      station.name = "sta" + std::to_string(result_.stations.size() + 1);
      read(*table, "station", "name", [&](const Value& v) { station.name = v.text(); });
      read(*table, "station", "ap", [&](const Value& v) { station.ap = find_ap(result_, v); });
      read(*table, "station", "direction",
           [&](const Value& v) {
             station.direction = v.choice({ "up", "down" }) == 0 ? medium::Traffic::up : medium::Traffic::down;
           });
      read(*table, "station", "load",
           [&](const Value& v)
           {
             if (v.node().is_string() && *v.node().value<std::string>() == "saturated") return;
             station.load = parse_rate(v.text());
             if (!station.load || station.load->bits_per_second <= 0)
               v.refuse("\"saturated\" or a rate with its unit is allowed, like \"5Mbit\"");
           });
      read(*table, "station", "size",
           [&](const Value& v) { station.size = static_cast<std::uint32_t>(v.integer(1, 1472)); });
      read(*table, "station", "signal", [&](const Value& v) { station.signal_dbm = v.number(-120, 0); });
      result_.stations.push_back(std::move(station));
    }
  }

  std::filesystem::path file_;
  std::vector<std::filesystem::path> dirs_;
  const toml::table* document_ = nullptr;
  std::vector<toml::table> profiles_;
  Scenario result_ {};
  Mistakes mistakes_ {};
  bool sound_ = true; // what other parts refer to is without a mistake: the standard, names, interfaces
};

} // namespace

Scenario load_scenario(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       const std::vector<std::filesystem::path>& profile_dirs)
{
  if (!std::filesystem::is_regular_file(file)) throw BadInput(file.string() + ": no such scenario file");
  return Loader(file, profile_dirs).load(overrides);
}

} // namespace tandem::lab
