// modules/ecn in the scenarios of Croitoru et al. (NSDI 2015) 6.2.1. The benches have the figures; here are wide
// bounds.

#include "tools/sim/scenarios.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::sim::test
{

namespace
{

using nlohmann::json;

Paper steered()
{
  Paper paper;
  paper.modules = { "ecn" };
  paper.seconds = 80;
  paper.warmup = 20;
  return paper;
}

double share(const json& result)
{
  return result["share"].get<double>();
}

std::uint64_t requests(const json& result)
{
  return result["client"]["requests"].get<std::uint64_t>() + result["client"]["other_requests"].get<std::uint64_t>();
}

struct Kind
{
  const char* cc;
  const char* scheduler;
};

class Steering : public testing::TestWithParam<Kind>
{
public:
  Paper paper() const
  {
    Paper made = steered();
    made.cc = GetParam().cc;
    made.scheduler = GetParam().scheduler;
    return made;
  }
};

// MPTCP alone gets 0.2 here.
TEST_P(Steering, ThePoorAccessPointIsLeftOutWhereItOnlyTakesAir)
{
  Paper in = paper();
  in.rtt_ms = 50;
  in.t1_ms = 3;
  in.weight = 4;
  EXPECT_GT(share(grid(in)), 0.8);
}

TEST_P(Steering, ThePoorAccessPointIsUsedWhereTheUplinkOfTheOtherIsFull)
{
  Paper in = paper();
  in.rtt_ms = 25;
  in.t1_ms = 3;
  for (const double flows : { 10, 20 }) // AP2 alone: 0.77 and 0.45
  {
    in.uplink_flows = flows;
    EXPECT_GT(share(uplink(in)), 0.6) << flows;
  }
}

TEST_P(Steering, NothingIsRequestedForWithOneAccessPoint)
{
  Paper in = paper();
  in.aps = 1;
  const json result = many(in);
  EXPECT_EQ(requests(result), 0u) << result["client"];
  EXPECT_GT(share(result), 0.9);
}

TEST_P(Steering, NothingIsRequestedForWithoutPacketTimes)
{
  Paper in = paper();
  in.t1_ms = 6;
  in.radio = false;
  const json result = grid(in);
  EXPECT_EQ(requests(result), 0u) << result["client"];
}

TEST_P(Steering, NothingIsRequestedForWhereAllAreGood)
{
  Paper in = paper();
  in.t1_ms = 0.55;
  const json result = grid(in);
  EXPECT_EQ(requests(result), 0u) << result["client"];
}

// There are roles for eight: what the others carry is not seen, so nothing is asked for.
TEST_P(Steering, TwelveAccessPointsAreLeftToMptcp)
{
  Paper in = paper();
  in.aps = 12;
  in.best = "first";
  const json result = many(in);
  EXPECT_EQ(result["flows"][0]["subflows"].size(), 12u);
  EXPECT_EQ(requests(result), 0u) << result["client"];
  in.modules = {};
  EXPECT_GT(share(result), 0.95 * share(many(in)));
}

INSTANTIATE_TEST_SUITE_P(Senders, Steering,
                         testing::Values(Kind { "olia", "lowest-rtt" }, Kind { "lia", "lowest-rtt" },
                                         Kind { "cubic", "linux-like" }),
                         [](const auto& param) { return std::string(param.param.cc); });

TEST(SteeringInTime, ARadioThatTurnsBadIsLeft)
{
  // Both alike at first; one turns bad for good, a second or so into the run.
  const auto run = [](bool with)
  {
    json description {
      { "seed", 3 },
      { "seconds", 40 },
      { "warmup", 15 },
      { "variations",
        { { { "name", "one" }, { "good_ms", 0.5 }, { "bad_ms", 6 }, { "good_s", 0.05 }, { "bad_s", 1e5 } } } },
      { "links",
        { { { "name", "ap1" }, { "type", "weighted" }, { "vary", { "one" } } },
          { { "name", "ap2" }, { "type", "weighted" }, { "packet_ms", 0.5 } } } },
      { "flows",
        { { { "client", true },
            { "mptcp", true },
            { "ecn", true },
            { "cc", "olia" },
            { "subflows",
              { { { "rtt_ms", 25 }, { "down", { "ap1" } } }, { { "rtt_ms", 25 }, { "down", { "ap2" } } } } } } } }
    };
    if (with) description["modules"] = { "ecn" };
    return simulate(description)["flows"][0]["mbps"].get<double>();
  };
  EXPECT_LT(run(false), 8);
  EXPECT_GT(run(true), 16);
}

// A silent flow is forgotten after two minutes, unless a sibling lives; what was requested for would lapse, and the
// flow come back as one that nobody knows.
TEST(SteeringInTime, WhoIsLeftOutForLongStaysKnown)
{
  Paper in = steered();
  in.aps = 3;
  in.seconds = 330;
  in.warmup = 270;
  EXPECT_GT(share(many(in)), 0.8);
}

// Table 2 of the paper: C near AP2 has a far way by AP1, where C1 is. Senders that do not couple would take C1's air;
// the channel is busy without them.
TEST(SteeringInTime, AirThatOthersUseIsLeftToThem)
{
  const auto by = [](const char* link) -> json {
    return { { "rtt_ms", 25 }, { "jitter_ms", 0.5 }, { "down", { link } } };
  };
  const auto run = [&](bool with)
  {
    json description {
      { "seconds", 150 },
      { "warmup", 30 },
      { "links",
        { { { "name", "ap1" }, { "type", "weighted" }, { "packet_ms", 0.52 } },
          { { "name", "ap2" }, { "type", "weighted" }, { "packet_ms", 0.52 } },
          { { "name", "far" }, { "type", "weighted" }, { "ap", "ap1" }, { "packet_ms", 0.81 }, { "cost", 2.7 } },
          { { "name", "near" }, { "type", "weighted" }, { "ap", "ap2" }, { "packet_ms", 0.52 } } } },
      { "flows",
        { { { "client", true },
            { "mptcp", true },
            { "ecn", true },
            { "scheduler", "linux-like" },
            { "subflows", { by("far"), by("near") } } },
          { { "subflows", json::array({ by("ap1") }) } },
          { { "subflows", json::array({ by("ap2") }) } } } }
    };
    if (with) description["modules"] = { "ecn" };
    return simulate(description)["flows"][1]["mbps"].get<double>();
  };
  EXPECT_LT(run(false), 5);
  EXPECT_GT(run(true), 8); // TCP by AP2 leaves C1 11
}

} // namespace

} // namespace tandem::sim::test
