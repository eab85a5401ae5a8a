#include "src/daemon/datapath.h"
#include "src/wire/build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <utility>
#include <vector>

namespace tandem::daemon
{
namespace
{

using namespace tandem::literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using Bytes = std::vector<std::byte>;

constexpr Address address(std::uint8_t last)
{
  return { .bytes = { 192, 0, 2, last } };
}

constexpr std::uint8_t wifi = 1, cell = 2, nobody = 9, server = 80;

FlowKey flow(std::uint8_t local = wifi)
{
  return { .local = address(local), .remote = address(server), .local_port = 40000, .remote_port = 443 };
}

// What the recorder kept, as it was when it was written.
struct Kept
{
  trace::Disposition disposition = trace::Disposition::passed;
  Direction direction = Direction::egress;
  Link link = Link::wifi, after_link = Link::wifi;
  Bytes before {}, after {};
  std::string why;
};

class DatapathOf : public testing::Test
{
protected:
  void SetUp() override
  {
    add(1, "wlan0", wifi);
    add(2, "wwan0", cell);
  }
  void add(int ifindex, const std::string& name, std::uint8_t last)
  {
    table.apply(links::InterfaceNotification { .ifindex = ifindex, .name = name, .admin_up = true, .running = true },
                Tick {});
    table.apply(links::AddressNotification { .ifindex = ifindex, .address = address(last) }, Tick {});
  }
  static Bytes ack(const FlowKey& key = flow(), Direction direction = Direction::egress)
  {
    Bytes bytes(256);
    bytes.resize(wire::build_ack(bytes, { .key = key,
                                          .direction = direction,
                                          .seq = Seq { 1000 },
                                          .ack = Seq { 5000 },
                                          .window = 500,
                                          .timestamps = Timestamps { TsClock { 70 }, TsClock { 60 } } }));
    return bytes;
  }
  static kernel::QueuedPacket waiting(Bytes& bytes, kernel::Hook hook = kernel::Hook::output)
  {
    return { .bytes = bytes,
             .hook = hook,
             .mark = 0xa,
             .original_length = static_cast<std::uint32_t>(bytes.size()),
             .arrival = Tick { 3s } };
  }
  std::vector<Kept> recorded()
  {
    std::vector<Kept> all {};
    path.recorder()->visit(
        [&](const trace::Entry& entry)
        {
          all.push_back({ .disposition = entry.disposition,
                          .direction = entry.direction,
                          .link = entry.link,
                          .after_link = entry.after_link,
                          .before = { entry.before.begin(), entry.before.end() },
                          .after = { entry.after.begin(), entry.after.end() },
                          .why = std::string { entry.why } });
        });
    return all;
  }

