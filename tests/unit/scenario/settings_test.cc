// Literals with units, and live changes.

#include "tests/unit/scenario/files.h"
#include "tools/lab/emulator/timeline.h"

#include <gmock/gmock.h>

namespace tandem::lab::test
{

namespace
{

using namespace tandem::literals;

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

TEST(Pipe, PolicersAndReorderingAreReadAndAnEmptyBucketIsRefused)
{
  const Scenario s = load("[wan]\npolice_down = \"20Mbit\"\npolice_burst = \"1MB\"\nreorder_up = 0.1\nreorder_later = "
                          "\"5ms\"\necn_down = \"codel\"\n[[server]]\nname = \"a\"\n");
  const medium::PipeConfig& down = s.servers[0].pipes.down;
  EXPECT_EQ(down.policer.rate.bits_per_second, 20e6);
  EXPECT_EQ(down.policer.burst, 1'000'000u);
  EXPECT_EQ(down.aqm.kind, medium::Aqm::Kind::codel);
  EXPECT_EQ(down.reordering.share, 0);
  EXPECT_EQ(s.servers[0].pipes.up.policer.rate.bits_per_second, 0);
  EXPECT_EQ(s.servers[0].pipes.up.reordering.share, 0.1);
  EXPECT_EQ(s.servers[0].pipes.up.reordering.later, 5ms);
  const toml::table none { { "police", "none" } };
  EXPECT_EQ(parse_change(s, "wan.police_down", *none.get("police")).pipes.down.policer.rate.bits_per_second, 0);
  EXPECT_NE(refusal("[wan]\npolice_burst = \"1kB\"\n").find("s.toml:2: wan.police_burst"), std::string::npos);
}

TEST(WifiRate, WhatStandsBehindTheNumberIsRefused)
{
  for (const char* good : { "\"54\"", "\"54Mbit\"", "54" })
    EXPECT_EQ(refusal("[wifi]\nprofile = \"wifi-g\"\nrate = " + std::string(good) + "\n"), "accepted") << good;
  for (const char* bad : { "54k", "54 Mb/s", "54,5", "nan" })
    EXPECT_NE(
        refusal("[wifi]\nprofile = \"wifi-g\"\nrate = \"" + std::string(bad) + "\"\n").find("s.toml:3: wifi.rate"),
        std::string::npos)
        << bad;
}

TEST(Pipe, KeysOfTheOtherKindOfWifiAreRefused)
{
  EXPECT_EQ(
      refusal("[wifi]\nprofile = \"wifi-pipe\"\nrate_down = \"100Mbit\"\nqueue_bytes = \"50kB\"\necn = \"mark\"\n"),
      "accepted");
  EXPECT_NE(refusal("[wifi]\nqueue_bytes = \"50kB\"\n").find("s.toml:2: wifi.queue_bytes"), std::string::npos);
  EXPECT_NE(refusal("[wifi]\nprofile = \"wifi-g\"\nrate_up = \"5Mbit\"\n").find("s.toml:3: wifi.rate_up"),
            std::string::npos);
  EXPECT_NE(refusal("[wifi]\nprofile = \"wifi-pipe\"\ncw_min = 7\n").find("s.toml:3: wifi.cw_min"), std::string::npos);
  EXPECT_NE(refusal("[wifi]\nprofile = \"wifi-pipe\"\n[[station]]\n").find("no neighbours"), std::string::npos);
  EXPECT_NE(refusal("[wifi]\nprofile = \"wifi-pipe\"\n[[ap]]\nname = \"ap1\"\n[[timeline]]\nat = \"1s\"\nwhat = "
                    "\"handoff\"\nap = \"ap1\"\n")
                .find("no handoff"),
            std::string::npos);
  const Scenario s = load("[wifi]\nprofile = \"wifi-pipe\"\n");
  const toml::table values { { "rate", "7Mbit" } };
  EXPECT_EQ(parse_change(s, "wifi.rate_up", *values.get("rate")).wifi.rate_up.bits_per_second, 7e6);
  EXPECT_THROW(parse_change(load(""), "wifi.rate_up", *values.get("rate")), BadInput);
}

} // namespace

} // namespace tandem::lab::test
