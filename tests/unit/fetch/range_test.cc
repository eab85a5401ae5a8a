// The connections for Range requests: what they cost is booked, every byte and once; whose end leaves no piece waiting.
#include "src/fetch/range.h"
#include "src/kernel/clock.h"
#include "tests/unit/fetch/loopback.h"

#include <optional>

namespace tandem::fetch
{
namespace
{

using namespace std::chrono_literals;

constexpr std::uint64_t length = 1'000'000;
constexpr std::uint64_t size = 100'000; // of a piece, far more than headers and requests are

class RangeTest : public test::LoopbackTest
{
protected:
  void SetUp() override
  {
    LoopbackTest::SetUp();
    download = std::make_shared<const Download>(
        Download { .flow = 1,
                   .key = { .local = test::this_host, .remote = test::this_host, .remote_port = port },
                   .request = test::bytes("GET /file HTTP/1.1\r\nHost: x\r\n\r\n"),
                   .head = test::bytes("HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 1000000\r\n\r\n"),
                   .length = length,
                   .validator = "\"a\"" });
  }

  // Bytes [0, size) of the body.
  void ask(Duration patience = 10s)
  {
    const std::uint64_t head = download->head.size();
    result.reset();
    range.fetch(download, { head, head + size }, kernel::now() + patience,
                [this](Fetched fetched) { result = std::move(fetched); });
  }
  bool answered()
  {
    return until([&] { return result.has_value(); });
  }
  static std::string answer_head(std::string_view more = "")
  {
    return "HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nContent-Range: bytes 0-99999/1000000\r\n"
           "Content-Length: 100000\r\n"
           + std::string { more } + "\r\n";
  }
  // The same piece of a download of that number; its outcome, later.
  std::shared_ptr<std::optional<Fetched>> ask_for(std::uint64_t flow)
  {
    auto of = std::make_shared<Download>(*download);
    of->flow = flow;
    auto outcome = std::make_shared<std::optional<Fetched>>();
    const std::uint64_t head = of->head.size();
    range.fetch(of, { head, head + size }, kernel::now() + 10s,
                [outcome](Fetched fetched) { *outcome = std::move(fetched); });
    return outcome;
  }
  void pass(std::chrono::milliseconds time)
  {
    until([] { return false; }, time);
  }
  // The sum of what was not booked with a piece reaches `least`.
  bool unbooked_reaches(std::uint64_t least)
  {
    return until([&] { return (unbooked += range.take_unbooked()) >= least; }, 5s);
  }
  bool closed(const kernel::Fd& socket)
  {
    return until(
        [&]
        {
          char one;
          return ::recv(socket.get(), &one, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
        });
  }

  static constexpr auto back_off = 400ms;
  Range range { context, { .cell = "lo", .addresses = { test::this_host }, .back_off = back_off } };
  std::shared_ptr<const Download> download {};
  std::optional<Fetched> result {};
  std::uint64_t unbooked = 0;
};

TEST_F(RangeTest, ALateAnswerIsBookedOnce)
{
  ask(50ms);
  const kernel::Fd server = accepted();
  heard(server);
  ASSERT_TRUE(answered());
  EXPECT_EQ(result->why, "not in time");
  EXPECT_LT(result->cell_bytes, 2000u);
  ASSERT_TRUE(say(server, answer_head() + std::string(size, 'x')));
  ASSERT_TRUE(unbooked_reaches(size));
  EXPECT_LT(unbooked, 3 * size / 2);
  // The next piece on the same connection pays for itself.
  ask();
  heard(server);
  ASSERT_TRUE(say(server, answer_head() + std::string(size, 'x')));
  ASSERT_TRUE(answered());
  EXPECT_TRUE(result->ok);
  EXPECT_GE(result->cell_bytes, size);
  EXPECT_LT(result->cell_bytes, 3 * size / 2);
  range.forget(download->flow);
  EXPECT_LT(range.take_unbooked(), 2000u);
}

TEST_F(RangeTest, ALateAnswerIsBookedWhenTheConnectionEndsWithIt)
{
  ask(50ms);
  const kernel::Fd server = accepted();
  heard(server);
  ASSERT_TRUE(answered());
  ASSERT_TRUE(say(server, answer_head("Connection: close\r\n") + std::string(size, 'x')));
  ASSERT_TRUE(unbooked_reaches(size));
  EXPECT_TRUE(closed(server));
  unbooked += range.take_unbooked();
  EXPECT_LT(unbooked, 3 * size / 2);
}

TEST_F(RangeTest, ALateAnswerThatBreaksOffIsBooked)
{
  ask(50ms);
  kernel::Fd server = accepted();
  heard(server);
  ASSERT_TRUE(answered());
  ASSERT_TRUE(say(server, answer_head() + std::string(size / 2, 'x')));
  server.reset();
  ASSERT_TRUE(unbooked_reaches(size / 2));
  EXPECT_LT(unbooked, size);
}

TEST_F(RangeTest, APieceOfADownloadThatIsForgottenIsBooked)
{
  ask();
  const kernel::Fd server = accepted();
  heard(server);
  ASSERT_TRUE(say(server, answer_head() + std::string(size / 2, 'x')));
  range.forget(download->flow);
  ASSERT_TRUE(answered());
  EXPECT_EQ(result->why, "the download is over");
  unbooked = result->cell_bytes + range.take_unbooked();
  EXPECT_GE(unbooked, size / 2);
  EXPECT_LT(unbooked, size);
  EXPECT_EQ(range.take_unbooked(), 0u);
}

TEST_F(RangeTest, APreparedConnectionThatNobodyUsesIsBooked)
{
  range.prepare(download);
  const kernel::Fd server = accepted();
  // Until the client's end has heard of it, too.
  until([] { return false; }, 20ms);
  range.forget(download->flow);
  EXPECT_TRUE(closed(server));
  unbooked = range.take_unbooked();
  EXPECT_GE(unbooked, 2 * 52u); // SYN, SYN/ACK
  EXPECT_LT(unbooked, 400u);
}

TEST_F(RangeTest, ARefusalIsBookedWithItsPieceAlone)
{
  ask();
  const kernel::Fd server = accepted();
  heard(server);
  ASSERT_TRUE(say(server, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"));
  ASSERT_TRUE(answered());
  EXPECT_EQ(result->why, "the server refuses the range");
  EXPECT_GE(result->cell_bytes, 200u);
  EXPECT_LT(result->cell_bytes, 2000u);
  EXPECT_LT(range.take_unbooked(), 200u); // at most an ACK that left since
}

TEST_F(RangeTest, AttemptsThatWereMadeTogetherAreOneFailure)
{
  listener.reset();
  std::vector<std::shared_ptr<std::optional<Fetched>>> asked {};
  for (std::uint64_t flow = 1; flow <= 4; ++flow)
    asked.push_back(ask_for(flow));
  for (const auto& one : asked)
  {
    ASSERT_TRUE(until([&] { return one->has_value(); }));
    EXPECT_EQ((*one)->why, "no way to the server by the cellular link");
  }
  listener = test::listening(port);
  // Nothing is tried for so long, and then again.
  ask();
  ASSERT_TRUE(answered());
  EXPECT_EQ(result->why, "no way to the server by the cellular link");
  pass(back_off + 50ms);
  ask();
  const kernel::Fd server = accepted();
  EXPECT_NE(heard(server), "");
}

TEST_F(RangeTest, AServerThatAllowsOneConnectionIsAskedByIt)
{
  const auto first = ask_for(1);
  const kernel::Fd server = accepted();
  heard(server);
  listener.reset(); // a second one is refused
  const auto second = ask_for(2);
  pass(50ms);
  EXPECT_FALSE(second->has_value()) << (*second)->why;
  ASSERT_TRUE(say(server, answer_head() + std::string(size, 'x')));
  heard(server);
  ASSERT_TRUE(say(server, answer_head() + std::string(size, 'y')));
  ASSERT_TRUE(until([&] { return first->has_value() && second->has_value(); }));
  EXPECT_TRUE((*first)->ok && (*second)->ok);
  // It is the only way: when it ends nobody waits for another.
  const auto third = ask_for(3), fourth = ask_for(4);
  heard(server);
  ::shutdown(server.get(), SHUT_RDWR);
  ASSERT_TRUE(until([&] { return third->has_value() && fourth->has_value(); }, 2s));
  EXPECT_FALSE((*third)->ok || (*fourth)->ok);
}

TEST_F(RangeTest, WhoWaitsForAConnectionOfAnotherDownloadGetsOneWhenThatIsOver)
{
  std::vector<kernel::Fd> servers {};
  for (int i = 0; i < 4; ++i)
  {
    ask_for(1);
    servers.push_back(accepted());
    heard(servers.back());
  }
  const auto waits = ask_for(2);
  pass(20ms);
  range.forget(1);
  const kernel::Fd server = accepted();
  heard(server);
  ASSERT_TRUE(say(server, answer_head() + std::string(size, 'x')));
  ASSERT_TRUE(until([&] { return waits->has_value(); }));
  EXPECT_TRUE((*waits)->ok);
}

// What is never answered is under way for ever, and takes the place of others.
TEST_F(RangeTest, APieceOfADownloadThatEndsBeforeItsTurnIsAnswered)
{
  std::vector<kernel::Fd> servers {};
  for (int i = 0; i < 4; ++i)
  {
    ask_for(2);
    servers.push_back(accepted());
    heard(servers.back());
  }
  const auto late = ask_for(1);
  range.forget(1); // before the context has run
  pass(20ms);
  range.forget(2);
  ASSERT_TRUE(until([&] { return late->has_value(); }, 2s));
  EXPECT_EQ((*late)->why, "the download is over");
}

// The deadline of a piece whose last byte comes with it is not the next one's.
TEST_F(RangeTest, ADeadlineIsOfOnePieceAlone)
{
  ask(200ms);
  const kernel::Fd server = accepted();
  heard(server);
  std::vector<kernel::Fd> busy {};
  for (int i = 0; i < 3; ++i)
  {
    ask_for(1);
    busy.push_back(accepted());
    heard(busy.back());
  }
  const auto waits = ask_for(1);
  ASSERT_TRUE(say(server, answer_head() + std::string(size - 1, 'x')));
  pass(20ms);
  ASSERT_FALSE(result);
  std::this_thread::sleep_for(250ms); // while the thread does not run
  ASSERT_EQ(::send(server.get(), "x", 1, MSG_NOSIGNAL), 1);
  ASSERT_TRUE(answered());
  EXPECT_TRUE(result->ok);
  EXPECT_NE(heard(server), "");
  EXPECT_FALSE(waits->has_value()) << (*waits)->why;
}

// Helper programs of the daemon would hold the connection, and the server would not see its end.
TEST_F(RangeTest, NoProgramThatIsStartedHoldsAConnection)
{
  const auto before = test::inherited();
  ask();
  const kernel::Fd server = accepted();
  heard(server);
  ::fcntl(server.get(), F_SETFD, FD_CLOEXEC);
  EXPECT_EQ(test::inherited(), before);
}

TEST_F(RangeTest, WhoWaitsForAConnectionThatEndsWithItsAnswerGetsAnother)
{
  std::vector<std::shared_ptr<std::optional<Fetched>>> asked {};
  std::vector<kernel::Fd> servers {};
  for (int i = 0; i < 4; ++i)
  {
    asked.push_back(ask_for(1));
    servers.push_back(accepted());
    heard(servers.back());
  }
  const auto waits = ask_for(1);
  pass(20ms);
  for (const kernel::Fd& server : servers)
    ASSERT_TRUE(say(server, answer_head("Connection: close\r\n") + std::string(size, 'x')));
  for (const auto& one : asked)
    ASSERT_TRUE(until([&] { return one->has_value(); }));
  const kernel::Fd server = accepted();
  EXPECT_NE(heard(server), "");
  ASSERT_TRUE(say(server, answer_head() + std::string(size, 'x')));
  ASSERT_TRUE(until([&] { return waits->has_value(); }));
  EXPECT_TRUE((*waits)->ok);
}

TEST_F(RangeTest, AConnectionThatTheServerEndsWhileItIsIdleIsLetGo)
{
  range.prepare(download);
  const kernel::Fd prepared = accepted();
  // As some servers do with a connection on which nothing is asked for.
  ASSERT_TRUE(say(prepared, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
  ::shutdown(prepared.get(), SHUT_WR);
  ASSERT_TRUE(closed(prepared));
  ask();
  const kernel::Fd server = accepted();
  heard(server);
  ASSERT_TRUE(say(server, answer_head() + std::string(size, 'x')));
  ASSERT_TRUE(answered());
  EXPECT_TRUE(result->ok) << result->why;
  // Likewise after an answer.
  ::shutdown(server.get(), SHUT_WR);
  EXPECT_TRUE(closed(server));
  ask();
  const kernel::Fd next = accepted();
  EXPECT_NE(heard(next), "");
}

TEST_F(RangeTest, AHeadWithoutEndIsNotPaidForWithEveryPiece)
{
  ask();
  const kernel::Fd server = accepted();
  heard(server);
  std::string endless = "HTTP/1.1 206 Partial Content\r\n";
  while (endless.size() < 2 * size)
    endless += "X-More: and so on\r\n";
  say(server, endless);
  ASSERT_TRUE(answered());
  EXPECT_EQ(result->why, "the answer to the range request has too long a head");
  EXPECT_TRUE(result->final);
}

} // namespace
} // namespace tandem::fetch