  links::LinkTable table { "wlan0", "wwan0" };
  std::vector<std::pair<Bytes, Link>> sent {};
  int error = 0; // of sending
  Datapath path { { .record = trace::Recorder::Limits {} },
                  table,
                  [this](std::span<const std::byte> packet, Link by)
                  {
                    sent.emplace_back(Bytes { packet.begin(), packet.end() }, by);
                    return error;
                  } };
};

TEST_F(DatapathOf, APacketThatCannotBeReadPassesCountedAndRecorded)
{
  Bytes bytes = ack();
  bytes.resize(24); // the IP header and four bytes
  EXPECT_FALSE(path.queued(waiting(bytes)));
  EXPECT_EQ(path.counters().queued, 1u);
  EXPECT_EQ(path.counters().passed, 1u);
  EXPECT_EQ(path.counters().faults[static_cast<std::size_t>(wire::ParseFault::truncated_ip)], 1u);
  const auto kept = recorded();
  ASSERT_THAT(kept, SizeIs(1));
  EXPECT_EQ(kept[0].disposition, trace::Disposition::fault);
  EXPECT_EQ(kept[0].why, "truncated_ip");
  EXPECT_EQ(kept[0].before, bytes);
}

TEST_F(DatapathOf, AFlowThatWiFiDoesNotOwnPassesUnseen)
{
  for (const std::uint8_t local : { cell, nobody })
  {
    Bytes bytes = ack(flow(local));
    EXPECT_FALSE(path.queued(waiting(bytes)));
  }
  EXPECT_EQ(path.counters().not_wifi, 2u);
  EXPECT_EQ(path.counters().passed, 2u);
  EXPECT_THAT(recorded(), IsEmpty());
}

TEST_F(DatapathOf, WithoutAnOpinionThePacketPassesAsItCame)
{
  Bytes bytes = ack();
  const Bytes before = bytes;
  kernel::QueuedPacket packet = waiting(bytes);
  const auto segment = path.queued(packet);
  ASSERT_TRUE(segment);
  EXPECT_EQ(segment->link, Link::wifi);
  EXPECT_EQ(segment->direction, Direction::egress);
  const kernel::Decision decision = path.decided(packet, *segment, {});
  EXPECT_FALSE(decision.drop);
  EXPECT_FALSE(decision.mark);
  EXPECT_TRUE(decision.bytes.empty());
  EXPECT_EQ(bytes, before);
  EXPECT_EQ(path.counters().passed, 1u);
  ASSERT_THAT(recorded(), SizeIs(1));
  EXPECT_EQ(recorded()[0].disposition, trace::Disposition::passed);
}

TEST_F(DatapathOf, ADropIsCountedAndRecordedWithItsReason)
{
  Bytes bytes = ack();
  kernel::QueuedPacket packet = waiting(bytes);
  const auto segment = path.queued(packet);
  ASSERT_TRUE(segment);
  EXPECT_TRUE(path.decided(packet, *segment, { .verdict = Verdict::drop, .why = "thinned" }).drop);
  EXPECT_EQ(path.counters().dropped, 1u);
  EXPECT_EQ(path.counters().passed, 0u);
  ASSERT_THAT(recorded(), SizeIs(1));
  EXPECT_EQ(recorded()[0].disposition, trace::Disposition::dropped);
  EXPECT_EQ(recorded()[0].why, "thinned");
}

TEST_F(DatapathOf, AnEditIsWrittenInPlaceAndBothSidesAreRecorded)
{
  Bytes bytes = ack();
  const Bytes before = bytes;
  kernel::QueuedPacket packet = waiting(bytes);
  const auto segment = path.queued(packet);
  ASSERT_TRUE(segment);
  const kernel::Decision decision =
      path.decided(packet, *segment, { .edit = { .window = std::uint16_t { 7 } }, .why = "hold" });
  EXPECT_EQ(decision.bytes.data(), bytes.data());
  EXPECT_FALSE(decision.mark);
  const wire::Parsed parsed = wire::parse(bytes, Direction::egress, false, 0, 0);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.segment.window, 7);
  EXPECT_EQ(path.counters().edited, 1u);
  EXPECT_EQ(path.counters().passed, 0u);
  const auto kept = recorded();
  ASSERT_THAT(kept, SizeIs(1));
  EXPECT_EQ(kept[0].disposition, trace::Disposition::edited);
  EXPECT_EQ(kept[0].before, before) << "what came, not what left";
  EXPECT_EQ(kept[0].after, bytes);
}

TEST_F(DatapathOf, WhatCannotBeEditedLeavesAsItCameAndIsRecorded)
{
  Bytes bytes(256); // without timestamps
  bytes.resize(wire::build_ack(bytes, { .key = flow(), .seq = Seq { 1000 }, .ack = Seq { 5000 }, .window = 500 }));
  const Bytes before = bytes;
  kernel::QueuedPacket packet = waiting(bytes);
  const auto segment = path.queued(packet);
  ASSERT_TRUE(segment);
  ASSERT_FALSE(segment->timestamps);
  const Datapath::Decided decided =
      path.decided(packet, *segment, { .edit = { .ts_echo = TsClock { 7 }, .route = Link::cell }, .why = "undo" });
  EXPECT_TRUE(decided.unedited);
  EXPECT_FALSE(decided.drop);
  EXPECT_FALSE(decided.mark) << "nor is it routed elsewhere";
  EXPECT_EQ(bytes, before);
  EXPECT_EQ(path.counters().edit_faults[static_cast<std::size_t>(wire::EditFault::no_timestamps)], 1u);
  const std::vector<Kept> all = recorded();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].disposition, trace::Disposition::fault);
  EXPECT_EQ(all[0].why, "no_timestamps");
}

