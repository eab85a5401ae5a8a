#include "src/feeder/radio/air_log.h"
#include "tests/unit/feeder/capture.h"

#include <tandem/link.h>

#include <gtest/gtest.h>

namespace tandem::feeder
{
namespace
{

using namespace tandem::literals;
using Kind = RadioEventKind;

TEST(Frame, is_read_behind_its_radiotap_header)
{
  const auto frame = parse_frame(record({ .control = down, .damaged = true, .signal = -71, .sent = 4711 }));
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->kind, Frame::Kind::data);
  EXPECT_EQ(frame->receiver, own);
  EXPECT_EQ(frame->transmitter, ap);
  EXPECT_TRUE(frame->from_ap);
  EXPECT_FALSE(frame->to_ap);
  EXPECT_TRUE(frame->damaged);
  EXPECT_EQ(frame->signal, -71);
  EXPECT_EQ(frame->sent, 4711u);
}

TEST(Frame, second_words_of_bits_are_skipped_and_fields_aligned)
{
  Capture c {};
  // Two words of bits; flags, signal: the eight bytes of fields begin behind both words.
  c.u8(0).u8(0).u16(8 + 4 + 2).u32(1u << 31 | 0b100010).u32(0).u8(0).u8(static_cast<std::uint8_t>(-60));
  c.u16(beacon_frame).u16(0).mac(own).mac(ap).mac(ap).u16(0);
  const auto frame = parse_frame(c.bytes);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->kind, Frame::Kind::beacon);
  EXPECT_EQ(frame->signal, -60);
}

TEST(Frame, cut_at_any_byte_it_is_refused_or_still_sensible)
{
  const auto whole = record({ .control = down });
  for (std::size_t length = 0; length < whole.size(); ++length)
  {
    const auto frame = parse_frame(std::span { whole }.first(length));
    EXPECT_EQ(frame.has_value(), length >= 24 + 10) << length;
    EXPECT_EQ(frame && frame->transmitter, length >= 24 + 16) << length;
  }
}

TEST(Frame, lengths_that_contradict_each_other_are_refused)
{
  auto bytes = record({});
  bytes[2] = std::byte { 200 };
  EXPECT_FALSE(parse_frame(bytes)) << "header longer than the record";
  bytes[2] = std::byte { 9 };
  EXPECT_FALSE(parse_frame(bytes)) << "header shorter than its fields";
  bytes = record({});
  bytes[7] = std::byte { 0x80 }; // one more word of bits, and one more ...
  bytes[11] = std::byte { 0x80 };
  bytes[15] = std::byte { 0x80 };
  bytes[19] = std::byte { 0x80 };
  bytes[23] = std::byte { 0x80 };
  EXPECT_FALSE(parse_frame(bytes));
}

class Air : public testing::Test
{
protected:
  AirLog log { own };
  std::uint64_t clock = 0;

  RadioEvent take(Spec spec)
  {
    spec.sent = ++clock;
    return log.take(*parse_frame(record(spec)), Tick { 1s });
  }
  Kind downlink(const Mac& from = ap, const Mac& to = own)
  {
    return take({ .control = down, .to = to, .from = from }).kind;
  }
  Kind uplink(const Mac& to = ap, const Mac& from = own)
  {
    return take({ .control = upward, .to = to, .from = from }).kind;
  }
  Kind ack(const Mac& to) { return take({ .control = ack_frame, .to = to, .with_from = false }).kind; }
};

TEST_F(Air, the_access_point_is_learned_from_what_it_sends_us)
{
  EXPECT_EQ(take({ .control = beacon_frame, .to = own }).kind, Kind::other) << "whose, is not known yet";
  EXPECT_EQ(downlink(), Kind::heard);
  EXPECT_EQ(take({ .control = beacon_frame, .to = own }).kind, Kind::beacon);
  EXPECT_EQ(downlink(ap, neighbour), Kind::heard) << "to somebody else, but audible";
  EXPECT_EQ(downlink(ap2, neighbour), Kind::other);
}

TEST_F(Air, the_access_point_is_learned_from_an_acknowledgement)
{
  EXPECT_EQ(uplink(), Kind::sent);
  EXPECT_EQ(ack(own), Kind::acknowledged);
  EXPECT_EQ(downlink(ap, neighbour), Kind::heard);
}

TEST_F(Air, acknowledgements_belong_to_the_frame_before_them)
{
  downlink();
  EXPECT_EQ(ack(own), Kind::other) << "nothing of ours was sent";
  EXPECT_EQ(uplink(), Kind::sent);
  EXPECT_EQ(ack(neighbour), Kind::other) << "not for us";
  EXPECT_EQ(ack(own), Kind::other) << "too late";
  uplink();
  EXPECT_EQ(ack(own), Kind::acknowledged);
  EXPECT_EQ(uplink(ap, neighbour), Kind::other);
  EXPECT_EQ(ack(neighbour), Kind::heard) << "our access point acknowledges a neighbour";
  EXPECT_EQ(uplink(ap2, neighbour), Kind::other);
  EXPECT_EQ(ack(neighbour), Kind::other) << "another one does";
}

TEST_F(Air, our_own_acknowledgements_are_no_use_of_the_channel_by_others)
{
  downlink();
  EXPECT_EQ(ack(ap), Kind::sent);
  EXPECT_EQ(ack(ap2), Kind::other);
}

