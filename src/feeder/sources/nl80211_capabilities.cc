#include "src/feeder/sources/nl80211_capabilities.h"

#include "src/feeder/sources/nl80211_decode.h"
#include "src/feeder/sources/nl80211_socket.h"

#include <linux/nl80211.h>
#include <net/if.h>
#include <netlink/attr.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <optional>

namespace tandem::feeder
{

namespace
{

// What drivers do with damaged frames shows in nothing that they say; their sources tell. By the start of their names.
constexpr std::array<std::string_view, 9> keep_damaged { "ath9k", "ath10k",  "ath11k", "ath12k", "mt76",
                                                         "mt79",  "iwlwifi", "rtw_",   "rtw89_" };
constexpr std::array<std::string_view, 1> drop_damaged { "brcmfmac" };

struct Probe
{
  std::string driver {};
  std::string problem {}; // with asking at all
  std::optional<StationStats> station {};
  int station_error = 0;
  std::vector<Survey> surveys {};
  int survey_error = 0;
  nl80211::Wiphy wiphy {};
};

Probe look(const std::string& interface)
{
  Probe probe {};
  std::error_code error {};
  probe.driver =
      std::filesystem::read_symlink("/sys/class/net/" + interface + "/device/driver", error).filename().string();
  const unsigned ifindex = if_nametoindex(interface.c_str());
  if (ifindex == 0)
  {
    probe.problem = nl80211::Socket::explain(interface, ENODEV);
    return probe;
  }
  nl80211::Socket socket {};
  if (const int code = socket.open(); code != 0)
  {
    probe.problem = nl80211::Socket::explain(interface, code);
    return probe;
  }
  const auto about = [ifindex](nl_msg* m) { nla_put_u32(m, NL80211_ATTR_IFINDEX, ifindex); };
  const auto ask = [&](std::uint8_t command, const nl80211::Socket::Take& take)
  { return socket ? socket.ask(command, true, about, take) : ETIMEDOUT; };
  const int wireless = socket.ask(NL80211_CMD_GET_INTERFACE, false, about, nullptr);
  if (wireless != 0)
  {
    probe.problem = nl80211::Socket::explain(interface, wireless);
    return probe;
  }
  probe.station_error = ask(NL80211_CMD_GET_STATION,
                            [&](std::span<const std::byte> bytes)
                            {
                              const auto message = nl80211::decode(bytes);
                              if (!message) return;
                              if (const auto* s = std::get_if<StationStats>(&message->what)) probe.station = *s;
                            });
  probe.survey_error = ask(NL80211_CMD_GET_SURVEY,
                           [&](std::span<const std::byte> bytes)
                           {
                             const auto message = nl80211::decode(bytes);
                             if (!message) return;
                             if (const auto* s = std::get_if<Survey>(&message->what)) probe.surveys.push_back(*s);
                           });
  if (socket)
    // Without the flag, newer abilities do not fit into the one message that old programs expect.
    socket.ask(
        NL80211_CMD_GET_WIPHY, true,
        [&](nl_msg* m)
        {
          about(m);
          nla_put_flag(m, NL80211_ATTR_SPLIT_WIPHY_DUMP);
        },
        [&](std::span<const std::byte> bytes) { probe.wiphy.take(bytes); });
  return probe;
}

void add_station(const Probe& probe, std::vector<Capability>& all)
{
  const auto add = [&](std::string name, const auto StationStats::*field)
  {
    Capability c { .name = "station " + std::move(name) };
    if (probe.station_error != 0)
      c.why = nl80211::Socket::explain("reading the counters", probe.station_error);
    else if (!probe.station)
      c.why = "not associated; shows once it is";
    else
    {
      c.ability = (*probe.station.*field).has_value() ? Ability::yes : Ability::absent;
      c.why = c.ability == Ability::yes ? "reported now" : "associated, and the driver does not report it";
    }
    all.push_back(std::move(c));
  };
  add("signal", &StationStats::signal);
  add("average signal", &StationStats::signal_average);
  add("inactive time", &StationStats::inactive);
  add("receive rate", &StationStats::rx_mbps);
  add("transmit rate", &StationStats::tx_mbps);
  add("received packets", &StationStats::rx_packets);
  add("sent packets", &StationStats::tx_packets);
  add("transmit retries", &StationStats::tx_retries);
  add("transmit failures", &StationStats::tx_failed);
  add("beacon loss", &StationStats::beacon_loss);
  add("beacons received", &StationStats::beacons);
  add("receive air time", &StationStats::rx_duration);
}

void add_survey(const Probe& probe, std::vector<Capability>& all)
{
  const auto add = [&](std::string name, const std::function<bool(const Survey&)>& has)
  {
    Capability c { .name = "survey " + std::move(name) };
    if (probe.survey_error != 0)
    {
      c.ability = probe.survey_error == EOPNOTSUPP ? Ability::absent : Ability::unknown;
      c.why = nl80211::Socket::explain("reading the survey", probe.survey_error);
    }
    else if (probe.surveys.empty())
      c.why = "the driver listed no channel; shows once it is associated";
    else
    {
      c.ability = std::any_of(probe.surveys.begin(), probe.surveys.end(), has) ? Ability::yes : Ability::absent;
      c.why = c.ability == Ability::yes ? "reported now" : "the driver lists channels without it";
    }
    all.push_back(std::move(c));
  };
  add("noise", [](const Survey& s) { return s.noise.has_value(); });
  add("active time", [](const Survey& s) { return s.active.has_value(); });
  add("busy time", [](const Survey& s) { return s.busy.has_value(); });
}

Capability monitor(const Probe& probe)
{
  Capability c { .name = "monitor" };
  if (!probe.wiphy.monitor)
    c.why = "the driver does not say which kinds of interface it offers";
  else if (!*probe.wiphy.monitor)
    c = { c.name, Ability::absent, "the driver offers no monitor interfaces" };
  else
    c = { c.name, Ability::yes,
          probe.wiphy.software_monitor.value_or(false) ? "beside any other use"
                                                       : "offered; perhaps not beside an association" };
  return c;
}

Capability damaged_frames(const Probe& probe)
{
  Capability c { .name = "monitor damaged frames" };
  const auto listed = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](std::string_view one) { return probe.driver.starts_with(one); });
  };
  if (probe.wiphy.monitor && !*probe.wiphy.monitor)
    c = { c.name, Ability::absent, "the driver offers no monitor interfaces" };
  else if (listed(keep_damaged))
    c = { c.name, Ability::yes, "the driver " + probe.driver + " is known to keep them" };
  else if (listed(drop_damaged))
    c = { c.name, Ability::absent, "the driver " + probe.driver + " is known to drop them" };
  else
    c.why = "drivers do not say whether they keep them"
            + (probe.driver.empty() ? "" : ", and " + probe.driver + " is not known");
  return c;
}

Capability signal_threshold(const Probe& probe)
{
  Capability c { .name = "signal threshold events" };
  if (probe.wiphy.cqm_list.value_or(false))
    c = { c.name, Ability::yes, "the driver says so" };
  else
    c.why = "only setting one would tell";
  return c;
}

} // namespace

std::vector<Capability> capabilities(const std::string& interface)
{
  const Probe probe = look(interface);
  if (!probe.problem.empty()) return { { .name = "nl80211", .ability = Ability::absent, .why = probe.problem } };
  std::vector<Capability> all {
    { .name = "nl80211", .ability = Ability::yes, .why = probe.driver.empty() ? "" : "driver " + probe.driver }
  };
  add_station(probe, all);
  add_survey(probe, all);
  all.push_back(signal_threshold(probe));
  // The kernel's 802.11 stack makes these, whatever the driver; others may.
  all.push_back({ .name = "beacon loss events", .why = "drivers do not say; the event itself will tell" });
  all.push_back(monitor(probe));
  all.push_back(damaged_frames(probe));
  return all;
}

} // namespace tandem::feeder
