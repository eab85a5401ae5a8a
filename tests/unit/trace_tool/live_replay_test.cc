#include "src/daemon/chain_inputs.h"
#include "src/daemon/datapath.h"
#include "src/trace/pcapng_writer.h"
#include "tests/unit/trace_tool/conversation.h"
#include "tests/unit/trace_tool/narrow.h"
#include "tools/trace/bad_request.h"
#include "tools/trace/command.h"
#include "tools/trace/live_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <limits>
#include <sstream>

namespace tandem::trace_tool
{
namespace
{

using namespace test;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using trace::test::TemporaryFile;
namespace in = trace::input;

// What the packet loop does around the chain, without a kernel.
class Live
{
public:
  explicit Live(trace::Recorder::Limits limits = {})
      : path_ { { .record = limits }, table_, [this](auto, Link) { return error_; } }
  {
    table_.apply(links::InterfaceNotification { .ifindex = 1, .name = "wlan0", .admin_up = true, .running = true }, {});
    table_.apply(links::AddressNotification { .ifindex = 1, .address = wire::test::v4(10, 0, 0, 2) }, {});
    table_.apply(links::InterfaceNotification { .ifindex = 2, .name = "wwan0", .admin_up = true, .running = true }, {});
    chain_.enable(0, true, now_);
    module_->set("inject", 1);
    inputs_.state(now_);
    LinkStates states {};
    states[0] = { .present = true, .up = true, .route = true };
    chain_.links(states, now_, [](const Address&) { return Link::wifi; });
    entered(in::Links { states, { { wire::test::v4(10, 0, 0, 2), Link::wifi } } });
  }

  void play(const std::vector<Timed>& packets)
  {
    for (const Timed& one : packets)
      packet(one);
  }
  void packet(const Timed& timed)
  {
    now_ = Tick { 1s + timed.at };
    chain_.advance(now_);
    entered(in::Advanced {});
    Packet bytes = timed.packet;
    const bool egress = std::to_integer<int>(bytes[12]) == 10;
    const bool syn = (std::to_integer<int>(bytes[33]) & 2) != 0;
    const auto length = static_cast<std::uint32_t>(bytes.size());
    if (syn || !egress)
    {
      const kernel::ObservedPacket copy { .bytes = std::span { bytes }.first(std::min<std::size_t>(length, 192)),
                                          .original_length = length,
                                          .direction = egress ? Direction::egress : Direction::ingress,
                                          .arrival = now_,
                                          .received = now_ - 20us };
      const auto segment = path_.observed(Link::wifi, copy);
      ASSERT_TRUE(segment);
      chain_.segment(*segment, false, now_);
      carry_out();
      inputs_.called(now_);
      path_.asked(copy, *segment);
      return;
    }
    kernel::QueuedPacket queued { .bytes = bytes, .original_length = length, .arrival = now_ };
    const auto segment = path_.queued(queued);
    ASSERT_TRUE(segment);
    const chain::Outcome outcome = chain_.segment(*segment, true, now_);
    carry_out();
    inputs_.called(now_);
    if (path_.decided(queued, *segment, outcome).unedited) chain_.unedited(*segment, outcome, now_);
  }
  template <class Input>
  void entered(const Input& one)
  {
    carry_out();
    inputs_.called(now_);
    inputs_.add(now_, one);
  }
  void carry_out()
  {
    chain::Output& output = chain_.output();
    for (const chain::Injection& one : output.segments)
    {
      const std::size_t sent = path_.inject(one, now_);
      if (sent == 0) inputs_.add(now_, in::NotSent { one.key });
      chain_.sent(one, sent);
    }
    output.clear();
  }
  void knob(const std::string& name, double value)
  {
    module_->set(name, value);
    inputs_.knobs(now_);
  }
  void enable(bool on)
  {
    chain_.enable(0, on, now_);
    entered(in::Switched { 0, on });
  }
  void cannot_send() { error_ = ENETUNREACH; }
  void state() { inputs_.state(now_); }
  daemon::ChainInputs& inputs() { return inputs_; }
  Tick now() const { return now_; }

