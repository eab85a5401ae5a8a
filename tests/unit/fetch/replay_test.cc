// How many raw ports and downloads replay holds.
#include "src/fetch/replay.h"
#include "src/kernel/clock.h"
#include "tests/unit/fetch/loopback.h"

#include <optional>

namespace tandem::fetch
{
namespace
{

using namespace std::chrono_literals;

class ReplayTest : public test::LoopbackTest
{
protected:
  std::shared_ptr<const Download> download(std::uint64_t flow) const
  {
    return std::make_shared<const Download>(
        Download { .flow = flow,
                   .key = { .local = test::this_host, .remote = test::this_host, .remote_port = port },
                   .request = test::bytes("GET /file HTTP/1.1\r\nHost: x\r\n\r\n"),
                   .head = test::bytes("HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 100000\r\n\r\n"),
                   .length = 100'000,
                   .validator = "\"a\"" });
  }

  Replay replay { context, { .cell = "lo", .downloads = 64 } };
};

TEST_F(ReplayTest, PortsOfConnectionsThatAreOverCountUntilTheyAreGivenBack)
{
  // Connections that last, and others that were over at once.
  for (std::uint64_t flow = 0; flow < 40; ++flow)
  {
    replay.prepare(download(flow));
    if (flow >= 20) replay.forget(flow);
  }
  EXPECT_EQ(replay.stats().connections, 32u);
  const auto next = download(40);
  std::optional<Fetched> result {};
  replay.fetch(next, { next->head.size(), next->head.size() + 1000 }, kernel::now() + 10s,
               [&](Fetched fetched) { result = std::move(fetched); });
  ASSERT_TRUE(until([&] { return result.has_value(); }));
  EXPECT_EQ(result->why, "too many mirror connections");
  EXPECT_FALSE(result->final);
  EXPECT_EQ(replay.stats().connections, 32u);
  // Ports linger for 3 s.
  EXPECT_TRUE(until(
      [&]
      {
        replay.prepare(next);
        return replay.stats().connections == 33;
      }));
}

TEST_F(ReplayTest, NoProgramThatIsStartedHoldsAPort)
{
  const auto before = test::inherited();
  replay.prepare(download(1));
  ASSERT_EQ(replay.stats().connections, 1u);
  EXPECT_EQ(test::inherited(), before);
}

TEST_F(ReplayTest, OnlyDownloadsWithAMirrorConnectionTakeRoom)
{
  Replay way { context, { .cell = "lo", .downloads = 1 } };
  auto refused = *download(1);
  refused.request = test::bytes("GET /file HTTP/1.1\r\nHost: x\r\nCookie: a=b\r\n\r\n");
  way.prepare(std::make_shared<const Download>(refused));
  way.prepare(download(2));
  EXPECT_EQ(way.stats().connections, 1u);
  const auto why = [&](std::uint64_t flow)
  {
    const auto asked = download(flow);
    std::optional<Fetched> result {};
    way.fetch(asked, { asked->head.size(), asked->head.size() + 1000 }, kernel::now() + 300ms,
              [&](Fetched fetched) { result = std::move(fetched); });
    EXPECT_TRUE(until([&] { return result.has_value(); }));
    return result->why;
  };
  EXPECT_EQ(why(3), "too many downloads have a mirror connection");
  way.forget(2);
  EXPECT_NE(why(3), "too many downloads have a mirror connection");
}

TEST_F(ReplayTest, LeavesFromNoOtherAddressThanThoseThatItIsGiven)
{
  const auto asked = download(1);
  const auto why = [&](std::vector<Address> addresses)
  {
    Replay way { context, { .cell = "lo", .addresses = std::move(addresses) } };
    std::optional<Fetched> result {};
    way.fetch(asked, { asked->head.size(), asked->head.size() + 1000 }, kernel::now() + 300ms,
              [&](Fetched fetched) { result = std::move(fetched); });
    EXPECT_TRUE(until([&] { return result.has_value(); }));
    return result->why;
  };
  // The interface has one that would do; but it is deprecated, say.
  EXPECT_EQ(why({ Address { .v6 = true } }), "the cellular link has no address of the server's IP version");
  EXPECT_NE(why({ test::this_host }), "the cellular link has no address of the server's IP version");
}

} // namespace
} // namespace tandem::fetch
