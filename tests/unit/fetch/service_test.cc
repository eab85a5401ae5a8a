// What the fetch thread tells the ways to fetch, while there is budget and when there is none.
#include "src/fetch/service.h"
#include "tests/unit/fetch/loopback.h"

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>

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
  explicit Way(Log& log) : log_ { log } {}
  void fetch(std::shared_ptr<const Download>, Piece, Tick, Done) override { log_.add("fetch"); }
  void prepare(const std::shared_ptr<const Download>&) override { log_.add("prepare"); }
  void forget(std::uint64_t) override { log_.add("forget"); }

private:
  Log& log_;
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
                         .ports = { port } },
        [this](FetchHow, boost::asio::io_context&) { return std::make_unique<Way>(log); },
        [](const FlowKey&) { return true; },
        [this](const Message& message)
        {
          if (std::holds_alternative<Answer>(message)) ++answers;
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

  Log log {};
  std::atomic<unsigned> answers = 0;
  kernel::Fd client {}, server {};
  std::unique_ptr<FetchThread> service {};
};

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

} // namespace
} // namespace tandem::fetch
