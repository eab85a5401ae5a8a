// Literals with units, and live changes.

#include "tests/unit/scenario/files.h"

#include <gmock/gmock.h>

namespace tandem::lab::test
{

namespace
{

using namespace tandem::literals;

TEST(Literals, DurationsRatesAndSizes)
{
  EXPECT_EQ(parse_duration("20ms"), 20ms);
  EXPECT_EQ(parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(parse_duration("250 us"), 250us);
  EXPECT_EQ(parse_duration("2min"), 2min);
  EXPECT_EQ(parse_rate("54Mbit"), 54_mbps);
  EXPECT_EQ(parse_rate("1.2Gbit"), Rate { 1.2e9 });
  EXPECT_EQ(parse_bytes("64KiB"), 65536u);
  EXPECT_EQ(parse_bytes("100kB"), 100000u);
  for (const char* bad : { "", "ms", "20", "20 parsecs", "1e400s", "20ms ", "nan s" })
    EXPECT_THROW(parse_duration(bad), std::invalid_argument) << bad;
  EXPECT_THROW(parse_rate("5MB"), std::invalid_argument);
  EXPECT_THROW(parse_bytes("-5kB"), std::invalid_argument);
}

TEST(LiveChange, TakesKeysOfTheAirAndThePipes)
{
  const Scenario s = load("[[server]]\nname = \"a\"\n[[server]]\nname = \"b\"\n");
  const toml::table values { { "loss", 0.25 }, { "delay", "70ms" }, { "queue", 7 } };
  EXPECT_EQ(parse_change(s, "wifi.loss", *values.get("loss")).wifi.air.loss_up.random, 0.25);
  const ChangeEvent wan = parse_change(s, "wan.b.delay", *values.get("delay"));
  EXPECT_EQ(wan.server, 1u);
  EXPECT_EQ(wan.pipes.down.delay, 70ms);
  EXPECT_EQ(parse_change(s, "cell.queue_up", *values.get("queue")).pipes.up.queue_packets, 7u);
  for (const char* bad : { "wifi.standard", "wifi.lost", "cell", "wan.c.delay", "server.delay", "cell.profile" })
    EXPECT_THROW(parse_change(s, bad, *values.get("loss")), BadInput) << bad;
  EXPECT_THROW(parse_change(s, "wifi.loss", *values.get("delay")), BadInput);
}

TEST(Suggestion, OnlyWhenCloseEnough)
{
  EXPECT_EQ(closest("los", { "loss", "delay" }), "loss");
  EXPECT_EQ(closest("completely_else", { "loss", "delay" }), "");
}

} // namespace

} // namespace tandem::lab::test
