// The record of a lost packet: what it says of which frame.

#include "tools/lab/emulator/loss_log.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace tandem::lab::test
{

namespace
{

using namespace tandem::literals;

// Ethernet, then `ip`, then TCP 443 -> 50000 with a timestamp option and `payload` bytes.
std::vector<std::byte> frame(std::vector<unsigned> ip, unsigned payload)
{
  std::vector<unsigned> all { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2 };
  all.insert(all.end(), ip.begin(), ip.end());
  const std::vector<unsigned> tcp { 0x01, 0xbb, 0xc3, 0x50, 0x80, 0, 0, 1,  0x70, 0,    0, 2, 0x80, 0x18, 0, 9,
                                    0,    0,    0,    0,    1,    1, 8, 10, 0xde, 0xad, 0, 5, 0,    0,    0, 0 };
  all.insert(all.end(), tcp.begin(), tcp.end());
  std::vector<std::byte> out;
  for (unsigned v : all)
    out.push_back(static_cast<std::byte>(v));
  out.resize(out.size() + payload);
  return out;
}

std::vector<unsigned> ipv4(unsigned payload, unsigned protocol = 6)
{
  const unsigned total = 52 + payload;
  return { 8, 0, 0x45, 0, total >> 8, total & 255, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 77, 10, 1, 10, 77, 1, 2 };
}

std::vector<unsigned> ipv6(unsigned payload)
{
  std::vector<unsigned> head { 0x86, 0xdd, 0x60, 0, 0, 0, 0, 32 + payload, 6, 64 };
  for (unsigned host : { 1u, 2u })
    for (unsigned i = 0; i < 16; ++i)
      head.push_back(i < 15 ? i : host);
  return head;
}

TEST(LossLog, RecordSaysWhichPacketWasLostWhereAndWhy)
{
  const Topology::Place place { .link = 2, .down = true, .queued = 7, .queued_bytes = 9000 };
  const auto four = loss_record(frame(ipv4(100), 100), Tick {} + 5ns, 1000, 2, place);
  ASSERT_TRUE(four);
  EXPECT_EQ(four->at_ns, 1005);
  EXPECT_EQ(four->seq, 0x80000001u);
  EXPECT_EQ(four->ack, 0x70000002u);
  EXPECT_EQ(four->tsval, 0xdead0005u);
  EXPECT_EQ(four->payload, 100);
  EXPECT_EQ(four->source_port, 443);
  EXPECT_EQ(four->destination_port, 50000);
  EXPECT_EQ(four->flags, 0x18);
  EXPECT_EQ(four->version, 4);
  EXPECT_EQ(four->what, 2);
  EXPECT_EQ(four->link, 2);
  EXPECT_EQ(four->down, 1);
  EXPECT_EQ(four->queued, 7u);
  EXPECT_EQ(four->queued_bytes, 9000u);
  EXPECT_EQ(four->source[3], 1);
  EXPECT_EQ(four->destination[3], 2);
  const auto six = loss_record(frame(ipv6(30), 30), Tick {}, 0, 0, {});
  ASSERT_TRUE(six);
  EXPECT_EQ(six->version, 6);
  EXPECT_EQ(six->payload, 30);
  EXPECT_EQ(six->source[15], 1);
  EXPECT_EQ(six->destination[15], 2);
}

TEST(LossLog, PaddingIsNoPayload)
{
  const auto record = loss_record(frame(ipv4(0), 8), Tick {}, 0, 0, {});
  ASSERT_TRUE(record);
  EXPECT_EQ(record->payload, 0);
}

// A lost data packet to the client's port 50000, and what the client sends.
LossRecord lost(std::uint32_t seq, std::int64_t at_ns, std::uint8_t why = 2)
{
  LossRecord record;
  record.seq = seq;
  record.payload = 1000;
  record.at_ns = at_ns;
  record.what = why;
  record.version = 4;
  record.source_port = 80;
  record.destination_port = 50000;
  record.source[0] = 10;
  record.destination[0] = 11;
  return record;
}

LossRecord ack(std::uint32_t number, std::int64_t at_ns, std::uint16_t port = 50000)
{
  LossRecord record = lost(1, at_ns);
  std::swap(record.source, record.destination);
  record.source_port = port;
  record.destination_port = 80;
  record.ack = number;
  return record;
}

TEST(Unrepaired, TellsEachLossOnceWhenTheClientAcknowledgesAllOfIt)
{
  Unrepaired unrepaired;
  std::vector<LossRecord> repaired;
  const auto take = [&](const LossRecord& r) { repaired.push_back(r); };
  const std::uint32_t wraps = 0xfffffe00;
  unrepaired.lost(lost(wraps + 5000, 2'000'000, 0));
  unrepaired.lost(lost(wraps, 1'000'000));
  unrepaired.lost(lost(wraps, 7'000'000)); // its repetition, too: the first loss counts
  unrepaired.acknowledged(ack(wraps + 999, 8'000'000), take);
  unrepaired.acknowledged(ack(wraps + 6000, 8'000'000, 50001), take); // another connection
  EXPECT_TRUE(repaired.empty());
  unrepaired.acknowledged(ack(wraps + 5000, 9'000'000), take);
  ASSERT_EQ(repaired.size(), 1u);
  EXPECT_EQ(repaired[0].seq, wraps);
  EXPECT_EQ(repaired[0].what, loss_log_repaired);
  EXPECT_EQ(repaired[0].why, 2);
  EXPECT_EQ(repaired[0].at_ns, 9'000'000);
  EXPECT_EQ(repaired[0].queued_bytes, 8000u);
  unrepaired.acknowledged(ack(wraps + 5999, 9'500'000), take);
  EXPECT_EQ(repaired.size(), 1u);
  unrepaired.acknowledged(ack(wraps + 9000, 10'000'000), take);
  unrepaired.acknowledged(ack(wraps + 9000, 11'000'000), take);
  ASSERT_EQ(repaired.size(), 2u);
  EXPECT_EQ(repaired[1].why, 0);
}

TEST(Unrepaired, AcknowledgementsGoOnBeyondTheWrap)
{
  Unrepaired unrepaired;
  std::size_t repaired = 0;
  const auto count = [&](const LossRecord&) { ++repaired; };
  unrepaired.lost(lost(0xffffff00 - 1000, 1)); // ends before the wrap
  unrepaired.lost(lost(0x100, 2));             // lies behind it
  unrepaired.acknowledged(ack(0xffffff00 - 1, 3), count);
  EXPECT_EQ(repaired, 0u);
  unrepaired.acknowledged(ack(0x50, 4), count);
  EXPECT_EQ(repaired, 1u);
  unrepaired.acknowledged(ack(0x100 + 1000, 5), count);
  EXPECT_EQ(repaired, 2u);
}

TEST(LossLog, WhatIsNoWholeTcpSegmentHasNoRecord)
{
  EXPECT_FALSE(loss_record(frame(ipv4(10, 17), 10), Tick {}, 0, 0, {}));
  auto cut = frame(ipv4(10), 10);
  for (std::size_t length = 0; length < cut.size(); ++length)
    EXPECT_FALSE(loss_record(std::span(cut).first(length), Tick {}, 0, 0, {})) << length;
  auto fragment = frame(ipv4(10), 10);
  fragment[21] = std::byte { 1 };
  EXPECT_FALSE(loss_record(fragment, Tick {}, 0, 0, {}));
  auto liar = frame(ipv4(10), 10);
  liar[46] = std::byte { 0xf0 }; // a header longer than the segment
  EXPECT_FALSE(loss_record(liar, Tick {}, 0, 0, {}));
}

} // namespace

} // namespace tandem::lab::test
