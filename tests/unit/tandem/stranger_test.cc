// The program against something else than the daemon on its socket, or a daemon that hangs.
#include "tests/unit/tandem/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

namespace tandem::cli
{
namespace
{

using testing::HasSubstr;
using testing::Not;

// Something else than the daemon: answers every request alike, or leaves them where they wait.
class Stranger
{
public:
  Stranger(const std::string& path, const std::string& answer)
      : answer_ { "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(answer.size()) + "\r\n\r\n" + answer }, at_ {
          address(path)
        }
  {
    listen(16);
    thread_ = std::jthread { [this](const std::stop_token& end)
                             {
                               while (!end.stop_requested())
                                 serve();
                             } };
  }
  // With no room for one more that waits.
  explicit Stranger(const std::string& path) : at_ { address(path) }
  {
    listen(0);
    for (int one = 0; one >= 0;)
    {
      one = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      if (one >= 0) waiting_.push_back(one);
      if (::connect(one, reinterpret_cast<const sockaddr*>(&at_), sizeof at_) != 0) break;
    }
  }
  ~Stranger()
  {
    if (thread_.joinable())
    {
      thread_.request_stop();
      thread_.join();
    }
    for (const int one : waiting_)
      ::close(one);
    ::close(listener_);
    ::unlink(at_.sun_path);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

private:
  static sockaddr_un address(const std::string& path)
  {
    sockaddr_un at { .sun_family = AF_UNIX, .sun_path = {} };
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    return at;
  }

  void listen(int waiting)
  {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&at_), sizeof at_), 0);
    EXPECT_EQ(::listen(listener_, waiting), 0);
  }

  void serve() const
  {
    pollfd more { listener_, POLLIN, 0 };
    if (::poll(&more, 1, 20) <= 0) return;
    const int client = ::accept(listener_, nullptr, nullptr);
    char request[4096];
    EXPECT_GT(::read(client, request, sizeof request), 0);
    EXPECT_EQ(::write(client, answer_.data(), answer_.size()), std::ssize(answer_));
    ::close(client);
  }

  std::string answer_ {};
  sockaddr_un at_ {};
  int listener_ = -1;
  std::vector<int> waiting_ {};
  std::jthread thread_ {};
};

std::string socket_path(const std::string& name)
{
  return testing::TempDir() + "stranger." + std::to_string(::getpid()) + "." + name;
}

// A daemon that hangs takes nobody in: connect(2) then waits for as long as it is let.
TEST(Stranger, a_daemon_that_takes_no_more_clients_is_not_waited_for)
{
  const std::string socket = socket_path("full");
  const Stranger full { socket };
  const auto asked = test::run("timeout 20 " TANDEM_PROGRAM " --socket " + socket + " status");
  EXPECT_EQ(asked.code, 1) << "124: it was waited for";
  EXPECT_THAT(asked.err, HasSubstr("the daemon did not answer within 5 s"));
}

TEST(Stranger, an_answer_that_is_none_confirms_no_change)
{
  int number = 0;
  for (const std::string answer : { "", "Hello", "[1, 2]", "null", "\xff\x01" })
  {
    const std::string socket = socket_path("odd" + std::to_string(++number));
    const Stranger odd { socket, answer };
    for (const std::string words :
         { "set offload.window_mss 30", "exclude add to 192.0.2.0/24", "trap add 'flow.gap > 1s'", "link announce up",
           "aps keep 2", "networks forget --all", "saved --forget all" })
    {
      const auto told = test::run(TANDEM_PROGRAM " --socket " + socket + " " + words);
      EXPECT_EQ(told.code, 1) << words << answer;
      EXPECT_EQ(told.out, "") << words << answer;
      EXPECT_THAT(told.err, HasSubstr("is not understood")) << words << answer;
    }
    for (const std::string words : { "module offload", "budget", "doctor" })
      EXPECT_THAT(test::run(TANDEM_PROGRAM " --socket " + socket + " " + words).err,
                  testing::AllOf(HasSubstr("is not understood"), Not(HasSubstr("exception"))))
          << words << answer;
  }
}

} // namespace
} // namespace tandem::cli
