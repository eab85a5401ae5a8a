#include "tools/lab/emulator/timeline.h"

#include "src/control/nearest.h"
#include "tools/lab/emulator/mentions.h"
#include "tools/lab/emulator/tables.h"

#include <algorithm>

namespace tandem::lab
{

namespace
{

using namespace std::chrono_literals;

ChangeEvent make_change(Section section, const std::string& key, const Value& value, const WifiSettings& wifi)
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

const toml::node& needed(const toml::table& table, std::string_view key, const Event& event)
{
  if (const toml::node* node = table.get(key)) return *node;
  throw BadInput(place(table) + ": timeline: `" + std::string(key) + "` is needed with what = \"" + event.what + '"');
}

std::vector<std::string_view> change_action(const Scenario& scenario, const toml::table& table, Event& event,
                                            Section section, std::string key)
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
  ChangeEvent change = make_change(section, key, Value(needed(table, "value", event), "timeline.value"), scenario.wifi);
  with(table, "timeline", "server", [&](const Value& v) { change.server = find_server(scenario, v); });
  event.action = std::move(change);
  return { "value", "direction", "server" };
}

SignalEvent signal_action(const Scenario& scenario, const toml::table& table, const Event& event)
{
  SignalEvent signal;
  with(table, "timeline", "ap", [&](const Value& v) { signal.ap = find_ap(scenario, v); });
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

// Fills event.action; returns the keys that this kind knows besides the common ones.
std::vector<std::string_view> action(const Scenario& scenario, const toml::table& table, const Value& kind,
                                     Event& event)
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
    if (change.what == event.what)
      return change_action(scenario, table, event, change.section, std::string(change.key));

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
    with(table, "timeline", "ap", [&](const Value& v) { blackout.ap = find_ap(scenario, v); });
    with(table, "timeline", "interface",
         [&](const Value& v)
         {
           blackout.interface = find_interface(scenario, v);
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
    event.action = signal_action(scenario, table, event);
    return { "ap", "value", "points" };
  }
  if (event.what == "handoff")
  {
    HandoffEvent handoff;
    handoff.ap = find_ap(scenario, Value(needed(table, "ap", event), "timeline.ap"));
    handoff.gap = 50ms;
    with(table, "timeline", "gap", [&](const Value& v) { handoff.gap = v.duration(Duration {}, 10min); });
    with(table, "timeline", "mode", [&](const Value& v) { handoff.forward = v.choice({ "drop", "buffer" }) == 1; });
    if (scenario.wifi.pipe)
      Value(*table.get("what"), "timeline.what")
          .refuse("no handoff with standard = \"pipe\": it is one link without channel access");
    if (scenario.interfaces.size() > 1 && !table.contains("interface"))
      throw BadInput(place(table)
                     + ": timeline: `interface` is needed with what = \"handoff\" when the client has several Wi-Fi "
                       "interfaces: "
                     + interface_names(scenario));
    with(table, "timeline", "interface", [&](const Value& v) { handoff.interface = find_interface(scenario, v); });
    with(table, "timeline", "rate", [&](const Value& v) { handoff.rate = wifi_rate(scenario.wifi.air.phy, v); });
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

Event read_event(const toml::table& table, const Scenario& scenario)
{
  static const std::vector<std::string_view> common { "at", "every", "for", "what" };
  const toml::node* what = table.get("what");
  const toml::node* at = table.get("at");
  if (what == nullptr || at == nullptr) throw BadInput(place(table) + ": timeline: `at` and `what` are needed");
  Event event;
  const Value kind(*what, "timeline.what");
  event.what = kind.text();
  event.at = Value(*at, "timeline.at").duration();
  with(table, "timeline", "every", [&](const Value& v) { event.every = v.duration(1ms); });
  with(table, "timeline", "for", [&](const Value& v) { event.lasts = v.duration(Duration { 1 }); });
  refuse_unknown(table, "timeline", joined(common, action(scenario, table, kind, event)));
  if (event.every && event.lasts && *event.lasts >= *event.every)
    Value(*table.get("for"), "timeline.for").refuse("a time shorter than `every` is allowed");
  return event;
}

} // namespace

std::vector<Event> read_timeline(const std::vector<const toml::table*>& tables, const Scenario& scenario,
                                 Mistakes& mistakes)
{
  std::vector<Event> timeline;
  for (const toml::table* table : tables)
    mistakes.gather([&] { timeline.push_back(read_event(*table, scenario)); });
  std::stable_sort(timeline.begin(), timeline.end(), [](const Event& a, const Event& b) { return a.at < b.at; });
  return timeline;
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
  ChangeEvent change = make_change(which, std::string(key), Value(value, std::string(path)), scenario.wifi);
  change.server = server;
  return change;
}

} // namespace tandem::lab
