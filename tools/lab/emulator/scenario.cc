#include "tools/lab/emulator/scenario.h"

#include "src/control/literal.h"
#include "src/control/nearest.h"

#include <algorithm>
#include <set>

namespace tandem::lab
{

namespace
{

using std::chrono::milliseconds;

const toml::table& as_table(const toml::node& node, const std::string& key)
{
  if (const auto* table = node.as_table()) return *table;
  throw BadInput(place(node) + ": " + key + ": a table is allowed, written [" + key + "]");
}

// Takes over the keys of `table` that `keys` knows, in the order of `keys`. Others go to `rest`.
template <typename Settings>
void take(const std::vector<Key<Settings>>& keys, Settings& settings, const toml::table& table,
          const std::string& section)
{
  for (const auto& key : keys)
    if (const toml::node* node = table.get(key.name))
      key.set(settings, Value(*node, section + "." + std::string(key.name)));
}

void refuse_unknown(const toml::table& table, const std::string& section, const std::vector<std::string_view>& known)
{
  for (const auto& [key, node] : table)
    if (std::find(known.begin(), known.end(), key.str()) == known.end())
      unknown_key(node, section + ".", key.str(), known);
}

std::vector<std::string_view> joined(std::vector<std::string_view> a, const std::vector<std::string_view>& b)
{
  a.insert(a.end(), b.begin(), b.end());
  return a;
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
      apply_override(document, text);
    document_ = &document;
    for (const auto& [key, node] : document)
      if (static const std::vector<std::string_view> known { "scenario", "wifi", "cell", "wan", "ap", "station",
                                                             "server", "timeline" };
          std::find(known.begin(), known.end(), key.str()) == known.end())
        unknown_key(node, "", key.str(), known);
    result_.name = file_.stem().string();
    general();
    wifi();
    cell();
    wan();
    aps();
    stations();
    timeline();
    return std::move(result_);
  }

private:
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

  template <typename Take>
  void with(const toml::table& table, const std::string& where, std::string_view key, Take take_value) const
  {
    if (const toml::node* node = table.get(key)) take_value(Value(*node, where + "." + std::string(key)));
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
    refuse_unknown(document, found.stem().string(), { "profile", "wifi", "cell" });
    const toml::node* inner = document.get(kind);
    if (inner == nullptr)
      throw BadInput(mention + ": that profile has no [" + kind + "]; it is for another kind of link");
    return as_table(*inner, kind);
  }

  void general()
  {
    const toml::table* table = section("scenario");
    if (table == nullptr) return;
    refuse_unknown(*table, "scenario", { "name", "summary", "duration", "seed", "mptcp" });
    with(*table, "scenario", "mptcp", [this](const Value& v) { result_.mptcp = v.boolean(); });
    with(*table, "scenario", "name", [this](const Value& v) { result_.name = v.text(); });
    with(*table, "scenario", "summary", [this](const Value& v) { result_.summary = v.text(); });
    with(*table, "scenario", "duration", [this](const Value& v) { result_.duration = v.duration(milliseconds { 1 }); });
    with(*table, "scenario", "seed",
         [this](const Value& v)
         { result_.seed = static_cast<std::uint64_t>(v.integer(0, std::numeric_limits<std::int64_t>::max())); });
  }

  void wifi()
  {
    const toml::table* table = section("wifi");
    if (table != nullptr)
    {
      refuse_unknown(*table, "wifi", names(wifi_keys()));
      with(*table, "wifi", "profile", [this](const Value& v) { result_.wifi.profile = v.text(); });
    }
    const toml::table& base = profile(result_.wifi.profile, "wifi", table);
    refuse_unknown(base, "wifi", names(wifi_keys()));
    take(wifi_keys(), result_.wifi, base, "wifi");
    if (table != nullptr) take(wifi_keys(), result_.wifi, *table, "wifi");
    if (result_.wifi.air.phy.cw_min > result_.wifi.air.phy.cw_max)
      throw BadInput(file_.string() + ": wifi.cw_min = " + std::to_string(result_.wifi.air.phy.cw_min)
                     + ": at most wifi.cw_max is allowed");
  }

  void cell()
  {
    const toml::table* table = section("cell");
    const auto known = joined(names(cell_keys()), names(pipe_keys()));
    if (table != nullptr)
    {
      refuse_unknown(*table, "cell", known);
      with(*table, "cell", "profile", [this](const Value& v) { result_.cell.profile = v.text(); });
    }
    const toml::table& base = profile(result_.cell.profile, "cell", table);
    refuse_unknown(base, "cell", known);
    take(pipe_keys(), result_.cell.pipes, base, "cell");
    if (table == nullptr) return;
    take(cell_keys(), result_.cell, *table, "cell");
    take(pipe_keys(), result_.cell.pipes, *table, "cell");
  }

