// Orders to a keeper that lives, for which there is no memory. In a network namespace of its own; a binary of its own,
// because it replaces sendmsg().
#include "src/kernel/keeper/keeper.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>

namespace
{

int refusal = 0; // of the next message

} // namespace

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags)
{
  static const auto real = reinterpret_cast<decltype(&sendmsg)>(dlsym(RTLD_NEXT, "sendmsg"));
  if (refusal == 0) return real(socket, message, flags);
  errno = std::exchange(refusal, 0);
  return -1;
}

namespace tandem::kernel
{
namespace
{

class KeeperTest : public testing::TestWithParam<int>
{
protected:
  void SetUp() override
  {
    static const bool apart = ::unshare(::geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) == 0;
    if (!apart) GTEST_SKIP() << "no namespace of one's own here";
    try
    {
      keeper_.emplace(Keeper::start());
    }
    catch (const std::runtime_error& error)
    {
      GTEST_SKIP() << error.what();
    }
  }

  std::optional<Keeper::Outcome> outcome()
  {
    std::optional<Keeper::Outcome> ended = keeper_->take_outcome();
    for (int i = 0; i < 100 && !ended; ++i)
    {
      pollfd wait { keeper_->fd(), POLLIN, 0 };
      ::poll(&wait, 1, 100);
      keeper_->dispatch();
      ended = keeper_->take_outcome();
    }
    return ended;
  }

  std::optional<Keeper> keeper_ {};
};

// The daemon would stop, and say that its keeper is gone.
TEST_P(KeeperTest, an_order_for_which_there_is_no_memory_is_given_again)
{
  refusal = GetParam();
  const std::uint64_t lost = keeper_->post_apply({});
  EXPECT_NE(keeper_->state().phase, KeeperState::Phase::lost);
  std::optional<Keeper::Outcome> ended = outcome();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->ticket, lost);
  EXPECT_NE(ended->failure, "");
  const std::uint64_t again = keeper_->post_apply({});
  ended = outcome();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->ticket, again);
  EXPECT_EQ(ended->failure, "");
}

INSTANTIATE_TEST_SUITE_P(Refusals, KeeperTest, testing::Values(EAGAIN, ENOBUFS, ENOMEM));

} // namespace
} // namespace tandem::kernel
