#include "src/trace/chain_input.h"
#include "tests/unit/trace/samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace tandem::trace
{
namespace
{

using namespace test;
namespace in = input;

using Bytes = std::vector<std::byte>;

Bytes encoded(const ChainInput& one)
{
  Bytes bytes(longest_input);
  bytes.resize(encode(one, bytes));
  return bytes;
}

RadioState radio()
{
  return { .packet_time = 1234us,
           .delivery = 0.75F,
           .signal = -61.5F,
           .confidence = 0.1F,
           .frequency = 5180,
           .busy = 0.5F,
           .received = 0.125F,
           .candidate = -55.25F };
}

// One of each kind, no field at its default.
std::vector<ChainInput> all_kinds()
{
  LinkStates links {};
  for (std::size_t i = 0; i < links.size(); ++i)
    links[i] = { .present = true,
                 .up = true,
                 .route = true,
                 .route_v6 = true,
                 .at_risk = true,
                 .changed = Tick { Duration { 7 } },
                 .mtu = static_cast<std::uint32_t>(1000 + i),
                 .radio = radio(),
                 .bytes_out = 5,
                 .bytes_left = 6,
                 .delivery_rate = 0.1 };
  in::State state { .first = true,
                    .seed = ~0ull,
                    .capacity = 4096,
                    .idle = 120s,
                    .cell_budget = 1,
                    .cell_bytes = 2,
                    .modules = { { "offload", true }, { "ecn", false } },
                    .knobs = { { "offload", "threshold", 0.1 } },
                    .links = links };
  state.radio_told[1] = radio();
  state.rates[2] = { Tick { 3s }, 4, 0.3 };
  const FlowKey flow = wire::test::key_v4;
  return { state,
           in::Advanced {},
           in::Links { links, { { flow.local, Link::cell } } },
           in::Radio { wifi_link(2), radio() },
           in::Damage { true, true, 130, { { std::uint8_t { 127 }, Tick { Duration { -9 } } } } },
           in::Switched { 3, true },
           in::Knobs { { { "mirror", "on", 1 } } },
           in::RestAnswer { 5, true, true },
           in::Rests { flow, { 6, true, true } },
           in::CarriedOut {},
           in::PathFailed { flow, true },
           in::QueueBypassed { true },
           in::NotSent { flow },
           in::Spent { 1ull << 40 },
           in::Fetches { flow },
           in::Request { 2, { RequestKind::ce_rate, Link::cell, 0.25 } },
           in::ModuleFault {},
           in::CellDenial { CellDenied::private_peer },
           in::CellLimit { 1ull << 41 },
           in::PathKnown { flow, Duration { -7ms } },
           in::PathAnswer { 12ms },
           in::Unanswered { flow, true, 3, 0xffff'fff0, 91 } };
}

TEST(ChainInputs, DecodedTheyAreTheSame)
{
  const auto all = all_kinds();
  ASSERT_EQ(all.size(), std::variant_size_v<ChainInput>) << "a kind is not tested";
  for (std::size_t i = 0; i < all.size(); ++i)
  {
    ASSERT_EQ(all[i].index(), i);
    const Bytes bytes = encoded(all[i]);
    ASSERT_FALSE(bytes.empty());
    const auto decoded = decode(bytes);
    ASSERT_TRUE(decoded) << "kind " << i;
    EXPECT_EQ(encoded(*decoded), bytes) << "kind " << i;
  }
  const auto state = decode(encoded(all[0]));
  EXPECT_EQ(std::get<in::State>(*state).links[9].mtu, 1009u);
  for (const bool at_risk : { false, true })
    for (const std::optional<bool> keeps : { std::optional<bool> {}, std::optional { false }, std::optional { true } })
    {
      in::Links one {};
      one.states[0].at_risk = at_risk;
      one.states[0].keeps_frames = keeps;
      const LinkState read = std::get<in::Links>(*decode(encoded(one))).states[0];
      EXPECT_EQ(read.at_risk, at_risk);
      EXPECT_EQ(read.keeps_frames, keeps);
    }
  EXPECT_EQ(std::get<in::State>(*state).links[0].radio->packet_time, Duration { 1234us });
  EXPECT_EQ(std::get<in::State>(*state).links[0].radio->candidate, -55.25F);
  EXPECT_EQ(std::get<in::State>(*state).rates[2].rate, 0.3);
  EXPECT_EQ(std::get<in::State>(*state).modules[0], (std::pair<std::string, bool> { "offload", true }));
  EXPECT_EQ(std::get<in::Damage>(*decode(encoded(all[4]))).places[0].second, Tick { Duration { -9 } });
  EXPECT_EQ(std::get<in::Request>(*decode(encoded(all[15]))).request.link, Link::cell);
  EXPECT_EQ(std::get<in::PathKnown>(*decode(encoded(all[19]))).added_delay, Duration { -7ms }) << "faster than Wi-Fi";
  EXPECT_EQ(std::get<in::PathAnswer>(*decode(encoded(all[20]))).added_delay, Duration { 12ms });
  EXPECT_EQ(std::get<in::Unanswered>(*decode(encoded(all[21]))).acked, 0xffff'fff0u);
  EXPECT_EQ(std::get<in::Unanswered>(*decode(encoded(all[21]))).unacked, 91u);
  EXPECT_FALSE(std::get<in::PathKnown>(*decode(encoded(in::PathKnown {}))).added_delay);
}

// Releases up to 0.1 knew of no candidate: their recordings are read, and are written so where none was heard.
TEST(ChainInputs, ARadioStateWithoutACandidateIsWhatItWas)
{
  const std::array<unsigned, 11> begin { 3, 0, 1, 0, 0, 1, 0, 0, 0x76, 0xc2, 0 }; // -61.5 dBm alone
  Bytes bytes(begin.size() + 8);                                                  // confidence and frequency are 0
  std::transform(begin.begin(), begin.end(), bytes.begin(), [](unsigned b) { return static_cast<std::byte>(b); });
  const auto decoded = decode(bytes);
  ASSERT_TRUE(decoded);
  const RadioState& state = *std::get<in::Radio>(*decoded).state;
  EXPECT_EQ(state.signal, -61.5F);
  EXPECT_FALSE(state.candidate);
  EXPECT_EQ(encoded(*decoded), bytes);
  for (const unsigned unknown : { 2u, 4u, 255u })
  {
    bytes[2] = static_cast<std::byte>(unknown);
    EXPECT_FALSE(decode(bytes)) << unknown;
  }
}

TEST(ChainInputs, WhatIsCutOrLongerOrUnknownIsNone)
{
  for (const ChainInput& one : all_kinds())
  {
    Bytes bytes = encoded(one);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode(std::span { bytes }.first(size)));
    bytes.push_back({});
    EXPECT_FALSE(decode(bytes));
  }
  EXPECT_FALSE(decode(std::array { std::byte { std::variant_size_v<ChainInput> } }));
}

TEST(ChainInputs, WhatDoesNotFitIsNotWritten)
{
  for (const ChainInput& one : all_kinds())
  {
    Bytes bytes(encoded(one).size() - 1);
    EXPECT_EQ(encode(one, bytes), 0u);
  }
}

TEST(ChainInputs, StandInTheRecordingAmongThePackets)
{
  Recorder recorder { {} };
  const Packet packet = ack(1);
  const Bytes time = encoded(in::Advanced {}), spent = encoded(in::Spent { 3 });
  recorder.add({ .at = tick(1ms), .input = time });
  recorder.add({ .at = tick(2ms),
                 .direction = Direction::ingress,
                 .link = wifi_link(2),
                 .disposition = Disposition::observed,
                 .before = packet,
                 .before_length = 1500,
                 .asked = Asked { .at = tick(2ms), .received = tick(1500us), .seen = 60 } });
  recorder.add({ .at = tick(3ms),
                 .before = packet,
                 .asked = Asked { .at = tick(3ms), .seen = 1500, .checksum_not_ready = true } });
  recorder.add({ .at = tick(4ms), .input = spent });
  EXPECT_EQ(recorder.counters().recorded, 2u) << "packets";
  std::ostringstream out;
  ASSERT_TRUE(write_pcapng(out, recorder, heading(), realtime_offset));
  const TemporaryFile file { out.str() };

  Reader with { file.path(), true };
  std::vector<Recorded> all;
  while (auto one = with.next())
    all.push_back(std::move(*one));
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].input, time);
  EXPECT_EQ(all[0].asked->at, tick(1ms));
  EXPECT_EQ(all[1].number, 1u);
  EXPECT_EQ(all[1].link, wifi_link(2));
  EXPECT_EQ(all[1].comment, "observed");
  EXPECT_EQ(all[1].asked, (Asked { .at = tick(2ms), .received = tick(1500us), .seen = 60 }));
  EXPECT_EQ(all[2].asked, (Asked { .at = tick(3ms), .seen = 1500, .checksum_not_ready = true }));
  EXPECT_EQ(all[2].number, 2u);
  EXPECT_EQ(all[3].input, spent);

  EXPECT_EQ(read_all(file.path()).size(), 2u) << "who does not ask for them sees packets alone";
}

TEST(ChainInputs, MakeRoomAndAgeAsPacketsDo)
{
  Recorder recorder { { .keep = 1s, .bytes = 4000 } };
  const Bytes input = encoded(in::Knobs { std::vector<KnobIs>(20, { "module", "knob", 1 }) });
  const Packet packet = ack(1);
  for (int i = 0; i < 2000; ++i)
  {
    recorder.add({ .at = Tick { Duration { i } }, .input = input });
    recorder.add({ .at = Tick { Duration { i } }, .before = packet });
  }
  std::size_t inputs = 0, packets = 0;
  recorder.visit(
      [&](const Entry& entry)
      {
        const bool is_input = !entry.input.empty();
        (is_input ? inputs : packets) += 1;
        EXPECT_TRUE(is_input ? std::equal(entry.input.begin(), entry.input.end(), input.begin(), input.end())
                             : std::equal(entry.before.begin(), entry.before.end(), packet.begin(), packet.end()));
      });
  EXPECT_GT(inputs, 2u);
  EXPECT_GT(packets, 2u);
  EXPECT_EQ(recorder.size(), inputs + packets);
  recorder.expire(Tick { 2s });
  EXPECT_EQ(recorder.size(), 0u);
}

} // namespace
} // namespace tandem::trace
