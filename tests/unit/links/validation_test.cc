// What follows from what NetworkManager says; it is played in tests/lab/test_money.py.
#include "src/links/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::links
{
namespace
{

constexpr unsigned unknown = 0, none = 1, portal = 2, limited = 3, full = 4;

TEST(NetworkValidation, SaysNothingWhereNobodyKnows)
{
  NetworkValidation network {};
  EXPECT_EQ(network.take({}), "");
  EXPECT_EQ(network.take({ .v4 = unknown, .v6 = none }), "");
  EXPECT_EQ(network.take({ .v4 = 99, .v6 = 99 }), "");
}

TEST(NetworkValidation, WaitsForTheFirstWayToTheInternet)
{
  NetworkValidation network {};
  EXPECT_THAT(network.take({ .v4 = portal, .v6 = limited, .connection = "/1" }), testing::HasSubstr("captive portal"));
  EXPECT_THAT(network.take({ .v4 = limited, .v6 = none, .connection = "/1" }),
              testing::HasSubstr("not led to the Internet"));
  EXPECT_EQ(network.take({ .v4 = full, .v6 = limited, .connection = "/1" }), "") << "one IP version is enough";
  EXPECT_EQ(network.take({ .v4 = none, .v6 = full, .connection = "/1" }), "");
}

TEST(NetworkValidation, AValidatedNetworkStaysSoButForAPortalOrAnotherConnection)
{
  NetworkValidation network {};
  EXPECT_EQ(network.take({ .v4 = full, .connection = "/1" }), "");
  EXPECT_EQ(network.take({ .v4 = limited, .v6 = limited, .connection = "/1" }), "") << "as in a blackout";
  EXPECT_NE(network.take({ .v4 = portal, .connection = "/1" }), "") << "what was paid for is over";
  EXPECT_NE(network.take({ .v4 = limited, .connection = "/1" }), "");
  EXPECT_EQ(network.take({ .v4 = full, .connection = "/1" }), "");
  EXPECT_NE(network.take({ .v4 = limited, .connection = "/2" }), "") << "another network";
}

} // namespace
} // namespace tandem::links
