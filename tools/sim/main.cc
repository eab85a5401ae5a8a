// tandem-sim: one simulation in virtual time; prints what came of it as JSON.
#include "src/control/standard_output.h"
#include "tools/sim/rate_commands.h"
#include "tools/sim/scenarios.h"

#include <CLI/CLI.hpp>
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string_view>

namespace
{

using nlohmann::json;
using namespace tandem::sim;

json read(const std::string& file)
{
  std::ifstream stream;
  if (file != "-")
  {
    stream.open(file);
    if (!stream) throw BadScenario(file + ": cannot be read");
  }
  try
  {
    return json::parse(file == "-" ? std::cin : stream);
  }
  catch (const json::parse_error& error)
  {
    throw BadScenario(file + ": " + error.what());
  }
}

struct Single
{
  std::string cc = "cubic", repair = "rack";
  double mbps = 20, rtt_ms = 40, queue = 100, loss = 0, mark_ms = 0, size = 0;
  unsigned flows = 1;
  bool ecn = false;
  double seconds = 30, warmup = 5;
  std::uint64_t seed = 1;
};

json run_single(const Single& in)
{
  json flow { { "cc", in.cc },
              { "repair", in.repair },
              { "ecn", in.ecn },
              { "count", in.flows },
              { "size", in.size },
              { "spread", in.flows > 1 ? std::min(1.0, in.seconds / 10) : 0.0 },
              { "subflows", json::array({ { { "rtt_ms", in.rtt_ms }, { "down", { "bottleneck" } } } }) } };
  return simulate({ { "seed", in.seed },
                    { "seconds", in.seconds },
                    { "warmup", in.warmup },
                    { "links", json::array({ { { "name", "bottleneck" },
                                               { "mbps", in.mbps },
                                               { "queue", in.queue },
                                               { "loss", in.loss },
                                               { "mark_ms", in.mark_ms } } }) },
                    { "flows", json::array({ flow }) } });
}

} // namespace

