// Prints what the modem or the rtnetlink source says as JSON Lines, until its standard input ends. Tests drive it.
//   feeder_probe_bus modem [POLL_MS] | rtnetlink INTERFACE...
// Records are those of a recording; besides, {"problem": "..."} whenever that changes.
#include "src/feeder/recording/record.h"
#include "src/feeder/sources/modem_source.h"
#include "src/feeder/sources/rtnetlink_source.h"
#include "src/feeder/sources/threaded_source.h"
#include "src/kernel/clock.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <iostream>

using namespace tandem;
using namespace tandem::feeder;

namespace
{

constexpr Duration retry = std::chrono::milliseconds { 200 };

std::unique_ptr<Source> make_source(const std::vector<std::string>& words)
{
  if (words.size() >= 2 && words[0] == "rtnetlink")
    return std::make_unique<RtnetlinkSource>(std::vector<std::string> { words.begin() + 1, words.end() });
  if (words.empty() || words[0] != "modem") return {};
  ModemSource::Settings settings {};
  if (words.size() == 2) settings.poll = std::chrono::milliseconds { std::stoi(words[1]) };
  return std::make_unique<ThreadedSource>(std::make_unique<ModemSource>(settings));
}

void run(Source& source)
{
  std::vector<Report> reports {};
  std::string problem {};
  for (;;)
  {
    if (source.fd() < 0) source.reopen(kernel::now());
    const Tick now = kernel::now();
    const Tick due = source.fd() < 0 ? now + retry : std::min(source.due(), now + retry);
    std::array<pollfd, 2> watched { { { .fd = STDIN_FILENO, .events = POLLIN, .revents = 0 },
                                      { .fd = source.fd(), .events = POLLIN, .revents = 0 } } };
    const auto left = std::max<std::int64_t>(0, (due - now) / std::chrono::milliseconds { 1 });
    ::poll(watched.data(), watched.size(), static_cast<int>(left));
    if (watched[0].revents != 0) return;
    reports.clear();
    if (source.fd() >= 0) source.receive(kernel::now(), reports);
    for (const Report& report : reports)
      std::cout << to_line(to_json(source.name(), report)) << '\n';
    if (source.problem() != problem)
    {
      problem = source.problem();
      std::cout << to_line({ { "problem", problem }, { "skipped", source.skipped() } }) << '\n';
    }
    std::cout.flush();
  }
}

} // namespace

int main(int argc, char** argv)
{
  try
  {
    const auto source = make_source({ argv + 1, argv + argc });
    if (!source)
    {
      std::cerr << "usage: feeder_probe_bus modem [POLL_MS] | rtnetlink INTERFACE...\n";
      return 2;
    }
    run(*source);
    std::cout << to_line({ { "skipped", source->skipped() } }) << '\n';
  }
  catch (const std::exception& error)
  {
    std::cerr << "feeder_probe_bus: " << error.what() << '\n';
    return 1;
  }
}
