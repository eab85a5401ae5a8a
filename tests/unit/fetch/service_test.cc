// What the fetch thread tells the ways to fetch, while there is budget and when there is none.
#include "src/fetch/service.h"
#include "src/wire/build.h"
#include "tests/unit/fetch/loopback.h"

#include <boost/asio/post.hpp>
#include <gmock/gmock.h>
#include <netinet/tcp.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace tandem::fetch
{
namespace
{

using ::testing::ElementsAre;

// What a way to fetch was told, in order.
class Log
{
public:
  void add(std::string word)
  {
    const std::lock_guard lock { mutex_ };
    words_.push_back(std::move(word));
  }
  std::vector<std::string> take()
  {
    const std::lock_guard lock { mutex_ };
    return std::exchange(words_, {});
  }

private:
  std::mutex mutex_ {};
  std::vector<std::string> words_ {};
};

class Way final : public Fetcher
{
public:
  Way(Log& log, boost::asio::io_context& context) : log_ { log }, context_ { context } {}
  void fetch(std::shared_ptr<const Download>, Piece, Tick, Done done) override
  {
    log_.add("fetch");
    done_ = std::move(done);
  }
  void prepare(const std::shared_ptr<const Download>&) override { log_.add("prepare"); }
  void forget(std::uint64_t) override
  {
    log_.add("forget");
    spent_ += 700;
    if (done_) std::exchange(done_, {})({ .why = "the download is over", .final = true });
  }
  std::uint64_t take_unbooked() override { return std::exchange(spent_, 0); }
  // From any thread.
  void spend()
  {
    boost::asio::post(context_, [this] { spent_ += 700; });
  }
  // From any thread: what is under way comes to nothing.
  void fail()
  {
    boost::asio::post(context_, [this] { std::exchange(done_, {})({ .why = "not in time" }); });
  }

private:
  Log& log_;
  boost::asio::io_context& context_;
  Done done_ {};
  std::uint64_t spent_ = 0;
};

class ServiceTest : public test::LoopbackTest
{
protected:
  void SetUp() override
  {
    LoopbackTest::SetUp();
    if (IsSkipped()) return;
    service = std::make_unique<FetchThread>(
        ServiceOptions { .wifi = "lo",
                         .wifi_index = static_cast<int>(::if_nametoindex("lo")),
                         .wifi_addresses = { test::this_host },
                         .cell = "lo",
                         .ports = { port },
                         .connections = places },
        [this](FetchHow, boost::asio::io_context& its)
        {
          auto one = std::make_unique<Way>(log, its);
          way = one.get();
          return one;
        },
        [](const FlowKey&) { return true; },
        [this](const Message& message)
        {
          if (std::holds_alternative<Answer>(message)) ++answers;
          if (const auto* cost = std::get_if<Cost>(&message)) told_bytes += cost->cell_bytes;
          return true;
        });
    ask(); // the way that is in use is known from now on
    client = kernel::Fd { ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    const sockaddr_in at = test::here(port);
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    server = accepted();
    ask();
  }

  // Returns when the service has seen all that has passed: it looks before it answers.
  void ask()
  {
    const unsigned before = answers;
    service->ask({});
    ASSERT_TRUE(until([&] { return answers > before; }));
  }

  // One more download on the connection. What the way to fetch was told meanwhile.
  std::vector<std::string> exchange()
  {
    const std::string head = "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 100000\r\n\r\n";
    say(client, "GET /file HTTP/1.1\r\nHost: x\r\n\r\n");
    heard(server);
    receive(head);
    for (int i = 0; i < 10; ++i)
      receive(std::string(10'000, 'x'));
    ask();
    return log.take();
  }
  void receive(const std::string& text)
  {
    say(server, text);
    std::string copy(text.size(), ' ');
    EXPECT_EQ(::recv(client.get(), copy.data(), copy.size(), MSG_WAITALL), static_cast<ssize_t>(text.size()));
  }

  // A download that goes on for longer.
  void begin_a_long_one()
  {
    say(client, "GET /long HTTP/1.1\r\nHost: x\r\n\r\n");
    heard(server);
    receive("HTTP/1.1 200 OK\r\nETag: \"b\"\r\nContent-Length: 1000000\r\n\r\n");
    receive(std::string(10'000, 'x'));
    ask();
    ASSERT_THAT(log.take(), ElementsAre("prepare"));
  }
  FlowKey key() const
  {
    return {
      .local = test::this_host, .remote = test::this_host, .local_port = test::local_port(client), .remote_port = port
    };
  }
  // What the server has not sent yet seems to have been lost, but for what comes behind it.
  void lose_some()
  {
    hole = next_of(receive_queue);
    const std::vector<std::byte> behind(1000, std::byte { 'y' });
    std::vector<std::byte> packet(wire::longest_header + behind.size());
    packet.resize(wire::build_fill(packet, key(), { .kind = InjectedKind::fill, .seq = hole + 5000, .length = 1000 },
                                   { .ack = next_of(send_queue), .window = 500, .bytes = behind }));
    ASSERT_EQ(service->hand_over(packet), 0);
  }
  // Of that hole.
  void ask_for_a_piece(FetchHow how = FetchHow::range)
  {
    const std::uint64_t asked = service->stats().asked;
    service->ask({ .flow = 1,
                   .key = key(),
                   .fetch = { .how = how, .from = hole + 1000, .to = hole + 5000, .deadline = Tick::max() } });
    ASSERT_TRUE(until([&] { return service->stats().asked > asked; }));
    ask();
    ASSERT_THAT(log.take(), ElementsAre("fetch"));
  }
  void piece_fails()
  {
    const unsigned before = answers;
    way->fail();
    ASSERT_TRUE(until([&] { return answers > before; }));
    ask();
  }
  // Of the client's socket.
  static constexpr int receive_queue = 1, send_queue = 2; // TCP_RECV_QUEUE, TCP_SEND_QUEUE
  Seq next_of(int queue)
  {
    const int on = 1, off = -1; // TCP_REPAIR_ON, TCP_REPAIR_OFF_NO_WP
    std::uint32_t next = 0;
    socklen_t size = sizeof next;
    EXPECT_EQ(::setsockopt(client.get(), IPPROTO_TCP, TCP_REPAIR, &on, sizeof on), 0);
    EXPECT_EQ(::setsockopt(client.get(), IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof queue), 0);
    EXPECT_EQ(::getsockopt(client.get(), IPPROTO_TCP, TCP_QUEUE_SEQ, &next, &size), 0);
    EXPECT_EQ(::setsockopt(client.get(), IPPROTO_TCP, TCP_REPAIR, &off, sizeof off), 0);
    return Seq { next };
  }

  std::size_t places = 256;
  Log log {};
  Way* way = nullptr; // of the service
  Seq hole {};
  std::atomic<unsigned> answers = 0;
  std::atomic<std::uint64_t> told_bytes = 0;
  kernel::Fd client {}, server {};
  std::unique_ptr<FetchThread> service {};
};

TEST_F(ServiceTest, NoProgramThatIsStartedHoldsTheTap)
{
  for (const int one : test::inherited())
  {
    int domain = 0;
    socklen_t size = sizeof domain;
    EXPECT_FALSE(::getsockopt(one, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_PACKET);
  }
}

TEST_F(ServiceTest, NothingIsPreparedWhileTheBudgetIsSpent)
{
  EXPECT_THAT(exchange(), ElementsAre("prepare"));
  service->keep_up(false);
  // Once for the download before, once because all is closed.
  EXPECT_THAT(exchange(), ElementsAre("forget", "forget"));
  EXPECT_THAT(exchange(), ElementsAre("forget"));
  EXPECT_EQ(service->stats().downloads, 3u);
}

TEST_F(ServiceTest, ANewBudgetIsTakenUpAndCanBeSpentAsWell)
{
  EXPECT_THAT(exchange(), ElementsAre("prepare"));
  service->keep_up(false);
  EXPECT_THAT(exchange(), ElementsAre("forget", "forget"));
  service->keep_up(true);
  EXPECT_THAT(exchange(), ElementsAre("forget", "prepare"));
  service->keep_up(false);
  EXPECT_THAT(exchange(), ElementsAre("forget", "forget"));
}

TEST_F(ServiceTest, APieceUnderWayOutlivesTheEndOfTheBudget)
{
  begin_a_long_one();
  lose_some();
  ask_for_a_piece();
  service->keep_up(false);
  receive("more");
  ask();
  EXPECT_THAT(log.take(), testing::IsEmpty()) << "its budget is set aside";
  piece_fails();
  EXPECT_THAT(log.take(), ElementsAre("forget")) << "nothing is under way";
  // The download is fetched of again when there is budget again.
  service->keep_up(true);
  receive("more");
  ask_for_a_piece();
}

TEST_F(ServiceTest, AMirrorConnectionOnItsWayToAPieceEndsWithTheBudget)
{
  begin_a_long_one();
  lose_some();
  ask_for_a_piece(FetchHow::replay);
  // What it costs is told while it goes on.
  way->spend();
  EXPECT_TRUE(until([&] { return told_bytes > 0; }, 500ms));
  // Nothing more arrives by Wi-Fi.
  const unsigned before = answers;
  service->keep_up(false);
  EXPECT_TRUE(until([&] { return answers > before; }, 500ms));
  EXPECT_THAT(log.take(), testing::Contains("forget"));
  service->ask(
      { .flow = 1,
        .key = key(),
        .fetch = { .how = FetchHow::replay, .from = hole + 1000, .to = hole + 5000, .deadline = Tick::max() } });
  ask();
  EXPECT_THAT(log.take(), testing::Not(testing::Contains("fetch")));
}

TEST_F(ServiceTest, PiecesOneAfterAnotherDoNotPutOffWhatIsDoneEverySecond)
{
  begin_a_long_one();
  lose_some();
  ask_for_a_piece();
  way->spend();
  const auto end = std::chrono::steady_clock::now() + 2500ms;
  while (told_bytes == 0 && std::chrono::steady_clock::now() < end)
  {
    piece_fails();
    until([] { return false; }, 100ms);
    ask_for_a_piece();
  }
  EXPECT_GT(told_bytes, 0u);
}

// A server's port may have much else than downloads on it, each for two minutes of silence and as long as it lives.
class FullServiceTest : public ServiceTest
{
protected:
  FullServiceTest() { places = 1; }
  std::uint64_t known_after_another()
  {
    const kernel::Fd more { ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    const sockaddr_in at = test::here(port);
    EXPECT_EQ(::connect(more.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    const kernel::Fd its = accepted();
    ask();
    return service->stats().connections;
  }
};

TEST_F(FullServiceTest, ARefusedConnectionLeavesItsPlaceToANewOne)
{
  ASSERT_EQ(service->stats().connections, 1u);
  say(client, "this is no HTTP, and never will be\r\n\r\n");
  heard(server);
  ask();
  EXPECT_EQ(known_after_another(), 2u);
}

TEST_F(FullServiceTest, OneThatMayBringADownloadKeepsItsPlace)
{
  EXPECT_EQ(known_after_another(), 1u);
  EXPECT_THAT(exchange(), ElementsAre("prepare"));
}

TEST_F(ServiceTest, WhatItSpentLastIsToldWhenItEnds)
{
  begin_a_long_one();
  lose_some();
  ask_for_a_piece();
  piece_fails();
  ASSERT_EQ(told_bytes, 0u);
  service.reset();
  EXPECT_EQ(told_bytes, 700u);
}

} // namespace
} // namespace tandem::fetch