int main(int argc, char** argv)
{
  CLI::App app { "Simulates TCP and MPTCP downloads in virtual time and prints what came of it as JSON." };
  app.require_subcommand(1);
  // Heeded before the parsing, which ends in the run itself.
  bool with_parent = argc > 1 && std::string_view(argv[1]) == "--with-parent";
  if (with_parent) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  app.add_flag("--with-parent", with_parent, "first of all options: end when the program ends that started this one");

  json result;
  std::string file;
  CLI::App* run = app.add_subcommand("run", "what a JSON file describes (docs/sim.md)");
  run->add_option("FILE", file, "the description; - reads it from the standard input")->required();
  run->callback([&] { result = simulate(read(file)); });

  const CLI::IsMember controls({ "reno", "cubic", "lia", "olia" });
  const CLI::IsMember repairs({ "rack", "sack", "reno" });
  Single single;
  CLI::App* one = app.add_subcommand("single", "TCP flows through one link");
  one->add_option("--cc", single.cc, "congestion control")->check(controls);
  one->add_option("--repair", single.repair, "how losses are found")->check(repairs);
  one->add_option("--mbps", single.mbps, "rate of the link")->check(CLI::Range(0.001, 1e6));
  one->add_option("--rtt", single.rtt_ms, "round-trip time without queues, ms")->check(CLI::Range(0.0, 1e5));
  one->add_option("--queue", single.queue, "packets")->check(CLI::Range(1.0, 1e7));
  one->add_option("--loss", single.loss, "random loss")->check(CLI::Range(0.0, 1.0));
  one->add_option("--mark", single.mark_ms, "packets that waited so long are marked, ms")->check(CLI::Range(0.0, 1e5));
  one->add_option("--flows", single.flows, "how many")->check(CLI::Range(1u, 1000u));
  one->add_option("--size", single.size, "bytes of each; 0 = for ever")->check(CLI::Range(0.0, 1e15));
  one->add_flag("--ecn", single.ecn, "the flows negotiate ECN");
  one->add_option("--seconds", single.seconds, "virtual time")->check(CLI::Range(0.001, 1e6));
  one->add_option("--warmup", single.warmup, "not counted, s")->check(CLI::Range(0.0, 1e6));
  one->add_option("--seed", single.seed, "seed");
  one->callback([&] { result = run_single(single); });

  Paper paper;
  const auto common = [&](CLI::App& into)
  {
    into.add_option("--rtt", paper.rtt_ms, "round-trip time without queues, ms")->check(CLI::Range(0.0, 1e5));
    into.add_option("--t1", paper.t1_ms, "packet time of AP1, ms")->check(CLI::Range(0.001, 1e3));
    into.add_option("--t2", paper.t2_ms, "packet time of AP2, ms")->check(CLI::Range(0.001, 1e3));
    into.add_option("--weight", paper.weight, "how often AP1 wins contention for once of AP2")
        ->check(CLI::Range(0.001, 1e3));
    into.add_option("--fair", paper.fair, "what the weights share: packets, as winning contention does, or air time")
        ->check(CLI::IsMember({ "packets", "air" }));
    into.add_option("--cc", paper.cc, "congestion control of MPTCP")->check(controls);
    into.add_option("--repair", paper.repair, "how losses are found")->check(repairs);
    into.add_option("--scheduler", paper.scheduler, "of MPTCP")->check(CLI::IsMember({ "lowest-rtt", "linux-like" }));
    into.add_option("--arm", paper.arm, "MPTCP, or TCP by one access point")
        ->check(CLI::IsMember({ "mptcp", "ap1", "ap2" }));
    into.add_option("--marking", paper.marking, "CE marks at the client; published: equation 5")
        ->check(CLI::IsMember({ "none", "fixed", "published" }));
    into.add_option("--marking-rtt", paper.marking_rtt, "round-trip time that equation 5 is given")
        ->check(CLI::IsMember({ "smoothed", "least" }));
    into.add_option("--mark1", paper.mark1, "with fixed: share on AP1")->check(CLI::Range(0.0, 1.0));
    into.add_option("--ecn", paper.ecn, "the sender negotiates ECN");
    into.add_option("--modules", paper.modules, "the daemon's modules that run at the client, with commas between")
        ->delimiter(',');
    into.add_option_function<std::vector<std::string>>(
            "--knobs",
            [&](const std::vector<std::string>& given)
            {
              for (const std::string& text : given)
              {
                double value = 0;
                const std::size_t equals = text.find('=');
                if (equals == std::string::npos || !CLI::detail::lexical_cast(text.substr(equals + 1), value))
                  throw CLI::ValidationError("--knobs", text + ": MODULE.KNOB=NUMBER is needed");
                paper.knobs[text.substr(0, equals)] = value;
              }
            },
            "their settings, like offload.window_mss=30, with commas between")
        ->delimiter(',');
    into.add_option("--radio", paper.radio, "modules are told the packet times");
    into.add_option("--estimator", paper.estimator,
                    "packet times as the daemon's estimator measures them, instead of the true ones");
    into.add_option("--survey", paper.survey, "and how much of the air is in use");
    into.add_option("--buffer", paper.buffer, "packets at each access point")->check(CLI::Range(1.0, 1e6));
    into.add_option("--receive-buffer", paper.receive_buffer, "bytes")->check(CLI::Range(1e3, 1e12));
    into.add_option("--seconds", paper.seconds, "virtual time")->check(CLI::Range(0.001, 1e6));
    into.add_option("--warmup", paper.warmup, "not counted, s")->check(CLI::Range(0.0, 1e6));
    into.add_option("--seed", paper.seed, "seed");
  };
  CLI::App* in_grid = app.add_subcommand("grid", "one cell of scenario 1: two access points on one channel");
  common(*in_grid);
  in_grid->callback([&] { result = grid(paper); });
  CLI::App* in_uplink = app.add_subcommand("uplink", "scenario 2: the uplink of AP2 is shared with other flows");
  common(*in_uplink);
  in_uplink->add_option("--flows", paper.uplink_flows, "competing TCP flows")->check(CLI::Range(0.0, 1000.0));
  in_uplink->add_option("--uplink", paper.uplink_mbps, "Mb/s")->check(CLI::Range(0.1, 1e5));
  in_uplink->add_option("--uplink-queue", paper.uplink_queue, "packets")->check(CLI::Range(1.0, 1e6));
  in_uplink->callback([&] { result = uplink(paper); });
  CLI::App* in_many = app.add_subcommand("many", "several access points on one channel");
  common(*in_many);
  in_many->add_option("--aps", paper.aps, "access points, the good one included")->check(CLI::Range(1u, 16u));
  in_many->add_option("--others", paper.others, "poor: 6 ms each; mixed: between 0.5 and 6 ms")
      ->check(CLI::IsMember({ "poor", "mixed" }));
  in_many->add_option("--best", paper.best, "the number of the good access point: the last, or the first")
      ->check(CLI::IsMember({ "last", "first" }));
  in_many->callback([&] { result = many(paper); });
  add_rate_commands(app, result);

  try
  {
    app.parse(argc, argv);
  }
  catch (const CLI::Success& done)
  {
    app.exit(done);
    return tandem::control::written_out("tandem-sim");
  }
  catch (const CLI::Error& error)
  {
    app.exit(error);
    return 2;
  }
  catch (const BadScenario& error)
  {
    std::fprintf(stderr, "tandem-sim: %s\n", error.what());
    return 2;
  }
  std::puts(result.dump(2).c_str());
  return tandem::control::written_out("tandem-sim");
}
