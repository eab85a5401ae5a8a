// Every mix of TCP flags, with and without payload and options, through the simulator and the golden harness: both show
// the modules what tandem/admission.h says. The kernel's rules and filters: tests/unit/kernel/bpf_test.cc and
// tests/lab/kernel/test_admission.py.
#include "tests/golden/harness/fixture.h"
#include "tools/sim/client_host.h"

#include <tandem/admission.h>

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tandem::sim::test
{

namespace
{

using tandem::test::Fixture;
using tandem::test::Peers;

// Remembers whether what it was last shown waited for a verdict.
class Watcher final : public FlowModule<int>
{
public:
  Interest wants {};
  std::optional<bool> queued {};

  std::string_view name() const override { return "watcher"; }
  std::string_view summary() const override { return ""; }
  std::string_view manual() const override { return ""; }
  std::span<const Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }
  Interest interest() const override { return wants; }
  Plan decide(const Event& event, const FlowView&, int&) override
  {
    if (event.kind == EventKind::segment) queued = event.queued;
    return {};
  }
  void describe(const FlowView&, const int&, Facts&) const override {}
};

std::vector<Interest> interests()
{
  using namespace traffic;
  std::vector<Interest> all { {} };
  for (const std::uint32_t decide : { none, egress_pure_ack, egress_data, egress_closing, ingress_data, ingress_ack,
                                      egress_pure_ack | ingress_data, egress | ingress | handshake })
    for (const std::uint32_t observe : { none, ingress_data, egress_pure_ack | ingress_ack, egress | ingress })
      all.push_back({ .decide = decide, .observe = observe, .every_link = all.size() % 3 != 0 });
  return all;
}

// What the table is to say, in other words than its own.
std::uint32_t expected_kind(Direction direction, std::uint16_t flags, bool payload)
{
  const bool leaving = direction == Direction::egress;
  if ((flags & tcp_flag::syn) != 0) return traffic::handshake;
  const bool closing = (flags & (tcp_flag::fin | tcp_flag::rst)) != 0;
  if (leaving && closing) return traffic::egress_closing;
  if (!closing && (flags & tcp_flag::ack) == 0) return traffic::none;
  if (leaving) return payload ? traffic::egress_data : traffic::egress_pure_ack;
  return payload ? traffic::ingress_data : traffic::ingress_ack;
}

constexpr std::uint16_t all_flags = 0x1ff;

struct Mix
{
  Direction direction {};
  std::uint16_t flags = 0;
  bool payload = false;
  bool timestamps = false;
  std::uint8_t sacks = 0;
  bool ip_options = false; // or an IPv6 extension header
  Link link = Link::wifi;
};

std::vector<Mix> mixes()
{
  std::vector<Mix> all {};
  for (const Direction direction : { Direction::egress, Direction::ingress })
    for (std::uint16_t flags = 0; flags <= all_flags; ++flags)
      for (const bool payload : { false, true })
      {
        const bool odd = (flags ^ (flags >> 3)) & 1; // options come and go with the flags: both with each flag
        all.push_back({ direction, flags, payload, odd, static_cast<std::uint8_t>(odd ? flags % 4 : 0) });
      }
  for (const Direction direction : { Direction::egress, Direction::ingress })
    for (const std::uint16_t flags : { tcp_flag::ack, tcp_flag::fin, tcp_flag::syn })
      for (const bool payload : { false, true })
      {
        all.push_back({ direction, flags, payload, true, 0, true });
        for (const Link link : { Link::cell, Link::other, wifi_link(1) })
          all.push_back({ .direction = direction, .flags = flags, .payload = payload, .link = link });
      }
  return all;
}

Segment segment_of(const Mix& mix, const Peers& peers, Tick now)
{
  Segment s = peers.bare(mix.direction, mix.flags, now);
  s.link = mix.link;
  if (!mix.timestamps)
  {
    s.timestamps.reset();
    s.options = 0;
  }
  s.sack_count = mix.sacks;
  if (mix.sacks > 0) s.options |= option::sack;
  s.payload_length = mix.payload ? 20 : 0;
  if (mix.ip_options) s.ip_header_length = static_cast<std::uint16_t>(s.ip_header_length + 8);
  return s;
}

// What became of a segment, as the modules and the flow table have it.
Admission seen(const chain::Outcome* outcome, const Watcher& watcher)
{
  if (outcome == nullptr || outcome->flow == nullptr) return Admission::unseen;
  return watcher.queued.value_or(false) ? Admission::queued : Admission::observed;
}

// A connection of its own for each mix: one that is closed or opened anew is no place for the next.
template <class Show>
void drive(const Interest& interest, Watcher& watcher, Tick now, const char* where, Show show)
{
  Wanted wanted {};
  wanted.add(interest);
  std::uint16_t port = 1024;
  int wrong = 0;
  for (const Mix& mix : mixes())
  {
    Peers peers {};
    peers.key.local_port = ++port;
    for (Segment s : { peers.syn(now), peers.syn_ack(now), peers.ack(now) })
    {
      s.link = mix.link;
      show(s);
    }
    const Segment s = segment_of(mix, peers, now);
    watcher.queued.reset();
    const Admission was = show(s), request = admit(wanted, s);
    if (was != request && ++wrong < 5)
      ADD_FAILURE() << where << " shows as " << name(was) << " what is to be " << name(request) << ": flags 0x"
                    << std::hex << mix.flags << (mix.payload ? " with" : " without") << " payload, "
                    << (mix.direction == Direction::egress ? "leaving" : "arriving") << " by " << name(mix.link)
                    << (mix.ip_options ? ", IP options" : "") << "; decide 0x" << interest.decide << " observe 0x"
                    << interest.observe << (interest.every_link ? " of every link" : "");
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Admission, EachMixIsOfTheKindThatItsRfcSays)
{
  for (const Mix& mix : mixes())
  {
    const Segment s = segment_of(mix, {}, {});
    EXPECT_EQ(classify(s), mix.ip_options ? traffic::none : expected_kind(mix.direction, mix.flags, mix.payload))
        << mix.flags << " " << mix.payload;
    EXPECT_EQ(classify(s) == traffic::egress_pure_ack,
              mix.direction == Direction::egress && s.is_pure_ack() && !mix.ip_options);
  }
}

TEST(Admission, TheGoldenHarnessShowsEveryMixAsTheRuleSays)
{
  for (const Interest& interest : interests())
  {
    Watcher watcher;
    watcher.wants = interest;
    Fixture fixture { { &watcher } };
    drive(interest, watcher, fixture.now(), "the harness",
          [&](const Segment& s)
          {
            const auto outcome = fixture.show(s);
            return seen(outcome ? &*outcome : nullptr, watcher);
          });
  }
}

TEST(Admission, TheSimulatorShowsEveryMixAsTheRuleSays)
{
  for (const Interest& interest : interests())
  {
    Watcher watcher;
    watcher.wants = interest;
    World world { 1 };
    ClientHost client { world, { &watcher } };
    drive(interest, watcher, world.now(), "the simulator",
          [&](const Segment& s)
          {
            const chain::Outcome outcome = client.show(s);
            return seen(&outcome, watcher);
          });
  }
}

// What a module decides about is not copied as well; what nobody wants is not looked at.
TEST(Admission, NothingIsSeenTwice)
{
  for (const Interest& interest : interests())
  {
    Wanted wanted {};
    wanted.add(interest);
    for (const Link link : { Link::wifi, Link::cell, wifi_link(1), Link::other })
    {
      EXPECT_EQ(wanted.queued_of(link) & wanted.observed_of(link), 0u);
      if (!wanted.watches(link))
      {
        EXPECT_EQ(wanted.queued_of(link) | wanted.observed_of(link), 0u);
      }
    }
  }
}

TEST(Admission, ExceptedFlowsAreUnseen)
{
  const Wanted all { .queued = traffic::egress, .observed = traffic::ingress, .any = true };
  for (const Mix& mix : mixes())
    EXPECT_EQ(admit(all, segment_of(mix, {}, {}), true), Admission::unseen);
}

} // namespace

} // namespace tandem::sim::test