TEST_F(DatapathOf, ADamagedCopyIsNobodys)
{
  for (const bool ready : { false, true })
  {
    Bytes bytes = ack(flow(), Direction::ingress);
    bytes[bytes.size() - 5] ^= std::byte { 1 }; // of TSecr
    kernel::ObservedPacket packet {
      .bytes = bytes, .original_length = bytes.size(), .direction = Direction::ingress, .checksum_ready = ready
    };
    EXPECT_EQ(path.observed(Link::wifi, packet).has_value(), !ready) << "GRO leaves the sum for later";
    bytes[bytes.size() - 5] ^= std::byte { 1 };
    EXPECT_TRUE(path.observed(Link::wifi, packet));
  }
  EXPECT_EQ(path.counters().damaged, 1u);
}

TEST_F(DatapathOf, WhatGoesByTheOtherLinkIsSentThereAndDroppedInTheQueue)
{
  Bytes bytes = ack();
  const Bytes before = bytes;
  kernel::QueuedPacket packet = waiting(bytes);
  const auto segment = path.queued(packet);
  ASSERT_TRUE(segment);
  const Datapath::Decided decision = path.decided(packet, *segment, { .edit = { .route = Link::cell } });
  EXPECT_TRUE(decision.drop);
  EXPECT_FALSE(decision.mark) << "no output hook would know that it leaves by another interface";
  EXPECT_FALSE(decision.unedited);
  EXPECT_THAT(sent, ElementsAre(std::pair { before, Link::cell }));
  EXPECT_EQ(path.counters().rerouted, 1u);
  EXPECT_EQ(path.counters().edited, 0u);
  EXPECT_EQ(path.counters().dropped, 0u);
  EXPECT_EQ(recorded().at(0).disposition, trace::Disposition::edited);
  EXPECT_EQ(recorded().at(0).after_link, Link::cell);
  EXPECT_EQ(recorded().at(0).before, before);
}

TEST_F(DatapathOf, WhatGoesByTheOtherLinkHasItsWholeChecksum)
{
  for (const bool edited : { false, true })
  {
    sent.clear();
    Bytes bytes = ack();
    const Bytes whole = bytes;
    std::byte* const checksum = bytes.data() + 20 + 16;
    checksum[0] = checksum[1] = std::byte { 0x5a }; // as the kernel leaves it to the device
    kernel::QueuedPacket packet = waiting(bytes);
    packet.checksum_not_ready = true;
    const auto segment = path.queued(packet);
    ASSERT_TRUE(segment);
    Edit edit { .route = Link::cell };
    if (edited) edit.window = std::uint16_t { 500 }; // what it was
    EXPECT_TRUE(path.decided(packet, *segment, { .edit = edit }).drop);
    EXPECT_THAT(sent, ElementsAre(std::pair { whole, Link::cell }));
  }
}

TEST_F(DatapathOf, WhatTheOtherLinkDoesNotTakeLeavesAsItCame)
{
  for (const int refusal : { EPERM, EACCES, ENETDOWN })
  {
    error = refusal;
    Bytes bytes = ack();
    kernel::QueuedPacket packet = waiting(bytes);
    const auto segment = path.queued(packet);
    ASSERT_TRUE(segment);
    const Datapath::Decided decision =
        path.decided(packet, *segment, { .edit = { .window = std::uint16_t { 7 }, .route = Link::cell } });
    EXPECT_TRUE(decision.unedited);
    EXPECT_FALSE(decision.drop);
    EXPECT_TRUE(decision.bytes.empty()) << "the kernel's own copy is sent";
  }
  EXPECT_EQ(path.counters().reroute_failed, 3u);
  EXPECT_EQ(path.counters().rerouted, 0u);
  EXPECT_EQ(path.counters().cell_filtered, 2u) << "an interface that is down is no word of the user's";
  EXPECT_EQ(recorded().at(0).disposition, trace::Disposition::fault);
  EXPECT_EQ(recorded().at(0).why, trace::not_rerouted);
}

TEST_F(DatapathOf, APacketThatIsNotWholeStaysOnItsLink)
{
  Bytes bytes = ack();
  kernel::QueuedPacket packet = waiting(bytes);
  packet.cut = true;
  const auto segment = path.queued(packet);
  ASSERT_TRUE(segment);
  EXPECT_TRUE(path.decided(packet, *segment, { .edit = { .route = Link::cell } }).unedited);
  EXPECT_THAT(sent, IsEmpty());
}

