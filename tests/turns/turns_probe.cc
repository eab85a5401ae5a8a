// Takes turns between stations of one card, as ChannelTurns says, and prints each order as a JSON line: for tests on
// simulated radios and in the lab.
#include "src/association/channel_turns.h"
#include "src/association/power_save.h"
#include "src/kernel/clock.h"
#include "src/kernel/interface_bytes.h"
#include "tests/turns/lab_card.h"
#include "tests/turns/null_frames.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <thread>

namespace
{

using namespace tandem;
using namespace tandem::association;

struct Station
{
  std::string interface {
  };
  unsigned frequency = 0;
};

std::string word_of(const std::string& file)
{
  std::string word {};
  std::ifstream { file } >> word;
  return word;
}

void say(const nlohmann::json& line)
{
  std::cout << line << std::endl; // each at once: somebody waits for it
}

Duration of_ms(double ms)
{
  return std::chrono::microseconds { static_cast<std::int64_t>(ms * 1000) };
}

// "slots": ChannelTurns as it is. "always": equal slots for ever, as nobody would who has compared.
void take_turns(Presence& card, const std::vector<Station>& stations, Duration span, bool always)
{
  ChannelTurns turns { card.shares_time() };
  const Tick began = kernel::now();
  const auto ms = [began](Tick at) { return milliseconds(at - began); };
  say({ { "began_ns", began.time_since_epoch().count() } });
  std::set<unsigned> backup {};
  while (kernel::now() - began < span)
  {
    std::vector<ChannelTurns::Channel> channels {};
    for (const Station& one : stations)
      channels.push_back({ one.frequency, always ? 0 : kernel::arrived_by(one.interface) });
    const ChannelTurns::Step step = turns.look(channels, kernel::now());
    if (step.backup != backup)
      say({ { "backup", backup = step.backup }, { "at_ms", ms(kernel::now()) }, { "why", turns.why() } });
    for (const ChannelTurns::Order& order : step.orders)
    {
      const auto its = std::find_if(stations.begin(), stations.end(),
                                    [&](const Station& one) { return one.frequency == order.frequency; });
      const Tick sent = kernel::now();
      const Presence::Report report = card.order(its->interface, order.present);
      turns.carried_out(order, report);
      say({ { "interface", its->interface },
            { "present", order.present },
            { "due_ms", ms(order.due) },
            { "sent_ms", ms(sent) },
            { "done_ms", ms(report.done) },
            { "problem", report.problem } });
    }
    std::this_thread::sleep_for(std::min(step.next, began + span) - kernel::now());
  }
  for (const Station& one : stations)
    card.order(one.interface, true);
  const ChannelTurns::Counters& all = turns.counters();
  say({ { "orders", all.orders },
        { "late", all.late },
        { "failed", all.failed },
        { "longest_ms", milliseconds(all.longest) },
        { "problem", turns.problem() } });
}

int by_null_frames(const std::string& monitor, const std::vector<std::string>& words, Duration span)
{
  NullFrames card { monitor };
  std::vector<Station> stations {};
  for (std::size_t i = 0; i + 2 < words.size(); i += 3)
  {
    const auto own = feeder::parse_mac(word_of("/sys/class/net/" + words[i] + "/address"));
    const auto ap = feeder::parse_mac(words[i + 2]);
    if (!own || !ap) throw std::runtime_error(words[i] + ": an interface, MHz and an access point are needed");
    stations.push_back({ words[i], static_cast<unsigned>(std::stoul(words[i + 1])) });
    card.add(words[i], *own, *ap);
  }
  take_turns(card, stations, span, false);
  return 0;
}

int in_the_lab(const std::string& socket, const std::vector<std::string>& interfaces, Duration cost, Duration span,
               bool always)
{
  LabCard card { socket, cost };
  std::vector<Station> stations {};
  for (const std::string& one : interfaces)
    stations.push_back({ one, static_cast<unsigned>(stations.size() + 1) }); // a number is all that is needed
  take_turns(card, stations, span, always);
  return 0;
}

int set_power_save(const std::string& station, bool present)
{
  const Presence::Report report = PowerSave {}.order(station, present);
  say({ { "problem", report.problem } });
  return report.problem.empty() ? 0 : 1;
}

} // namespace

int main(int argc, char** argv)
{
  CLI::App app { "Takes turns between stations of one card, or sets a station's power save." };
  std::string place {}, state {};
  std::vector<std::string> stations {};
  double seconds = 2, cost_ms = 5;
  bool always = false;
  CLI::App* turns = app.add_subcommand("null-frames", "on simulated radios");
  turns->add_option("monitor", place, "a monitor interface of the card that is up")->required();
  turns->add_option("stations", stations, "INTERFACE MHZ ACCESS-POINT of each")->required();
  turns->add_option("--seconds", seconds, "for how long");
  CLI::App* lab = app.add_subcommand("lab", "with the lab's Wi-Fi interfaces, inside its laptop");
  lab->add_option("socket", place, "the emulator's control socket")->required();
  lab->add_option("stations", stations, "interfaces, each on a channel of its own")->required();
  lab->add_option("--seconds", seconds, "for how long");
  lab->add_option("--cost", cost_ms, "of a switch, ms");
  lab->add_flag("--always", always, "equal slots for ever, and no backups");
  CLI::App* power_save = app.add_subcommand("power-save", "by nl80211, as the daemon does");
  power_save->add_option("station", place, "its interface")->required();
  power_save->add_option("state", state, "present or away")->required()->check(CLI::IsMember({ "present", "away" }));
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  try
  {
    if (turns->parsed()) return by_null_frames(place, stations, of_ms(seconds * 1000));
    if (lab->parsed()) return in_the_lab(place, stations, of_ms(cost_ms), of_ms(seconds * 1000), always);
    return set_power_save(place, state == "present");
  }
  catch (const std::exception& error)
  {
    std::cerr << "turns_probe: " << error.what() << '\n';
    return 2;
  }
}
