// A routing socket for whose messages there is no memory. A binary of its own, because it replaces libnl's receiving.
#include "src/kernel/rtnetlink.h"

#include <gtest/gtest.h>
#include <netlink/errno.h>

namespace
{

int starved = 0; // messages for which there is no memory, one after the other
int asked = 0;

} // namespace

extern "C" int nl_recvmsgs_default(nl_sock*)
{
  ++asked;
  if (starved == 0) return -NLE_AGAIN;
  --starved;
  return -NLE_NOMEM;
}

namespace tandem::kernel
{
namespace
{

TEST(Rtnetlink, LostMessagesAreToldAndTheRestIsTakenIn)
{
  asked = 0;
  starved = 2;
  int failure = 0;
  EXPECT_TRUE(receive_all(nullptr, &failure));
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(failure, 0);
}

// The loop of whoever listens, which the watchdog ends, would stand still.
TEST(Rtnetlink, WantOfMemoryThatLastsIsAFailure)
{
  asked = 0;
  starved = 1'000'000;
  int failure = 0;
  EXPECT_TRUE(receive_all(nullptr, &failure));
  EXPECT_LE(asked, 100);
  EXPECT_EQ(failure, -NLE_NOMEM);
}

} // namespace
} // namespace tandem::kernel