  std::string file() const
  {
    std::ostringstream out;
    trace::write_pcapng(out, *path_.recorder(), trace::test::heading(), trace::test::realtime_offset);
    return out.str();
  }

private:
  Tick now_ {};
  int error_ = 0;
  links::LinkTable table_ { "wlan0", "wwan0" };
  mutable daemon::Datapath path_;
  std::shared_ptr<Narrow> module_ = std::make_shared<Narrow>();
  chain::Chain chain_ { { .seed = 9, .worth = 14'000 }, { module_.get() } };
  daemon::ChainInputs inputs_ { chain_, path_.recorder() };
};

LiveReplay again(const Live& live, std::uint16_t window = 400)
{
  const TemporaryFile file { live.file() };
  EXPECT_TRUE(has_chain_inputs(file.path()));
  return replay_live(file.path(),
                     [window](const std::vector<std::string>& names)
                     {
                       EXPECT_EQ(names, std::vector<std::string> { "narrow" });
                       return std::vector<std::shared_ptr<Module>> { std::make_shared<Narrow>(window) };
                     });
}

TEST(LiveReplayed, ItIsIdentical)
{
  Live live;
  live.play(download(60));
  const LiveReplay replay = again(live);
  EXPECT_TRUE(replay.whole);
  EXPECT_TRUE(replay.same());
  EXPECT_EQ(replay.skipped, 0u);
  ASSERT_EQ(replay.flows.size(), 1u);
  const LiveFlow& flow = replay.flows[0];
  EXPECT_TRUE(flow.identical());
  EXPECT_EQ(flow.packets, 122u);
  EXPECT_EQ(flow.decided, 60u) << "its ACKs";
  EXPECT_EQ(flow.injected, 1u);
  EXPECT_EQ(flow.decisions.at("narrow: by itself"), 1u);
  EXPECT_GT(flow.decisions.at("narrow: lower window"), 40u);
}

TEST(LiveReplayed, AnotherDecisionIsFoundAtItsPacket)
{
  Live live;
  live.play(download(60));
  const LiveReplay replay = again(live, 401);
  EXPECT_FALSE(replay.same());
  ASSERT_TRUE(replay.flows[0].first);
  EXPECT_EQ(replay.flows[0].first->packet, 33u) << "the first ACK with a lower window, behind one injected segment";
  EXPECT_THAT(replay.flows[0].first->before, HasSubstr("win 400"));
  EXPECT_THAT(replay.flows[0].first->after, HasSubstr("win 401"));
}

TEST(LiveReplayed, SettingsAndSwitchesAreRepeated)
{
  Live live;
  const auto packets = download(90);
  const auto part = [&packets](std::size_t from, std::size_t to)
  {
    return std::vector<Timed> { packets.begin() + static_cast<std::ptrdiff_t>(from),
                                packets.begin() + static_cast<std::ptrdiff_t>(to) };
  };
  live.play(part(0, 60));
  live.knob("from", 1000);
  live.play(part(60, 90));
  live.knob("from", 0);
  live.play(part(90, 120));
  live.enable(false);
  live.play(part(120, 140));
  live.enable(true);
  live.play(part(140, packets.size()));
  const LiveReplay replay = again(live);
  EXPECT_TRUE(replay.same()) << replay.flows[0].first->before << " / " << replay.flows[0].first->after;
  EXPECT_EQ(replay.flows[0].decided, 90u);
  EXPECT_GT(replay.flows[0].decisions.at("narrow: waits"), 10u);
}

TEST(LiveReplayed, ASegmentThatCouldNotBeSent)
{
  Live live;
  live.cannot_send();
  live.play(download(60));
  const LiveReplay replay = again(live);
  EXPECT_TRUE(replay.same());
  EXPECT_EQ(replay.flows[0].injected, 1u);
  EXPECT_EQ(replay.flows[0].decisions.count("narrow: by itself"), 0u);
}

TEST(LiveReplayed, ARingThatBeginsInTheMiddleOfAFlow)
{
  Live live { { .keep = 300ms } };
  auto packets = download(60);
  for (const Timed& one : packets)
  {
    live.packet(one);
    live.state();
  }
  const LiveReplay replay = again(live);
  EXPECT_FALSE(replay.whole);
  ASSERT_EQ(replay.flows.size(), 1u);
  EXPECT_THAT(replay.flows[0].unclaimed, HasSubstr("begins in its middle"));
  EXPECT_FALSE(replay.flows[0].identical());
  EXPECT_EQ(replay.flows[0].decided, 0u);
  EXPECT_EQ(replay.compared(), 0u);
}

TEST(LiveReplayed, ARingThatBeginsBeforeTheFlow)
{
  Live live { { .keep = 5s } };
  live.state();
  auto packets = download(60);
  for (Timed& one : packets)
    one.at += 4800ms;
  live.packet(packets[0]);
  live.state();
  live.play({ packets.begin() + 1, packets.end() });
  auto later = download(40);
  for (Timed& one : later)
  {
    one.at += 9s;
    const bool egress = std::to_integer<int>(one.packet[12]) == 10;
    one.packet[egress ? 21 : 23] = std::byte { 0x41 }; // another port of the laptop
  }
  live.state();
  live.play(later);
  const LiveReplay replay = again(live);
  EXPECT_FALSE(replay.whole);
  ASSERT_EQ(replay.flows.size(), 2u);
  EXPECT_TRUE(replay.flows[1].identical()) << replay.flows[1].unclaimed;
  EXPECT_EQ(replay.flows[1].decided, 40u);
}

TEST(LiveReplayed, WhatWasFetchedIsNotClaimed)
{
  Live live;
  const auto packets = download(60);
  live.play({ packets.begin(), packets.begin() + 60 });
  const FlowKey key { wire::test::v4(10, 0, 0, 2), wire::test::v4(192, 0, 2, 1), 40000, 443 };
  live.inputs().add(live.now(), in::Fetches { key });
  live.play({ packets.begin() + 60, packets.end() });
  const LiveReplay replay = again(live);
  EXPECT_TRUE(replay.same());
  EXPECT_FALSE(replay.flows[0].identical());
  EXPECT_THAT(replay.flows[0].unclaimed, HasSubstr("fetched"));
  EXPECT_GT(replay.flows[0].unclaimed_from, 50u);
  EXPECT_EQ(replay.flows[0].decided, 29u) << "those before";
}

TEST(LiveReplayed, AModuleThatIsNotHere)
{
  Live live;
  live.play(download(3));
  const TemporaryFile file { live.file() };
  EXPECT_THROW(replay_live(file.path(), [](const auto&) { return std::vector<std::shared_ptr<Module>> {}; }),
               BadRequest);
}

TEST(LiveReplayed, AFlowTableThatNoDaemonHasIsNotMade)
{
  Live live;
  std::string bytes = live.file();
  const std::string seed("\x09\0\0\0\0\0\0\0", 8), flows("\0\x10\0\0\0\0\0\0", 8);
  const std::size_t at = bytes.find(seed + flows);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 13] = 1; // 2^40 more
  const TemporaryFile file { bytes };
  std::string fault {};
  try
  {
    fault = replay_live(file.path(), [](const auto&) { return narrow(); }).fault;
  }
  catch (const trace::BadFile& bad)
  {
    fault = bad.what();
  }
  EXPECT_THAT(fault, HasSubstr("room for 1099511631872 flows"));
}

TEST(LiveReplayed, AKnobIsNotSetToWhatItCannotBe)
{
  for (const double wrong : { 1e9, -1.0, std::numeric_limits<double>::quiet_NaN() })
  {
    Live live;
    live.play(download(3));
    live.inputs().add(live.now(), in::Knobs { { { "narrow", "from", wrong } } });
    live.play(download(3));
    EXPECT_THAT(again(live).fault, HasSubstr("narrow.from was")) << wrong;
  }
}

TEST(LiveReplayed, MissingPacketsEndIt)
{
  Live live;
  live.play(download(60));
  std::string bytes = live.file();
  // The last packet's id, and those of the same value that others may have, jump.
  const std::string id("\x05\0\x08\0", 4);
  const std::size_t at = bytes.rfind(id);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 4] = static_cast<char>(bytes[at + 4] + 7);
  const TemporaryFile file { bytes };
  const LiveReplay replay = replay_live(file.path(), [](const auto&) { return narrow(); });
  EXPECT_THAT(replay.fault, HasSubstr("7 packets are missing before packet 1"));
  EXPECT_EQ(replay.packets, 122u);
  EXPECT_TRUE(replay.same());
}

TEST(LiveReplayed, ADamagedInputEndsItWithTheReason)
{
  Live live;
  live.play(download(60));
  const std::byte unknown { 0xee };
  // An input of a later release.
  live.inputs().add(live.now(), in::Advanced {});
  std::string bytes = live.file();
  const std::string block("\x4d\x44\x54\x80", 4);
  const std::size_t at = bytes.rfind(block);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 20] = static_cast<char>(unknown);
  const TemporaryFile file { bytes };
  const LiveReplay replay = replay_live(file.path(), [](const auto&) { return narrow(); });
  EXPECT_THAT(replay.fault, ::testing::StartsWith(file.path().string()
                                                  + ": an input of the chain is damaged, or of a later release"));
  EXPECT_EQ(replay.flows[0].decided, 60u);
}

} // namespace
} // namespace tandem::trace_tool