TEST_F(Air, a_frame_is_given_up_after_seven_attempts)
{
  downlink();
  for (unsigned i = 1; i < AirLog::attempts; ++i)
    EXPECT_EQ(uplink(), Kind::sent) << i;
  EXPECT_EQ(uplink(), Kind::failed);
  EXPECT_EQ(uplink(), Kind::sent) << "the next frame";
}

TEST_F(Air, an_acknowledged_attempt_is_no_failure)
{
  downlink();
  for (int i = 0; i < 40; ++i)
  {
    EXPECT_EQ(uplink(), Kind::sent);
    EXPECT_EQ(uplink(), Kind::sent);
    EXPECT_EQ(ack(own), Kind::acknowledged);
  }
}

TEST_F(Air, frames_of_one_aggregate_are_one_attempt)
{
  downlink();
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(log.take(*parse_frame(record({ .control = upward, .to = ap, .from = own, .sent = 99 })), Tick {}).kind,
              Kind::sent);
}

TEST_F(Air, what_calls_for_an_acknowledgement_is_an_attempt_and_an_aggregate_is_one)
{
  EXPECT_FALSE(take({ .control = down, .to = own, .from = ap }).attempt);
  EXPECT_FALSE(take({ .control = ack_frame, .to = ap, .with_from = false }).attempt) << "nobody acknowledges one";
  EXPECT_FALSE(take({ .control = upward, .to = ap, .from = neighbour }).attempt);
  const RadioEvent first = take({ .control = upward, .to = ap, .from = own });
  EXPECT_TRUE(first.attempt);
  EXPECT_FALSE(first.retry);
  constexpr std::uint16_t retry_bit = 0x0800;
  EXPECT_TRUE(take({ .control = upward | retry_bit, .to = ap, .from = own }).retry);
  const auto part = [&]
  { return log.take(*parse_frame(record({ .control = upward, .to = ap, .from = own, .sent = 99 })), Tick {}); };
  EXPECT_TRUE(part().attempt);
  EXPECT_FALSE(part().attempt);
}

TEST_F(Air, another_access_point_that_answers_is_an_association)
{
  downlink();
  EXPECT_EQ(uplink(ap2), Kind::sent);
  EXPECT_EQ(downlink(), Kind::heard) << "asked, but not moved";
  EXPECT_EQ(uplink(ap2), Kind::sent);
  EXPECT_EQ(ack(own), Kind::associated);
  EXPECT_EQ(downlink(), Kind::associated) << "and back";
}

TEST_F(Air, a_deauthentication_of_us_is_heard_and_no_disconnect)
{
  downlink();
  constexpr Mac everybody { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
  const auto of_us = [&](Spec spec, const Mac& to)
  {
    spec.control = deauthentication;
    spec.to = to;
    const RadioEvent event = take(spec);
    EXPECT_EQ(event.kind, Kind::heard) << "whoever sent it";
    return event.deauthentication;
  };
  EXPECT_TRUE(of_us({}, own));
  EXPECT_TRUE(of_us({}, everybody));
  EXPECT_FALSE(of_us({}, neighbour));
  EXPECT_FALSE(of_us({ .damaged = true }, own));
  EXPECT_EQ(take({ .control = deauthentication, .from = ap2 }).kind, Kind::other);
  EXPECT_EQ(log.ap(), ap) << "and it is our access point still";
}

TEST_F(Air, a_damaged_frame_for_us_is_told_once_and_taken_back_when_it_is_repeated_whole)
{
  downlink();
  const Tick first { 2s };
  const auto frame = [&](std::uint16_t sequence, bool damaged, Tick at, const Mac& to = own) {
    return log.take(*parse_frame(record({ .control = down, .to = to, .damaged = damaged, .sequence = sequence })), at);
  };
  EXPECT_TRUE(frame(7, true, first).damaged);
  EXPECT_FALSE(frame(7, true, first + 1ms).damaged) << "the second attempt of the same";
  EXPECT_TRUE(frame(8, true, first + 2ms).damaged);
  const RadioEvent whole = frame(7, false, first + 3ms);
  EXPECT_FALSE(whole.damaged);
  ASSERT_TRUE(whole.repaired);
  EXPECT_EQ(*whole.repaired, first);
  EXPECT_FALSE(frame(7, false, first + 4ms).repaired) << "an acknowledgement of it was lost";
  EXPECT_FALSE(frame(9, false, first + 5ms).repaired);
  EXPECT_FALSE(frame(10, true, first + 6ms, neighbour).damaged) << "for somebody else";
  // The number comes again after 4096 frames.
  EXPECT_FALSE(frame(8, false, first + 500ms).repaired);
  EXPECT_TRUE(frame(8, true, first + 501ms).damaged);
}

TEST(DamageLog, forgets_what_was_taken_back)
{
  DamageLog log {};
  for (int i = 1; i <= 140; ++i)
    log.add(Tick { i * 1ms });
  EXPECT_EQ(log.between(Tick { 1ms }, Tick { 140ms }), 128u) << "the newest";
  EXPECT_EQ(log.between(Tick { 20ms }, Tick { 21ms }), 2u);
  log.take_back(Tick { 21ms });
  EXPECT_EQ(log.between(Tick { 20ms }, Tick { 21ms }), 1u);
  EXPECT_EQ(log.between(Tick { -5ms }, Tick { 140ms }), 127u);
}

TEST_F(Air, signals_are_those_of_our_access_point)
{
  EXPECT_EQ(take({ .control = down, .signal = -63 }).signal, -63);
  EXPECT_FALSE(take({ .control = down, .to = neighbour, .from = ap2, .signal = -40 }).signal);
}

} // namespace
} // namespace tandem::feeder
