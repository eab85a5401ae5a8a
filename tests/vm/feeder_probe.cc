// Prints what the feeder's sources say of a Wi-Fi interface, as JSON Lines: for tests in the virtual machine, and for a
// look at a driver by hand.
#include "src/feeder/recording/record.h"
#include "src/feeder/sources/monitor_source.h"
#include "src/feeder/sources/nl80211_capabilities.h"
#include "src/feeder/sources/nl80211_socket.h"
#include "src/feeder/sources/nl80211_source.h"
#include "src/kernel/clock.h"

#include <CLI/CLI.hpp>
#include <linux/nl80211.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <nlohmann/json.hpp>
#include <poll.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <iomanip>
#include <iostream>
#include <sstream>

namespace
{

using namespace tandem;
using namespace tandem::feeder;
using namespace std::chrono_literals;

volatile std::sig_atomic_t stopped = 0;

void say(const nlohmann::ordered_json& line)
{
  std::cout << to_line(line) << std::endl; // each at once: somebody waits for it
}

void run(Source& source, Duration span)
{
  const Tick until = kernel::now() + span;
  std::vector<Report> reports {};
  std::string said {};
  std::uint64_t received = 0;
  const auto say_problem = [&]
  {
    if (source.problem() != said) say({ { "problem", said = source.problem() } });
  };
  while (stopped == 0)
  {
    const Tick now = kernel::now();
    reports.clear();
    bool works = source.receive(now, reports);
    say_problem();
    if (!works) works = source.reopen(now);
    say_problem();
    for (const Report& report : reports)
      say(to_json(source.name(), report));
    received += reports.size();
    if (now >= until) break;
    const Tick due = works ? std::min(source.due(), until) : now + 100ms;
    pollfd readable { source.fd(), POLLIN, 0 };
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(due - kernel::now()).count();
    ::poll(&readable, 1, static_cast<int>(std::clamp<long long>(wait, 0, 1000)));
  }
  say({ { "received", received }, { "skipped", source.skipped() } });
}

void print_hex(std::span<const std::byte> bytes)
{
  std::ostringstream line {};
  line << std::hex << std::setfill('0');
  for (const std::byte b : bytes)
    line << std::setw(2) << std::to_integer<unsigned>(b);
  std::cout << line.str() << std::endl;
}

// The kernel's messages as they are, a line each.
int print_raw(const std::string& interface, Tick until)
{
  constexpr std::array<const char*, 3> groups { "mlme", "scan", "config" };
  nl80211::Socket questions {}, events {};
  int error = questions.open();
  if (error == 0) error = events.open(groups);
  for (const std::uint8_t command : { NL80211_CMD_GET_INTERFACE, NL80211_CMD_GET_STATION, NL80211_CMD_GET_SURVEY,
                                      NL80211_CMD_GET_SCAN, NL80211_CMD_GET_WIPHY })
    if (error == 0)
      error = questions.ask(
          command, command != NL80211_CMD_GET_INTERFACE,
          [&](nl_msg* m)
          {
            nla_put_u32(m, NL80211_ATTR_IFINDEX, if_nametoindex(interface.c_str()));
            if (command == NL80211_CMD_GET_WIPHY) nla_put_flag(m, NL80211_ATTR_SPLIT_WIPHY_DUMP);
          },
          print_hex);
  while (error == 0 && stopped == 0 && kernel::now() < until)
  {
    pollfd readable { events.fd(), POLLIN, 0 };
    ::poll(&readable, 1, 100);
    error = events.listen(print_hex);
  }
  if (error == 0) return 0;
  std::cerr << "feeder_probe: " << nl80211::Socket::explain("nl80211 on " + interface, error) << '\n';
  return 1;
}

} // namespace

int main(int argc, char** argv)
{
  CLI::App app { "Prints what a source of driver statistics says, as JSON Lines." };
  std::string what, interface, ap;
  double seconds = 3600;
  Nl80211Settings settings {};
  int threshold = 0;
  app.add_option("what", what, "nl80211, monitor, monitor:IFNAME, capabilities or raw")->required();
  app.add_option("interface", interface, "the Wi-Fi interface")->required();
  app.add_option("--seconds", seconds, "how long to listen");
  auto* with_threshold = app.add_option("--threshold", threshold, "dBm at which the driver shall tell of the signal");
  app.add_option("--ap", ap, "address of the access point, for monitor");
  CLI11_PARSE(app, argc, argv);
  if (*with_threshold) settings.signal_threshold = threshold;
  const auto ap_address = parse_mac(ap);
  if (!ap.empty() && !ap_address)
  {
    std::cerr << "feeder_probe: --ap " << ap << ": an address such as 02:00:00:00:00:01 is needed\n";
    return 2;
  }

  std::signal(SIGTERM, [](int) { stopped = 1; });
  std::signal(SIGINT, [](int) { stopped = 1; });
  const Duration span = std::chrono::milliseconds { static_cast<std::int64_t>(seconds * 1000) };
  constexpr std::string_view given = "monitor:";
  if (what == "capabilities")
  {
    for (const Capability& c : capabilities(interface))
      say({ { "name", c.name }, { "ability", name(c.ability) }, { "why", c.why } });
    return 0;
  }
  if (what == "raw") return print_raw(interface, kernel::now() + span);
  if (what == "nl80211")
  {
    Nl80211Source source { interface, settings };
    if (!source.threshold_problem().empty()) say({ { "threshold_problem", source.threshold_problem() } });
    run(source, span);
    return 0;
  }
  if (what == "monitor" || what.starts_with(given))
  {
    MonitorSource source { interface, what == "monitor" ? "" : what.substr(given.size()) };
    source.set_ap(ap_address);
    if (!source.note().empty()) say({ { "note", source.note() } });
    run(source, span);
    return 0;
  }
  std::cerr << "feeder_probe: " << what << ": nl80211, monitor, monitor:IFNAME, capabilities or raw is needed\n";
  return 2;
}
