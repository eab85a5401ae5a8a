#include "src/daemon/radio_matrix.h"

#include "src/feeder/sources/modem_source.h"
#include "src/feeder/sources/nl80211_capabilities.h"
#include "src/feeder/sources/rtnetlink_source.h"
#include "src/feeder/sources/source_name.h"
#include "src/feeder/sources/threaded_source.h"
#include "src/kernel/clock.h"
#include "src/links/find_interfaces.h"

#include <poll.h>

#include <filesystem>

namespace tandem::daemon
{
namespace
{

using feeder::Ability;
using nlohmann::json;

constexpr Duration listened = std::chrono::seconds { 2 };

class Matrix
{
public:
  void add(const std::string& source, const std::string& field, Ability there, const std::string& why = {})
  {
    rows_.push_back({ { "source", source }, { "field", field }, { "there", feeder::name(there) }, { "why", why } });
  }
  json take() { return std::move(rows_); }

private:
  json rows_ = json::array();
};

// What the source reports within `listened`, or until the first of the reports that come at once.
std::vector<feeder::Report> first_reports(feeder::Source& source)
{
  std::vector<feeder::Report> reports {};
  const Tick end = kernel::now() + listened;
  bool open = source.fd() >= 0 || source.reopen(kernel::now());
  for (Tick now = kernel::now(); open && reports.empty() && now < end; now = kernel::now())
  {
    pollfd one { .fd = source.fd(), .events = POLLIN, .revents = 0 };
    const auto left = std::max(Duration::zero(), std::min(end, source.due()) - now);
    ::poll(&one, 1, static_cast<int>(left / std::chrono::milliseconds { 1 }) + 1);
    open = source.receive(kernel::now(), reports);
  }
  return reports;
}

void add_nl80211(Matrix& matrix, const links::Found& wifi)
{
  if (wifi.interface.empty())
  {
    matrix.add("nl80211", "interface", Ability::absent, wifi.why);
    return;
  }
  for (const feeder::Capability& one : feeder::capabilities(wifi.interface))
  {
    const bool monitor = one.name.starts_with("monitor");
    const bool whole = one.name == "nl80211" || one.name == "monitor";
    matrix.add(monitor ? "monitor" : "nl80211",
               whole     ? "interface " + wifi.interface
               : monitor ? one.name.substr(sizeof "monitor")
                         : one.name,
               one.ability, one.why);
  }
}

void add_configured(Matrix& matrix, const std::vector<std::string>& names)
{
  for (const std::string& name : names)
  {
    std::error_code ignored {};
    if (const auto interface = feeder::behind(feeder::monitor_prefix, name))
    {
      const bool there = std::filesystem::exists("/sys/class/net/" + *interface, ignored);
      matrix.add(name, "frames", there ? Ability::unknown : Ability::absent,
                 there ? "shows once it is listened to" : "there is no interface of this name");
    }
    for (const auto prefix : { feeder::lab_prefix, feeder::replay_prefix })
      if (const auto path = feeder::behind(prefix, name))
      {
        const bool there = std::filesystem::exists(*path, ignored);
        matrix.add(name, prefix == feeder::lab_prefix ? "frames" : "reports", there ? Ability::yes : Ability::absent,
                   there ? "" : "nothing has this path");
      }
  }
}

void add_modem(Matrix& matrix, const feeder::ModemStats& stats)
{
  const auto add = [&](const char* field, bool there, Ability otherwise, const char* why)
  { matrix.add("modem", field, there ? Ability::yes : otherwise, there ? "reported now" : why); };
  add("state", stats.state.has_value(), Ability::absent, "ModemManager does not know it");
  add("technology", stats.technology.has_value(), Ability::unknown, "shows once the modem is registered");
  add("quality", stats.quality.has_value(), Ability::unknown, "not measured recently");
  const bool measures = stats.rssi || stats.rsrp || stats.rsrq || stats.snr;
  const auto otherwise = measures ? Ability::absent : Ability::unknown;
  const char* why =
      measures ? "the modem measures without it" : "not measured now; the daemon asks the modem to while it runs";
  add("rssi", stats.rssi.has_value(), otherwise, why);
  add("rsrp", stats.rsrp.has_value(), otherwise, why);
  add("rsrq", stats.rsrq.has_value(), otherwise, why);
  add("snr", stats.snr.has_value(), otherwise, why);
}

void add_modems(Matrix& matrix, bool wanted)
{
  if (!wanted)
  {
    matrix.add("modem", "ModemManager", Ability::unknown, "links.modem is none");
    return;
  }
  feeder::ThreadedSource source { std::make_unique<feeder::ModemSource>(
      feeder::ModemSource::Settings { .measure = false }) };
  const auto reports = first_reports(source);
  for (const feeder::Report& report : reports)
    if (const auto* stats = std::get_if<feeder::ModemStats>(&report.what); stats && !stats->gone)
    {
      matrix.add("modem", "ModemManager", Ability::yes, stats->modem);
      add_modem(matrix, *stats);
      return; // of several the first, which is the one that is used
    }
  const std::string problem = source.problem();
  matrix.add("modem", "ModemManager", problem.empty() ? Ability::yes : Ability::absent,
             problem.empty() ? "it knows no modem" : problem);
}

void add_rtnetlink(Matrix& matrix, const links::Found& wifi, const links::Found& cell)
{
  std::vector<std::string> names {};
  for (const auto& found : { wifi, cell })
    if (!found.interface.empty()) names.push_back(found.interface);
  feeder::RtnetlinkSource source { names };
  const auto reports = first_reports(source);
  if (!source.problem().empty()) matrix.add("rtnetlink", "link changes", Ability::absent, source.problem());
  for (const feeder::Report& report : reports)
    if (const auto* change = std::get_if<feeder::InterfaceChange>(&report.what))
      matrix.add("rtnetlink", "carrier of " + change->interface, change->gone ? Ability::absent : Ability::yes,
                 change->gone      ? "there is no such interface"
                 : change->carrier ? "it has one now"
                 : change->up      ? "it has none now"
                                   : "the interface is down");
}

} // namespace

nlohmann::json radio_matrix(const Config& config)
{
  const auto found = [](const std::string& given, links::Found (*find)(const std::string&))
  {
    if (given == "auto") return find("/sys/class/net");
    return given == "none" ? links::Found {} : links::Found { given, {} };
  };
  const links::Found wifi = found(config.links.wifi, links::find_wifi);
  const links::Found cell = found(config.links.cell, links::find_cell);
  Matrix matrix {};
  try
  {
    add_nl80211(matrix, wifi);
    add_configured(matrix, config.links.radio);
    add_modems(matrix, config.links.modem);
    if (!wifi.interface.empty() || !cell.interface.empty()) add_rtnetlink(matrix, wifi, cell);
  }
  catch (const std::exception& error)
  {
    matrix.add("all", "the rest", Ability::unknown, error.what()); // no thread, no descriptor
  }
  return matrix.take();
}

} // namespace tandem::daemon
