// What the connections for Range requests cost: every byte is booked, and once.
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

  Range range { context, { .cell = "lo", .addresses = { test::this_host } } };
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

} // namespace
} // namespace tandem::fetch
