#include "src/flow/known_senders.h"

#include <gtest/gtest.h>

namespace tandem::flow
{
namespace
{

using namespace tandem::literals;

FlowKey connection(std::uint8_t server, std::uint16_t port, std::uint8_t own = 2)
{
  FlowKey key { .local_port = port, .remote_port = 443 };
  key.local.bytes[3] = own;
  key.remote.bytes[3] = server;
  return key;
}

TEST(KnownSenders, TheNextConnectionToAServerIsOfItsKind)
{
  KnownSenders known {};
  const Tick now { 1000s };
  EXPECT_EQ(known.expected(connection(1, 40'000), now), SenderKind::unknown);
  known.learned(connection(1, 40'000), -20, now);
  EXPECT_EQ(known.expected(connection(1, 40'001), now + 10s), SenderKind::rate_based);
  EXPECT_EQ(known.expected(connection(9, 40'001), now + 10s), SenderKind::unknown) << "another server";
  EXPECT_EQ(known.expected(connection(1, 40'001, 3), now + 10s), SenderKind::unknown) << "in another network";
}

TEST(KnownSenders, WhatNoneOfThemShowsBeyondDoubtAddsUp)
{
  KnownSenders known {};
  const Tick now { 1000s };
  known.learned(connection(1, 40'000), -10, now);
  EXPECT_EQ(known.expected(connection(1, 40'001), now), SenderKind::unknown);
  known.learned(connection(1, 40'001), -6, now + 1s);
  EXPECT_EQ(known.expected(connection(1, 40'002), now + 2s), SenderKind::rate_based);
  known.learned(connection(1, 40'002), +6, now + 3s);
  EXPECT_EQ(known.expected(connection(1, 40'003), now + 4s), SenderKind::unknown) << "contradicted";
}

TEST(KnownSenders, AMistakeIsOutweighedSoonHoweverLongItWasMade)
{
  KnownSenders known {};
  const Tick now { 1000s };
  for (std::uint16_t port = 40'000; port < 40'100; ++port)
    known.learned(connection(1, port), -20, now);
  for (std::uint16_t port = 41'000; port < 41'003; ++port)
    known.learned(connection(1, port), +20, now);
  EXPECT_EQ(known.expected(connection(1, 42'000), now), SenderKind::unknown);
}

TEST(KnownSenders, AUserSpaceStackIsOneUntilItsSegmentsSayOtherwise)
{
  KnownSenders known {};
  const Tick now { 1000s };
  known.learned(connection(1, 40'000), -20, now);
  known.learned_sizes(connection(1, 40'000), true, now);
  EXPECT_EQ(known.expected(connection(1, 40'001), now), SenderKind::unresponsive);
  known.learned_sizes(connection(1, 40'001), false, now);
  EXPECT_EQ(known.expected(connection(1, 40'002), now), SenderKind::rate_based);
}

TEST(KnownSenders, ItIsForgottenWhenNothingMoreIsSeenOfIt)
{
  KnownSenders known {};
  const Tick now { 1000s };
  known.learned(connection(1, 40'000), -10, now);
  known.learned(connection(1, 40'001), -10, now + 30min);
  EXPECT_EQ(known.expected(connection(1, 40'002), now + 80min), SenderKind::rate_based);
  EXPECT_EQ(known.expected(connection(1, 40'002), now + 91min), SenderKind::unknown);
  known.learned(connection(1, 40'003), -10, now + 92min);
  EXPECT_EQ(known.expected(connection(1, 40'004), now + 93min), SenderKind::unknown) << "it begins anew";
}

TEST(KnownSenders, TheOldestOnesGoForNewOnes)
{
  KnownSenders known {};
  Tick now { 1000s };
  for (std::size_t i = 0; i <= KnownSenders::most; ++i, now += 1s)
    known.learned(connection(static_cast<std::uint8_t>(i), 40'000), -20, now);
  EXPECT_EQ(known.expected(connection(0, 40'001), now), SenderKind::unknown);
  EXPECT_EQ(known.expected(connection(1, 40'001), now), SenderKind::rate_based);
  EXPECT_EQ(known.expected(connection(KnownSenders::most, 40'001), now), SenderKind::rate_based);
}

TEST(KnownSenders, OfThoseThatGoByLossesNothingIsExpected)
{
  KnownSenders known {};
  const Tick now { 1000s };
  known.learned(connection(1, 40'000), +40, now);
  EXPECT_EQ(known.expected(connection(1, 40'001), now), SenderKind::unknown);
}

} // namespace
} // namespace tandem::flow
