#include "src/wire/edit.h"
#include "tests/unit/wire/packets.h"

#include <gtest/gtest.h>

namespace tandem::wire
{
namespace
{

using namespace test;

Edit random_edit(Generator& random, const Segment& segment)
{
  Edit fields;
  if (random.coin()) fields.ack = Seq { random.number() };
  if (random.coin()) fields.window = static_cast<std::uint16_t>(random.number());
  if (random.coin() && segment.timestamps) fields.ts_value = TsClock { random.number() };
  if (random.coin() && segment.timestamps) fields.ts_echo = TsClock { random.number() };
  if (random.coin()) fields.ecn = static_cast<Ecn>(random.below(4));
  return fields;
}

// Edit then parse = the edit and nothing else; both kinds of checksum work come to the same bytes.
TEST(Edit, ChangesWhatItNamesAndNothingElse)
{
  Generator random { 3 };
  for (int round = 0; round < 5000; ++round)
  {
    const Headers headers = random.headers();
    const Packet original = made(headers, random.bytes(random.below(200)));
    const Segment before = parse(original, headers.direction).segment;
    const Edit fields = random_edit(random, before);

    Packet updated = original;
    ASSERT_EQ(edit(updated, before, fields, ChecksumState::complete), EditFault::none);
    Packet recomputed = original;
    ASSERT_EQ(edit(recomputed, before, fields, ChecksumState::partial), EditFault::none);
    ASSERT_EQ(updated, recomputed);

    const Parsed after = parse(updated, headers.direction);
    ASSERT_TRUE(after.ok());
    ASSERT_TRUE(verify(updated, after.segment));
    EXPECT_EQ(after.segment.ack, fields.ack.value_or(before.ack));
    EXPECT_EQ(after.segment.window, fields.window.value_or(before.window));
    EXPECT_EQ(after.segment.ecn, fields.ecn.value_or(before.ecn));
    if (before.timestamps)
    {
      EXPECT_EQ(after.segment.timestamps->value, fields.ts_value.value_or(before.timestamps->value));
      EXPECT_EQ(after.segment.timestamps->echo, fields.ts_echo.value_or(before.timestamps->echo));
    }

    // Undone, it is the original byte for byte.
    Edit undo;
    undo.ack = before.ack;
    undo.window = before.window;
    undo.ecn = before.ecn;
    if (before.timestamps)
    {
      undo.ts_value = before.timestamps->value;
      undo.ts_echo = before.timestamps->echo;
    }
    ASSERT_EQ(edit(updated, after.segment, undo, ChecksumState::complete), EditFault::none);
    ASSERT_EQ(updated, original);
  }
}

TEST(Edit, NothingToDoTouchesNothing)
{
  for (const Packet& packet : captured())
  {
    Packet copy = packet;
    const Segment segment = parse(packet, Direction::ingress).segment;
    store16(copy, segment.ip_header_length + 16u, 0xbeef); // not even a checksum
    const Packet before = copy;
    EXPECT_EQ(edit(copy, segment, {}, ChecksumState::partial), EditFault::none);
    EXPECT_EQ(edit(copy, segment, { .route = Link::cell }, ChecksumState::partial), EditFault::none);
    EXPECT_EQ(copy, before);
  }
}

TEST(Edit, TimestampsAtAnOddOffset)
{
  for (const bool six : { false, true })
  {
    Packet packet = with_options({ 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8 }, tcp_flag::ack, six, 33);
    const Segment segment = parse(packet, Direction::egress).segment;
    ASSERT_EQ(segment.timestamps_offset % 2, 1);
    ASSERT_EQ(edit(packet, segment, { .ts_echo = TsClock { 0x12345678 }, .ts_value = TsClock { 0x9abcdef1 } },
                   ChecksumState::complete),
              EditFault::none);
    const Segment after = parse(packet, Direction::egress).segment;
    EXPECT_EQ(after.timestamps, (Timestamps { { 0x9abcdef1 }, { 0x12345678 } }));
    EXPECT_TRUE(verify(packet, after));
  }
}

TEST(Edit, ALocalPacketWithPartialChecksumGetsACompleteOne)
{
  Packet packet = hex(sack_v4);
  const Segment segment = parse(packet, Direction::egress).segment;
  store16(packet, 36, pseudo_header_sum(segment.key.local, segment.key.remote, 6, 52));
  ASSERT_FALSE(verify(packet, segment));
  ASSERT_EQ(edit(packet, segment, { .window = std::uint16_t { 7 } }, ChecksumState::partial), EditFault::none);
  EXPECT_TRUE(verify(packet, segment));
}

TEST(Edit, DamageOnTheWayStaysVisible)
{
  Packet packet = data_v4();
  const Segment segment = parse(packet, Direction::ingress).segment;
  packet[500] ^= std::byte { 4 };
  ASSERT_EQ(edit(packet, segment, { .ts_echo = TsClock { 1 }, .ecn = Ecn::ce }, ChecksumState::complete),
            EditFault::none);
  EXPECT_FALSE(verify(packet, segment));
  packet[500] ^= std::byte { 4 };
  EXPECT_TRUE(verify(packet, segment));
}

TEST(Edit, AuthenticatedSegmentsAreLeftAlone)
{
  std::vector<std::uint8_t> md5 { 19, 18 };
  md5.resize(18, 7);
  for (const auto& options :
       { md5, std::vector<std::uint8_t> { 29, 4, 1, 1 }, std::vector<std::uint8_t> { 19, 4, 0, 0 } })
  {
    Packet packet = with_options(options);
    const Packet before = packet;
    const Segment segment = parse(packet, Direction::egress).segment;
    EXPECT_EQ(edit(packet, segment, { .ack = Seq { 1 } }, ChecksumState::partial), EditFault::authenticated);
    EXPECT_EQ(packet, before);
  }
}

TEST(Edit, FaultsLeaveThePacketAsItWas)
{
  Packet packet = with_options({});
  const Packet before = packet;
  const Segment segment = parse(packet, Direction::egress).segment;
  EXPECT_EQ(edit(packet, segment, { .ack = Seq { 9 }, .ts_value = TsClock { 1 } }, ChecksumState::partial),
            EditFault::no_timestamps);
  EXPECT_EQ(packet, before);

  Packet syn = with_options({}, tcp_flag::syn);
  const Packet syn_before = syn;
  EXPECT_EQ(
      edit(syn, parse(syn, Direction::egress).segment, { .ack = Seq { 9 }, .ecn = Ecn::ce }, ChecksumState::partial),
      EditFault::no_ack);
  EXPECT_EQ(syn, syn_before);

  Packet cut = data_v4();
  cut.resize(60);
  const Packet cut_before = cut;
  const Segment cut_segment = parse(cut, Direction::ingress, true).segment;
  EXPECT_EQ(edit(cut, cut_segment, { .window = std::uint16_t { 1 } }, ChecksumState::complete), EditFault::not_whole);
  EXPECT_EQ(cut, cut_before);
  EXPECT_EQ(edit(cut, Segment {}, { .window = std::uint16_t { 1 } }, ChecksumState::complete), EditFault::not_whole);
}

TEST(Edit, UnknownOptionsSurvive)
{
  Packet packet = with_options({ 77, 3, 9, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2 });
  const Segment segment = parse(packet, Direction::egress).segment;
  ASSERT_EQ(edit(packet, segment, { .ts_value = TsClock { 5 } }, ChecksumState::complete), EditFault::none);
  EXPECT_EQ(load32(packet, 40), 0x4d030901u);
}

} // namespace
} // namespace tandem::wire
