// Descriptions: determinism, bad input, finite files, the paper's scenarios.

#include "tools/sim/scenarios.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::sim::test
{

namespace
{

using nlohmann::json;

json lossy(std::uint64_t seed)
{
  return { { "seed", seed },
           { "seconds", 20 },
           { "links", { { { "name", "a" }, { "mbps", 20 }, { "queue", 50 }, { "loss", 0.002 } } } },
           { "flows",
             { { { "cc", "cubic" }, { "subflows", json::array({ { { "rtt_ms", 40 }, { "down", { "a" } } } }) } } } } };
}

json without_clock(json result)
{
  result.erase("wall_seconds");
  return result;
}

TEST(Scenarios, ASeedIsARun)
{
  EXPECT_EQ(without_clock(simulate(lossy(1))), without_clock(simulate(lossy(1))));
  EXPECT_NE(without_clock(simulate(lossy(1))), without_clock(simulate(lossy(2))));
}

TEST(Scenarios, AFileEnds)
{
  json description = lossy(1);
  description["flows"][0]["size"] = 1'000'001;
  const json result = simulate(description);
  ASSERT_TRUE(result["flows"][0]["finished"].is_number());
  EXPECT_GT(result["flows"][0]["finished"].get<double>(), 0.4); // the link's rate
  EXPECT_LT(result["flows"][0]["finished"].get<double>(), 3);
  EXPECT_NEAR(result["flows"][0]["mbps"].get<double>() * result["virtual_seconds"].get<double>() * 1e6 / 8, 1'000'001,
              1);
}

// Two access points; the client leaves the first after 5 s.
json walk_away(bool reinject)
{
  const auto ap = [](const char* name, int from, int length) {
    return json { { "name", name }, { "type", "wifi" }, { "there", json::array({ json::array({ from, length }) }) } };
  };
  const auto by = [](const char* name) {
    return json { { "rtt_ms", 25 }, { "down", { name } }, { "up", { name } }, { "start", 0.1 } };
  };
  return { { "seed", 1 },
           { "seconds", 10 },
           { "interval_ms", 1000 },
           { "wifi", json::object() },
           { "links", { ap("ap1", 0, 5), ap("ap2", 0, 10) } },
           { "flows",
             { { { "client", true },
                 { "mptcp", true },
                 { "reinject", reinject },
                 { "subflows", json::array({ by("ap1"), by("ap2") }) } } } } };
}

TEST(Scenarios, AnAddressThatIsGoneEndsItsSubflow)
{
  const json result = simulate(walk_away(true)), without = simulate(walk_away(false));
  const json& rates = result["flows"][0]["rates_mbps"];
  const json& first = result["flows"][0]["subflows"][0]["rates_mbps"];
  ASSERT_GT(first[3].get<double>(), 1);
  EXPECT_EQ(first[7].get<double>(), 0);
  for (std::size_t i = 5; i < rates.size(); ++i)
    EXPECT_GT(rates[i].get<double>(), 5) << "second " << i << ": the other one sends what was under way";
  EXPECT_EQ(result["flows"][0]["subflows"][0]["timeouts"], 0);
  EXPECT_GT(without["flows"][0]["subflows"][0]["timeouts"], 0);
}

TEST(Scenarios, BadInputIsNamedWithItsPlace)
{
  const auto complaint = [](const json& description) -> std::string
  {
    try
    {
      simulate(description);
    }
    catch (const BadScenario& error)
    {
      return error.what();
    }
    return "";
  };
  json bad = lossy(1);
  bad["flows"][0]["cc"] = "vegas";
  EXPECT_THAT(complaint(bad), testing::HasSubstr("flows[0].cc: \"vegas\" is not one of: reno, cubic"));
  bad = lossy(1);
  bad["links"][0]["loss"] = 1.5;
  EXPECT_THAT(complaint(bad), testing::HasSubstr("links[0].loss: 1.5 is outside"));
  bad = lossy(1);
  bad["links"][0]["rate"] = 1;
  EXPECT_THAT(complaint(bad), testing::HasSubstr("links[0].rate: not known"));
  bad = lossy(1);
  bad["flows"][0]["subflows"][0]["down"] = { "b" };
  EXPECT_THAT(complaint(bad), testing::HasSubstr("flows[0].subflows[0].down: no link is called \"b\""));
  bad = lossy(1);
  bad["modules"] = { "nothing" };
  EXPECT_THAT(complaint(bad), testing::HasSubstr("modules: \"nothing\" is not one of"));
  EXPECT_THAT(complaint(json::array()), testing::HasSubstr("an object is needed"));
}

json weighted_pair()
{
  return { { "seconds", 60 },
           { "links",
             { { { "name", "near" }, { "type", "weighted" }, { "packet_ms", 0.5 } },
               { { "name", "far" }, { "type", "weighted" }, { "ap", "near" }, { "packet_ms", 2 } } } },
           { "flows",
             { { { "size", 1e6 }, { "subflows", json::array({ { { "rtt_ms", 20 }, { "down", { "near" } } } }) } },
               { { "subflows", json::array({ { { "rtt_ms", 20 }, { "down", { "far" } } } }) } } } } };
}

TEST(Scenarios, PlacesInTheWeightedAir)
{
  const auto complaint = [](const json& description) -> std::string
  {
    try
    {
      simulate(description);
    }
    catch (const BadScenario& error)
    {
      return error.what();
    }
    return "";
  };
  json bad = weighted_pair();
  bad["links"][1]["ap"] = "nobody";
  EXPECT_THAT(complaint(bad), testing::HasSubstr("links[1].ap: no weighted link before this one is called \"nobody\""));
  bad = weighted_pair();
  bad["links"][1]["weight"] = 2; // the access point's
  EXPECT_THAT(complaint(bad), testing::HasSubstr("links[1].weight: not known"));
  bad = weighted_pair();
  bad["links"][0]["vary"] = { "weather" };
  EXPECT_THAT(complaint(bad), testing::HasSubstr("links[0].vary: no variation is called \"weather\""));
  bad = weighted_pair();
  bad["variations"] = { { { "name", "a" } }, { { "name", "a" } } };
  EXPECT_THAT(complaint(bad), testing::HasSubstr("variations[1].name: \"a\" is there twice"));
  bad = weighted_pair();
  bad["until"] = "never";
  EXPECT_THAT(complaint(bad), testing::HasSubstr("until: \"never\" is not one of"));
}

TEST(Scenarios, ARunMayEndWithItsFirstFlow)
{
  json description = weighted_pair();
  EXPECT_EQ(simulate(description)["virtual_seconds"].get<double>(), 60);
  description["until"] = "first";
  const json result = simulate(description);
  EXPECT_LT(result["virtual_seconds"].get<double>(), 20);
  EXPECT_TRUE(result["flows"][0]["finished"].is_number());
}

TEST(Scenarios, MarksAtAQueueInsteadOfDrops)
{
  json description = lossy(1);
  description["links"][0]["loss"] = 0;
  description["links"][0]["mark_ms"] = 5;
  description["flows"][0]["ecn"] = true;
  const json result = simulate(description);
  EXPECT_GT(result["links"][0]["marked"], 0);
  EXPECT_EQ(result["links"][0]["dropped"], 0);
  EXPECT_GT(result["flows"][0]["subflows"][0]["ecn_reductions"], 0);
}

json two_paths(const char* scheduler, double receive_buffer, double far_ms)
{
  const auto link = [](const char* name) -> json { return { { "name", name }, { "mbps", 10 }, { "queue", 60 } }; };
  const auto by = [](const char* name, double rtt) -> json { return { { "rtt_ms", rtt }, { "down", { name } } }; };
  return simulate({ { "seconds", 40 },
                    { "warmup", 10 },
                    { "links", { link("a"), link("b") } },
                    { "flows",
                      { { { "cc", "lia" },
                          { "mptcp", true },
                          { "scheduler", scheduler },
                          { "receive_buffer", receive_buffer },
                          { "subflows", { by("a", 20), by("b", far_ms) } } } } } });
}

TEST(Scenarios, BothSchedulersFillTwoPaths)
{
  for (const char* scheduler : { "lowest-rtt", "linux-like" })
    EXPECT_GT(two_paths(scheduler, 3e6, 40)["flows"][0]["mbps"].get<double>(), 16) << scheduler;
}

// Data that waits behind a slow path takes room that the fast one needs.
TEST(Scenarios, ASmallReceiveBufferBindsTheWholeConnection)
{
  for (const char* scheduler : { "lowest-rtt", "linux-like" })
  {
    const json roomy = two_paths(scheduler, 3e6, 300), tight = two_paths(scheduler, 60e3, 300);
    EXPECT_LT(tight["flows"][0]["mbps"].get<double>(), 0.6 * roomy["flows"][0]["mbps"].get<double>()) << scheduler;
    EXPECT_GT(tight["flows"][0]["mbps"].get<double>(), 0.5) << scheduler;
  }
}

// Croitoru et al. 6.2.1: MPTCP alone keeps both access points busy, so the medium goes by contention; AP2 alone would
// have all of it, and so nearly does MPTCP with marks.
TEST(Scenarios, GridAloneAndMarked)
{
  Paper paper;
  paper.rtt_ms = 50;
  paper.t1_ms = 3;
  paper.weight = 4;
  // Five packets of 4 * 3 + 0.5 ms, where AP2 alone sends 25.
  EXPECT_NEAR(grid(paper)["share"].get<double>(), 0.2, 0.04);
  paper.marking = "published";
  EXPECT_GT(grid(paper)["share"].get<double>(), 0.6);
  paper.marking = "none";
  paper.arm = "ap2";
  EXPECT_GT(grid(paper)["share"].get<double>(), 0.95);
  paper.arm = "ap1";
  EXPECT_NEAR(grid(paper)["share"].get<double>(), 0.5 / 3, 0.02);
}

TEST(Scenarios, UplinkHasCompetitors)
{
  Paper paper;
  paper.rtt_ms = 25;
  paper.arm = "ap2";
  const double alone = uplink(paper)["flows"][0]["mbps"];
  paper.uplink_flows = 9;
  const double crowded = uplink(paper)["flows"][0]["mbps"];
  EXPECT_GT(alone, 20);
  EXPECT_LT(crowded, 6);
  EXPECT_GT(crowded, 0.5);
}

TEST(Scenarios, ManyAccessPointsTakeAir)
{
  Paper paper;
  paper.aps = 1;
  EXPECT_GT(many(paper)["share"].get<double>(), 0.95);
  paper.aps = 8;
  const json result = many(paper);
  EXPECT_EQ(result["flows"][0]["subflows"].size(), 8u);
  EXPECT_LT(result["share"].get<double>(), 0.5);
}

// The issue asks for 50 times real time with two 22 Mb/s subflows; a tenth of that holds under sanitizers on a busy
// machine as well.
TEST(Scenarios, IsFarFasterThanRealTime)
{
  const auto link = [](const char* name) -> json { return { { "name", name }, { "mbps", 23 }, { "queue", 100 } }; };
  const auto by = [](const char* name) -> json { return { { "rtt_ms", 50 }, { "down", { name } } }; };
  const json result =
      simulate({ { "seconds", 20 },
                 { "links", { link("a"), link("b") } },
                 { "flows", { { { "cc", "olia" }, { "mptcp", true }, { "subflows", { by("a"), by("b") } } } } } });
  const double speed = result["virtual_seconds"].get<double>() / result["wall_seconds"].get<double>();
  std::printf("two subflows, %.1f Mb/s together: %.0f times real time\n", result["flows"][0]["mbps"].get<double>(),
              speed);
  EXPECT_GT(result["flows"][0]["mbps"].get<double>(), 35);
  EXPECT_GT(speed, 5);
}

} // namespace

} // namespace tandem::sim::test
