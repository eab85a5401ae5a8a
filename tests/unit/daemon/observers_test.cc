// Copies of packets whose taker throws, and sampling that the kernel refuses to change: nothing of it may leave by the
// loop's C code. A binary of its own, because it replaces the system calls of packet sockets.
#include "src/daemon/observers.h"
#include "src/kernel/packet/tap.h"

#include <ev.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string>

namespace
{

int waiting = 0;              // packets
bool takes_no_filter = false; // of the sockets

} // namespace

extern "C"
{
  // Neither needs a permission here: what is opened is a Unix socket, no option is set, and packets are made up.
  int socket(int, int, int)
  {
    return static_cast<int>(syscall(SYS_socket, AF_UNIX, SOCK_DGRAM, 0));
  }

  int bind(int, const sockaddr*, socklen_t)
  {
    return 0;
  }

  int setsockopt(int, int, int option, const void*, socklen_t)
  {
    if (option != SO_ATTACH_FILTER || !takes_no_filter) return 0;
    errno = ENOMEM;
    return -1;
  }

  int recvmmsg(int, mmsghdr* messages, unsigned most, int, timespec*)
  {
    unsigned count = 0;
    for (; waiting > 0 && count < most; ++count, --waiting)
    {
      messages[count].msg_len = 40;
      messages[count].msg_hdr.msg_controllen = 0;
    }
    if (count > 0) return static_cast<int>(count);
    errno = EAGAIN;
    return -1;
  }
}

namespace tandem::daemon
{
namespace
{

class ObserversTest : public testing::Test
{
protected:
  void SetUp() override
  {
    waiting = 0;
    takes_no_filter = false;
    Wanted wanted {};
    wanted.any = true;
    wanted.observed = traffic::ingress_data;
    observers_.want(Link::wifi, "lo", 1, wanted);
    ASSERT_TRUE(observers_.observing(Link::wifi));
  }

  int taken_ = 0;
  bool throws_ = false;
  const std::unique_ptr<struct ev_loop, decltype(&ev_loop_destroy)> loop_ { ev_loop_new(EVFLAG_AUTO),
                                                                            &ev_loop_destroy };
  Observers observers_ { loop_.get(), 8,
                         [this](Link, const kernel::ObservedPacket&)
                         {
                           ++taken_;
                           if (throws_) throw std::runtime_error { "no memory" };
                         },
                         [](Link, bool) {} };
};

TEST_F(ObserversTest, a_packet_that_cannot_be_taken_is_told_once_and_the_next_ones_are_taken)
{
  throws_ = true;
  waiting = 3;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(observers_.drain(Link::wifi));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(taken_, 3);
  EXPECT_THAT(said, testing::HasSubstr("a packet that was observed has no effect: no memory"));
  EXPECT_EQ(said.find("no effect"), said.rfind("no effect"));
  throws_ = false;
  waiting = 1;
  EXPECT_TRUE(observers_.drain(Link::wifi));
  EXPECT_EQ(taken_, 4);
}

TEST_F(ObserversTest, sampling_that_cannot_be_changed_stays_and_is_tried_again)
{
  observers_.retune(Tick { std::chrono::seconds { 1 } });
  ASSERT_EQ(observers_.one_in(Link::wifi), 4u) << "nothing comes: more of it may be looked at";
  takes_no_filter = true;
  testing::internal::CaptureStderr();
  EXPECT_NO_THROW(observers_.retune(Tick { std::chrono::seconds { 2 } }));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("how much is observed stays as it is"));
  EXPECT_EQ(observers_.one_in(Link::wifi), 4u);
  takes_no_filter = false;
  observers_.retune(Tick { std::chrono::seconds { 3 } });
  EXPECT_EQ(observers_.one_in(Link::wifi), 2u);
}

TEST(TapTest, what_its_taker_throws_is_counted_as_a_loss)
{
  constexpr std::array<std::uint16_t, 1> ports { 80 };
  kernel::Tap tap { "lo", ports };
  waiting = 2;
  EXPECT_EQ(tap.receive([](const kernel::TappedPacket&) { throw std::runtime_error { "no memory" }; }), 2);
  EXPECT_EQ(tap.dropped(), 2u);
  EXPECT_EQ(tap.dropped(), 0u);
}

} // namespace
} // namespace tandem::daemon
