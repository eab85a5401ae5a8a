// What follows from what NetworkManager says; it is played in tests/lab/test_money.py.
#include "src/links/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace tandem::links
{
namespace
{

constexpr unsigned unknown = 0, none = 1, portal = 2, limited = 3, full = 4;

using namespace std::chrono_literals;

class NetworkValidations : public testing::Test
{
protected:
  std::string take(const Connectivity& said)
  {
    network.take(said, now);
    return network.why(now);
  }
  NetworkValidation network {};
  Tick now { 100s };
};

TEST_F(NetworkValidations, SaysNothingWhereNobodyKnows)
{
  EXPECT_EQ(take({}), "");
  EXPECT_EQ(take({ .v4 = unknown, .v6 = none }), "");
  EXPECT_EQ(take({ .v4 = 99, .v6 = 99 }), "");
}

TEST_F(NetworkValidations, WaitsForTheFirstWayToTheInternet)
{
  EXPECT_THAT(take({ .v4 = portal, .v6 = limited, .connection = "/1" }), testing::HasSubstr("captive portal"));
  EXPECT_THAT(take({ .v4 = limited, .v6 = none, .connection = "/1" }), testing::HasSubstr("not led to the Internet"));
  EXPECT_EQ(take({ .v4 = full, .v6 = limited, .connection = "/1" }), "") << "one IP version is enough";
  EXPECT_EQ(take({ .v4 = none, .v6 = full, .connection = "/1" }), "");
}

TEST_F(NetworkValidations, AValidatedNetworkStaysSoButForAPortalOrAnotherConnection)
{
  EXPECT_EQ(take({ .v4 = full, .connection = "/1" }), "");
  EXPECT_EQ(take({ .v4 = limited, .v6 = limited, .connection = "/1" }), "") << "as in a blackout";
  EXPECT_NE(take({ .v4 = portal, .connection = "/1" }), "") << "what was paid for is over";
  EXPECT_NE(take({ .v4 = limited, .connection = "/1" }), "");
  EXPECT_EQ(take({ .v4 = full, .connection = "/1" }), "");
  EXPECT_NE(take({ .v4 = limited, .connection = "/2" }), "") << "another network";
}

TEST_F(NetworkValidations, APortalHoldsOnWhileNetworkManagerIsStartedAnew)
{
  ASSERT_NE(take({ .v4 = portal, .connection = "/1" }), "");
  now += 1h;
  EXPECT_THAT(take({}), testing::HasSubstr("captive portal")) << "nobody is there";
  now += 5s;
  EXPECT_THAT(take({ .v4 = unknown, .v6 = none, .connection = "/2" }), testing::HasSubstr("captive portal"))
      << "it is there again, and has not checked yet";
  now += 5s;
  EXPECT_THAT(take({ .v4 = portal, .connection = "/2" }), testing::HasSubstr("captive portal"));
  EXPECT_THAT(take({}), testing::HasSubstr("captive portal"));
  now += 14s;
  EXPECT_THAT(take({}), testing::HasSubstr("captive portal")) << "silence goes on";
  EXPECT_TRUE(network.holds(now)) << "whoever rests must look again";
  now += 1s;
  EXPECT_EQ(network.why(now), "") << "it does not come back";
  EXPECT_FALSE(network.holds(now));
  EXPECT_EQ(take({}), "");
  now += 1h;
  EXPECT_NE(take({ .v4 = limited, .connection = "/3" }), "");
  EXPECT_EQ(take({ .v4 = full, .connection = "/3" }), "");
  EXPECT_EQ(take({}), "") << "there is nothing that could hold on";
}

} // namespace
} // namespace tandem::links