  void wan()
  {
    result_.wan.down.delay = result_.wan.up.delay = milliseconds { 20 };
    result_.wan.down.rate = result_.wan.up.rate = Rate { 1e9 };
    if (const toml::table* table = section("wan"))
    {
      refuse_unknown(*table, "wan", names(pipe_keys()));
      take(pipe_keys(), result_.wan, *table, "wan");
    }
    std::set<std::string> seen;
    for (const toml::table* table : list("server"))
    {
      refuse_unknown(*table, "server", joined({ "name", "congestion" }, names(pipe_keys())));
      ServerSettings server;
      server.name = "srv" + std::to_string(result_.servers.size() + 1);
      server.pipes = result_.wan;
      with(*table, "server", "name", [&](const Value& v) { server.name = device_name(v, seen, 5); });
      seen.insert(server.name);
      with(*table, "server", "congestion",
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
      refuse_unknown(*table, "ap",
                     { "name", "channel", "signal", "interface", "rate", "frame_error", "uplink", "uplink_queue",
                       "uplink_flows" });
      ApSettings ap;
      ap.name = "ap" + std::to_string(result_.aps.size() + 1);
      with(*table, "ap", "name", [&](const Value& v) { ap.name = device_name(v, seen, 8); });
      seen.insert(ap.name);
      with(*table, "ap", "channel", [&](const Value& v) { ap.channel = static_cast<unsigned>(v.integer(1, 177)); });
      with(*table, "ap", "signal", [&](const Value& v) { ap.signal_dbm = v.number(-120, 0); });
      with(*table, "ap", "interface", [&](const Value& v) { ap.interface = interface_number(v); });
      with(*table, "ap", "rate",
           [&](const Value& v)
           {
             if (result_.wifi.pipe) v.refuse("this key does not go with standard = \"pipe\"");
             ap.rate = wifi_rate(result_.wifi.air.phy, v);
           });
      with(*table, "ap", "frame_error",
           [&](const Value& v)
           {
             if (result_.wifi.pipe) v.refuse("this key does not go with standard = \"pipe\"");
             ap.frame_error = v.probability();
           });
      with(*table, "ap", "uplink",
           [&](const Value& v)
           {
             ap.uplink = v.rate();
             // Below it a token bucket could not pass a full packet.
             if (ap.uplink->bits_per_second < 1e5) v.refuse("a rate from \"100kbit\" is allowed");
           });
      with(*table, "ap", "uplink_queue",
           [&](const Value& v) { ap.uplink_queue = static_cast<unsigned>(v.integer(1, 100000)); });
      with(*table, "ap", "uplink_flows",
           [&](const Value& v) { ap.uplink_flows = static_cast<unsigned>(v.integer(0, 100)); });
      if (const toml::node* queue = table->get("uplink_queue"); queue != nullptr && !ap.uplink)
        Value(*queue, "ap.uplink_queue")
            .refuse("only together with `uplink`, a rate: without one nothing queues there");
      result_.aps.push_back(std::move(ap));
    }
    if (result_.aps.empty()) result_.aps.push_back({ .name = "ap1" });
    interfaces();
  }

  // "wlan0" .. "wlan7".
  static std::size_t interface_number(const Value& value)
  {
    const std::string name = value.text();
    for (std::size_t i = 0; i < most_interfaces; ++i)
      if (name == "wlan" + std::to_string(i)) return i;
    value.refuse("\"wlan0\" to \"wlan" + std::to_string(most_interfaces - 1) + "\" is allowed");
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

  std::size_t find_ap(const Value& value) const
  {
    const std::string name = value.text();
    std::string allowed = "the name of an access point is allowed:";
    for (std::size_t i = 0; i < result_.aps.size(); ++i)
    {
      if (result_.aps[i].name == name) return i;
      allowed += " " + result_.aps[i].name;
    }
    value.refuse(allowed);
  }

  std::string interface_names() const
  {
    std::string names;
    for (std::size_t i = 0; i < result_.interfaces.size(); ++i)
      names += (i > 0 ? " wlan" : "wlan") + std::to_string(i);
    return names;
  }

  std::size_t find_interface(const Value& value) const
  {
    const std::size_t number = interface_number(value);
    if (number >= result_.interfaces.size())
      value.refuse("a Wi-Fi interface of the client is allowed: " + interface_names());
    return number;
  }

  std::size_t find_server(const Value& value) const
  {
    const std::string name = value.text();
    std::string allowed = "the name of a server is allowed:";
    for (std::size_t i = 0; i < result_.servers.size(); ++i)
    {
      if (result_.servers[i].name == name) return i;
      allowed += " " + result_.servers[i].name;
    }
    value.refuse(allowed);
  }

  void stations()
  {
    for (const toml::table* table : list("station"))
    {
      refuse_unknown(*table, "station", { "name", "ap", "direction", "load", "size", "signal" });
      if (result_.wifi.pipe)
        throw BadInput(
            place(*table)
            + ": station: a Wi-Fi with standard = \"pipe\" has no neighbours; leave it out, or take another profile");
      BackgroundSettings station;
      station.name = "sta" + std::to_string(result_.stations.size() + 1);
      with(*table, "station", "name", [&](const Value& v) { station.name = v.text(); });
      with(*table, "station", "ap", [&](const Value& v) { station.ap = find_ap(v); });
      with(*table, "station", "direction",
           [&](const Value& v) {
             station.direction = v.choice({ "up", "down" }) == 0 ? medium::Traffic::up : medium::Traffic::down;
           });
      with(*table, "station", "load",
           [&](const Value& v)
           {
             if (v.node().is_string() && *v.node().value<std::string>() == "saturated") return;
             station.load = parse_rate(v.text());
             if (!station.load || station.load->bits_per_second <= 0)
               v.refuse("\"saturated\" or a rate with its unit is allowed, like \"5Mbit\"");
           });
      with(*table, "station", "size",
           [&](const Value& v) { station.size = static_cast<std::uint32_t>(v.integer(1, 1472)); });
      with(*table, "station", "signal", [&](const Value& v) { station.signal_dbm = v.number(-120, 0); });
      result_.stations.push_back(std::move(station));
    }
  }

  // --- timeline ---

  void timeline()
  {
    static const std::vector<std::string_view> common { "at", "every", "for", "what" };
    for (const toml::table* table : list("timeline"))
    {
      const toml::node* what = table->get("what");
      const toml::node* at = table->get("at");
      if (what == nullptr || at == nullptr) throw BadInput(place(*table) + ": timeline: `at` and `what` are needed");
      Event event;
      const Value kind(*what, "timeline.what");
      event.what = kind.text();
      event.at = Value(*at, "timeline.at").duration();
      with(*table, "timeline", "every", [&](const Value& v) { event.every = v.duration(milliseconds { 1 }); });
      with(*table, "timeline", "for", [&](const Value& v) { event.lasts = v.duration(Duration { 1 }); });
      refuse_unknown(*table, "timeline", joined(common, action(*table, kind, event)));
      if (event.every && event.lasts && *event.lasts >= *event.every)
        Value(*table->get("for"), "timeline.for").refuse("a time shorter than `every` is allowed");
      result_.timeline.push_back(std::move(event));
    }
    std::stable_sort(result_.timeline.begin(), result_.timeline.end(),
                     [](const Event& a, const Event& b) { return a.at < b.at; });
  }

  const toml::node& needed(const toml::table& table, std::string_view key, const Event& event) const
  {
    if (const toml::node* node = table.get(key)) return *node;
    throw BadInput(place(table) + ": timeline: `" + std::string(key) + "` is needed with what = \"" + event.what + '"');
  }

  // Fills event.action; returns the keys that this kind knows besides the common ones.
  std::vector<std::string_view> action(const toml::table& table, const Value& kind, Event& event)
  {
    struct Change
    {
      std::string_view what;
      Section section;
      std::string_view key;
    };
    static constexpr Change changes[] = {
      { "loss", Section::wifi, "loss" },
      { "gilbert", Section::wifi, "gilbert" },
      { "hidden", Section::wifi, "hidden" },
      { "frame_error", Section::wifi, "frame_error" },
      { "rate", Section::wifi, "rate" },
      { "ack_free", Section::wifi, "ack_free" },
      { "power_save", Section::wifi, "power_save" },
      { "cell_rate", Section::cell, "rate" },
      { "cell_delay", Section::cell, "delay" },
      { "cell_loss", Section::cell, "loss" },
      { "cell_gilbert", Section::cell, "gilbert" },
      { "wan_rate", Section::wan, "rate" },
      { "wan_delay", Section::wan, "delay" },
      { "wan_loss", Section::wan, "loss" },
      { "wan_gilbert", Section::wan, "gilbert" },
      { "wan_ecn", Section::wan, "ecn" },
    };
    for (const Change& change : changes)
      if (change.what == event.what) return change_action(table, event, change.section, std::string(change.key));

    if (event.what == "blackout")
    {
      needed(table, "for", event);
      BlackoutEvent blackout;
      with(table, "timeline", "mode",
           [&](const Value& v)
           {
             static constexpr medium::Blackout modes[] = { medium::Blackout::drop, medium::Blackout::buffer,
                                                           medium::Blackout::fade };
             blackout.mode = modes[v.choice({ "drop", "buffer", "fade" })];
           });
      with(table, "timeline", "ap", [&](const Value& v) { blackout.ap = find_ap(v); });
      with(table, "timeline", "interface",
           [&](const Value& v)
           {
             blackout.interface = find_interface(v);
             if (blackout.ap) v.refuse("either `ap` or `interface` is allowed");
           });
      with(table, "timeline", "carrier",
           [&](const Value& v) {
             blackout.carrier_down = v.choice({ "up", "down" }) == 1;
           });
      event.action = blackout;
      return { "mode", "carrier", "ap", "interface" };
    }
    if (event.what == "signal")
    {
      event.action = signal_action(table, event);
      return { "ap", "value", "points" };
    }
    if (event.what == "handoff")
    {
      HandoffEvent handoff;
      handoff.ap = find_ap(Value(needed(table, "ap", event), "timeline.ap"));
      handoff.gap = milliseconds { 50 };
      with(table, "timeline", "gap",
           [&](const Value& v) { handoff.gap = v.duration(Duration {}, std::chrono::minutes { 10 }); });
      with(table, "timeline", "mode", [&](const Value& v) { handoff.forward = v.choice({ "drop", "buffer" }) == 1; });
      if (result_.wifi.pipe)
        Value(*table.get("what"), "timeline.what")
            .refuse("no handoff with standard = \"pipe\": it is one link without channel access");
      if (result_.interfaces.size() > 1 && !table.contains("interface"))
        throw BadInput(place(table)
                       + ": timeline: `interface` is needed with what = \"handoff\" when the client has several Wi-Fi "
                         "interfaces: "
                       + interface_names());
      with(table, "timeline", "interface", [&](const Value& v) { handoff.interface = find_interface(v); });
      with(table, "timeline", "rate", [&](const Value& v) { handoff.rate = wifi_rate(result_.wifi.air.phy, v); });
      with(table, "timeline", "frame_error", [&](const Value& v) { handoff.frame_error = v.probability(); });
      if (event.lasts)
        Value(*table.get("for"), "timeline.for")
            .refuse("a handoff has no length; `gap` is the time without an access point");
      event.action = handoff;
      return { "ap", "interface", "gap", "mode", "rate", "frame_error" };
    }
    if (event.what == "cell_down")
    {
      CellDownEvent down;
      with(table, "timeline", "mode", [&](const Value& v) { down.hold = v.choice({ "drop", "buffer" }) == 1; });
      with(table, "timeline", "carrier", [&](const Value& v) { down.carrier_down = v.choice({ "up", "down" }) == 1; });
      event.action = down;
      return { "mode", "carrier" };
    }
    if (event.what == "nat" || event.what == "source_filter")
    {
      AnnouncedEvent announced;
      with(table, "timeline", "value", [&](const Value& v) { announced.value = v.boolean(); });
      event.action = announced;
      return { "value" };
    }
    std::vector<std::string_view> known { "blackout", "signal", "handoff", "cell_down", "nat", "source_filter" };
    std::string allowed;
    for (const Change& change : changes)
      known.push_back(change.what);
    if (const auto suggestion = closest(event.what, known); !suggestion.empty())
      allowed = "no such event; did you mean \"" + std::string(suggestion) + "\"?";
    else
    {
      allowed = "no such event; allowed:";
      for (auto k : known)
        allowed += " " + std::string(k);
    }
    kind.refuse(allowed);
  }

  std::vector<std::string_view> change_action(const toml::table& table, Event& event, Section section, std::string key)
  {
    if (section != Section::wan)
    {
      if (table.contains("server"))
        Value(*table.get("server"), "timeline.server").refuse("only wan_ events have a server");
    }
    // One direction only: loss -> loss_down.
    with(table, "timeline", "direction",
         [&](const Value& v)
         {
           static constexpr std::string_view suffix[] = { "", "_down", "_up" };
           const auto with_suffix = key + std::string(suffix[v.choice({ "both", "down", "up" })]);
           const bool known = section == Section::wifi ? find_key(wifi_keys(), with_suffix) != nullptr
                                                       : find_key(pipe_keys(), with_suffix) != nullptr;
           if (!known) v.refuse("this event has no direction");
           key = with_suffix;
         });
    ChangeEvent change =
        make_change(section, key, Value(needed(table, "value", event), "timeline.value"), result_.wifi);
    with(table, "timeline", "server", [&](const Value& v) { change.server = find_server(v); });
    event.action = std::move(change);
    return { "value", "direction", "server" };
  }

  SignalEvent signal_action(const toml::table& table, const Event& event) const
  {
    SignalEvent signal;
    with(table, "timeline", "ap", [&](const Value& v) { signal.ap = find_ap(v); });
    if (const toml::node* points = table.get("points"))
    {
      const Value value(*points, "timeline.points");
      static constexpr std::string_view allowed = "a list of [time, dBm] is allowed, like [[\"0s\", -50], [\"10s\", "
                                                  "-85]], times from this event on and increasing";
      const toml::array* array = points->as_array();
      if (array == nullptr || array->empty() || table.contains("value")) value.refuse(allowed);
      for (const auto& element : *array)
      {
        const toml::array* pair = element.as_array();
        if (pair == nullptr || pair->size() != 2) value.refuse(allowed);
        const Duration at = Value(*pair->get(0), "timeline.points").duration();
        const double dbm = Value(*pair->get(1), "timeline.points").number(-120, 0);
        if (!signal.points.empty() && at <= signal.points.back().first) value.refuse(allowed);
        signal.points.emplace_back(at, dbm);
      }
    }
    else
      signal.points.emplace_back(Duration {}, Value(needed(table, "value", event), "timeline.value").number(-120, 0));
    return signal;
  }

public:
  static ChangeEvent make_change(Section section, const std::string& key, const Value& value, const WifiSettings& wifi)
  {
    ChangeEvent change;
    change.section = section;
    change.key = key;
    if (section == Section::wifi)
    {
      change.wifi = wifi;
      find_key(wifi_keys(), key)->set(change.wifi, value);
    }
    else
      find_key(pipe_keys(), key)->set(change.pipes, value);
    return change;
  }

private:
  std::filesystem::path file_;
  std::vector<std::filesystem::path> dirs_;
  const toml::table* document_ = nullptr;
  std::vector<toml::table> profiles_;
  Scenario result_ {};
};

} // namespace

Scenario load_scenario(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       const std::vector<std::filesystem::path>& profile_dirs)
{
  if (!std::filesystem::is_regular_file(file)) throw BadInput(file.string() + ": no such scenario file");
  return Loader(file, profile_dirs).load(overrides);
}

ChangeEvent parse_change(const Scenario& scenario, std::string_view path, const toml::node& value)
{
  const std::string prefix = place(value) + ": ";
  const auto dot = path.find('.');
  const std::string_view section = path.substr(0, dot);
  std::string_view key = dot == std::string_view::npos ? std::string_view {} : path.substr(dot + 1);
  std::optional<std::size_t> server;
  Section which = Section::wifi;
  if (section == "cell")
    which = Section::cell;
  else if (section == "wan")
  {
    which = Section::wan;
    if (const auto second = key.find('.'); second != std::string_view::npos)
    {
      for (std::size_t i = 0; i < scenario.servers.size(); ++i)
        if (scenario.servers[i].name == key.substr(0, second)) server = i;
      if (!server) throw BadInput(prefix + std::string(path) + ": no server of that name");
      key = key.substr(second + 1);
    }
  }
  else if (section != "wifi")
    throw BadInput(prefix + std::string(path) + ": wifi.KEY, cell.KEY, wan.KEY or wan.SERVER.KEY is allowed");
  bool live = false;
  std::vector<std::string_view> live_keys;
  const auto look = [&](const auto& keys)
  {
    for (const auto& k : keys)
    {
      if (k.live) live_keys.push_back(k.name);
      live |= k.live && k.name == key;
    }
  };
  if (which == Section::wifi)
    look(wifi_keys());
  else
    look(pipe_keys());
  if (!live)
  {
    const auto suggestion = closest(key, live_keys);
    throw BadInput(prefix + std::string(path) + ": no key that can change while the air is up; "
                   + (suggestion.empty() ? std::string("see docs/lab-scenarios.md")
                                         : "did you mean " + std::string(suggestion) + "?"));
  }
  ChangeEvent change = Loader::make_change(which, std::string(key), Value(value, std::string(path)), scenario.wifi);
  change.server = server;
  return change;
}

} // namespace tandem::lab