TEST_F(DatapathOf, ACopyCountsOnTheLinkThatOwnsItsFlowOnly)
{
  const Bytes own = ack(flow(cell), Direction::ingress), other = ack(flow(wifi), Direction::ingress);
  const auto copy = [](const Bytes& bytes)
  {
    return kernel::ObservedPacket {
      .bytes = bytes, .original_length = bytes.size(), .direction = Direction::ingress, .received = Tick { 2s }
    };
  };
  const auto segment = path.observed(Link::cell, copy(own));
  ASSERT_TRUE(segment);
  EXPECT_EQ(segment->link, Link::cell);
  EXPECT_EQ(segment->received, Tick { 2s });
  EXPECT_FALSE(path.observed(Link::cell, copy(other)));
  EXPECT_FALSE(path.observed(Link::cell, copy({ own.begin(), own.begin() + 10 })));
  EXPECT_EQ(path.counters().observed, 3u);
  EXPECT_THAT(recorded(), IsEmpty());
}

TEST_F(DatapathOf, AnInjectedSegmentLeavesByItsLinkAndIsRecorded)
{
  const InjectedSegment segment { .by = Link::cell, .seq = Seq { 1000 }, .ack = Seq { 4000 }, .window = 90 };
  const std::size_t length = path.inject({ .key = flow(), .segment = segment, .why = "copy" }, Tick { 4s });
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].second, Link::cell);
  EXPECT_EQ(sent[0].first.size(), length);
  EXPECT_EQ(path.counters().injected, 1u);
  ASSERT_THAT(recorded(), SizeIs(1));
  EXPECT_EQ(recorded()[0].disposition, trace::Disposition::injected);
  EXPECT_EQ(recorded()[0].link, Link::cell);
  EXPECT_EQ(recorded()[0].after, sent[0].first);
  EXPECT_EQ(recorded()[0].why, "copy");
}

TEST_F(DatapathOf, OfAFlowInATunnelNothingGoesAroundIt)
{
  EXPECT_GT(path.inject({ .key = flow(), .segment = { .by = Link::wifi } }, Tick { 4s }, true), 0u);
  EXPECT_EQ(path.inject({ .key = flow(), .segment = { .by = Link::cell } }, Tick { 4s }, true), 0u);
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].second, Link::other) << "where the routes lead";
  ASSERT_THAT(recorded(), SizeIs(1));
  EXPECT_EQ(recorded()[0].link, Link::wifi) << "as a replay has it";
  EXPECT_EQ(path.counters().inject_failed, 1u);
}

TEST_F(DatapathOf, WhatCannotBeSentHasNotLeft)
{
  error = ENETDOWN;
  EXPECT_EQ(path.inject({ .key = flow() }, Tick { 4s }), 0u);
  EXPECT_EQ(path.filled({}, {}, Tick { 4s }), 0u);
  EXPECT_EQ(path.counters().inject_failed, 2u);
  EXPECT_EQ(path.counters().injected, 0u);
  EXPECT_THAT(recorded(), IsEmpty());
}

TEST_F(DatapathOf, AFillIsRecordedAsIfItHadArrived)
{
  const Bytes bytes = ack(flow(), Direction::ingress);
  EXPECT_EQ(path.filled({ .why = "repair" }, bytes, Tick { 4s }), bytes.size());
  EXPECT_EQ(path.counters().injected, 1u);
  ASSERT_THAT(recorded(), SizeIs(1));
  EXPECT_EQ(recorded()[0].direction, Direction::ingress);
  EXPECT_EQ(recorded()[0].after, bytes);
}

TEST_F(DatapathOf, WithoutARecorderTheSameIsDone)
{
  Datapath silent { {}, table, [](std::span<const std::byte>, Link) { return 0; } };
  EXPECT_EQ(silent.recorder(), nullptr);
  Bytes bytes = ack();
  kernel::QueuedPacket packet = waiting(bytes);
  const auto segment = silent.queued(packet);
  ASSERT_TRUE(segment);
  EXPECT_EQ(silent.decided(packet, *segment, { .edit = { .window = std::uint16_t { 7 } } }).bytes.size(), bytes.size());
  EXPECT_GT(silent.inject({ .key = flow() }, Tick { 4s }), 0u);
}

} // namespace
} // namespace tandem::daemon
