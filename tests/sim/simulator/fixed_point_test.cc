// Where the congestion controls settle, against what their papers publish. The margins are wide: what is held is which
// law they follow, not how well a run averages.

#include "tools/sim/scenarios.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace tandem::sim::test
{

namespace
{

using nlohmann::json;

constexpr double mss_bits = 1428 * 8;

struct Path
{
  double loss = 0;
  double rtt_ms = 100;
};

struct Rates
{
  double total = 0;
  std::vector<double> each;
  std::vector<double> cwnd;
};

// A connection over paths that lose at random and never queue. All packets carry 1428 bytes.
Rates over(const std::string& cc, const std::vector<Path>& paths, bool mptcp = true)
{
  json links = json::array(), subflows = json::array();
  for (const Path& path : paths)
  {
    const std::string name = std::to_string(links.size());
    links.push_back({ { "name", name }, { "mbps", 1000 }, { "queue", 10000 }, { "loss", path.loss } });
    subflows.push_back({ { "rtt_ms", path.rtt_ms }, { "down", { name } } });
  }
  const json result = simulate({ { "seconds", 400 },
                                 { "warmup", 20 },
                                 { "links", links },
                                 { "flows",
                                   { { { "cc", cc },
                                       { "mptcp", mptcp },
                                       { "mss", mptcp ? 1448 : 1428 },
                                       { "receive_buffer", 1e8 },
                                       { "subflows", subflows } } } } });
  Rates out;
  out.total = result["flows"][0]["mbps"];
  for (const json& one : result["flows"][0]["subflows"])
  {
    out.each.push_back(one["mbps"]);
    out.cwnd.push_back(one["cwnd"]);
  }
  return out;
}

// Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997, equation 3. Appropriate
// byte counting makes delayed acknowledgements count in full: b = 1.
double tcp(const Path& path)
{
  return std::sqrt(1.5 / path.loss) * mss_bits / (path.rtt_ms * 1e3);
}

TEST(FixedPoint, RenoFollowsTheSquareRootLaw)
{
  for (const double loss : { 0.002, 0.005, 0.01 })
  {
    const Path path { .loss = loss };
    EXPECT_NEAR(over("reno", { path }, false).total / tcp(path), 1, 0.2) << loss;
  }
}

// RFC 6356 section 2, goal 1; Wischik et al., "Design, implementation and evaluation of congestion control for
// multipath TCP", NSDI 2011, section 2: over two paths that lose alike MPTCP takes what one TCP would, half by each.
TEST(FixedPoint, CoupledOverEqualPathsIsOneTcp)
{
  for (const char* cc : { "lia", "olia" })
  {
    const Path path { .loss = 0.003 };
    const Rates got = over(cc, { path, path });
    const double alone = over("reno", { path }, false).total;
    EXPECT_NEAR(got.total / alone, 1, 0.25) << cc;
    EXPECT_NEAR(got.each[0] / got.total, 0.5, 0.15) << cc;
  }
}

TEST(FixedPoint, UncoupledOverTwoPathsIsTwoTcps)
{
  const Path path { .loss = 0.003 };
  EXPECT_NEAR(over("reno", { path, path }).total / over("reno", { path }, false).total, 2, 0.3);
}

// Khalili et al., CoNEXT 2012, equation 2 (LIA's fixed point): windows go as 1 / loss, and all of them together bring
// what TCP would on its best path.
TEST(FixedPoint, LiaSplitsInverselyToLoss)
{
  const Path good { .loss = 0.002 }, bad { .loss = 0.006 };
  const Rates got = over("lia", { good, bad });
  EXPECT_NEAR(got.cwnd[0] / got.cwnd[1], 3, 0.9);
  EXPECT_NEAR(got.total / over("reno", { good }, false).total, 1, 0.25);
}

// The same with unequal round-trip times and equal loss: equal windows.
TEST(FixedPoint, LiaGivesEqualWindowsToUnequalRoundTrips)
{
  const Path near { .loss = 0.003, .rtt_ms = 50 }, far { .loss = 0.003, .rtt_ms = 200 };
  const Rates got = over("lia", { near, far });
  EXPECT_NEAR(got.cwnd[0] / got.cwnd[1], 1, 0.35);
  EXPECT_NEAR(got.total / over("reno", { near }, false).total, 1, 0.3);
}

// Khalili et al., theorem 1: OLIA uses only the paths on which TCP would be fastest; on the others a small window is
// left for probing.
TEST(FixedPoint, OliaLeavesTheWorsePath)
{
  for (const Path& bad : { Path { .loss = 0.02 }, Path { .loss = 0.003, .rtt_ms = 300 } })
  {
    const Path good { .loss = 0.003 };
    const Rates got = over("olia", { good, bad });
    EXPECT_LT(got.cwnd[1], 6) << bad.loss;
    EXPECT_LT(got.each[1] / got.total, 0.15) << bad.loss;
    EXPECT_NEAR(got.total / over("reno", { good }, false).total, 1, 0.25) << bad.loss;
  }
}

// RFC 6356 goal 2, and NSDI 2011 section 2.1: two subflows through one bottleneck take the share of about one TCP.
TEST(FixedPoint, SubflowsThroughOneBottleneckAreOneFlow)
{
  const auto share = [](const std::string& cc)
  {
    const json subflow { { "rtt_ms", 50 }, { "jitter_ms", 1 }, { "down", { "bottleneck" } } };
    const json result = simulate(
        { { "seconds", 150 },
          { "warmup", 20 },
          { "links", { { { "name", "bottleneck" }, { "mbps", 20 }, { "queue", 80 } } } },
          { "flows",
            { { { "cc", cc }, { "mptcp", true }, { "receive_buffer", 1e7 }, { "subflows", { subflow, subflow } } },
              { { "cc", "reno" }, { "mss", 1428 }, { "subflows", json::array({ subflow }) } } } } });
    const double mine = result["flows"][0]["mbps"], other = result["flows"][1]["mbps"];
    EXPECT_GT(mine + other, 18) << cc;
    return mine / (mine + other);
  };
  EXPECT_NEAR(share("lia"), 0.5, 0.12);
  EXPECT_NEAR(share("olia"), 0.5, 0.12);
  EXPECT_NEAR(share("reno"), 2.0 / 3, 0.1); // uncoupled: two flows
}

// Khalili et al., scenario C: ten multipath users of two access points, ten TCP users of the second; twice the capacity
// at the first. LIA's fixed point, solved by hand from their equation 2 with r the ratio of the losses:
// 2 r + 2 (1 + r) sqrt(r) = 1, so that TCP users get 0.765 of their access point's share. OLIA leaves them nearly all.
TEST(FixedPoint, ScenarioCTakesFromTcpUsersWithLiaAndHardlyWithOlia)
{
  const auto tcp_user = [](const std::string& cc)
  {
    const auto by = [](const char* link) -> json {
      return { { "rtt_ms", 150 }, { "jitter_ms", 2 }, { "down", { link } } };
    };
    const json result = simulate({ { "seconds", 120 },
                                   { "warmup", 40 },
                                   { "links",
                                     { { { "name", "ap1" }, { "mbps", 20 }, { "queue", 100 } },
                                       { { "name", "ap2" }, { "mbps", 10 }, { "queue", 100 } } } },
                                   { "flows",
                                     { { { "cc", cc },
                                         { "mptcp", true },
                                         { "count", 10 },
                                         { "spread", 5 },
                                         { "receive_buffer", 1e7 },
                                         { "subflows", { by("ap1"), by("ap2") } } },
                                       { { "cc", "reno" },
                                         { "mss", 1428 },
                                         { "count", 10 },
                                         { "spread", 5 },
                                         { "subflows", json::array({ by("ap2") }) } } } } });
    double sum = 0;
    for (std::size_t i = 10; i < 20; ++i)
      sum += result["flows"][i]["mbps"].get<double>();
    return sum / 10 * 1500 / 1428; // of 1 Mb/s each
  };
  const double lia = tcp_user("lia"), olia = tcp_user("olia");
  EXPECT_NEAR(lia, 0.765, 0.08);
  EXPECT_GT(olia, lia + 0.08);
  EXPECT_GT(olia, 0.85);
}

} // namespace

} // namespace tandem::sim::test
