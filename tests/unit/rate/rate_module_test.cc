#include "modules/rate/rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tandem::rate
{
namespace
{

using namespace tandem::literals;
using testing::HasSubstr;

class Report final : public Facts
{
public:
  void add(std::string_view key, std::string_view value) override { words[std::string { key }] = value; }
  void add(std::string_view key, double value, std::string_view) override { numbers[std::string { key }] = value; }
  std::map<std::string, std::string> words;
  std::map<std::string, double> numbers;
};

// MPTCP subflows at the module, with made-up rates.
struct Fixture
{
  struct Sub
  {
    FlowView view {};
    alignas(std::max_align_t) std::array<std::byte, sizeof(State)> state {};
    double rate = 0;               // bits/s
    double up = 0;                 // likewise, of what is sent
    double sent = 0;               // MB
    std::optional<double> pace {}; // bits/s, as last told
  };

  Fixture()
  {
    for (const Link link : { Link::wifi, Link::cell })
      links[static_cast<std::size_t>(link)] = { .present = true, .up = true, .route = true };
    module.set("promise", 1);
  }
  ~Fixture()
  {
    for (auto& sub : subs)
      module.flow_end(sub->state.data());
  }
  Sub& add(Link link, double rate)
  {
    Sub& sub = *subs.emplace_back(std::make_unique<Sub>());
    sub.view.link = link;
    sub.view.bypass = Bypass::none;
    sub.view.mptcp = true;
    sub.view.rtt_min = sub.view.rtt_smoothed = 30ms;
    sub.rate = rate;
    module.flow_begin(sub.state.data(), sub.view);
    return sub;
  }
  void run(double time)
  {
    for (int i = 0; i < time * 100; ++i)
    {
      now += 10ms;
      for (auto& sub : subs)
      {
        const bool silent = sub->view.link == Link::cell ? backup : !wifi().up;
        if (!silent) sub->view.bytes_delivered += static_cast<std::uint64_t>(sub->rate / 800);
        const double up = obeys && sub->pace ? std::min(sub->up, *sub->pace / with_headers) : sub->up;
        if (!silent && up > 0) sub->view.snd_una = sub->view.snd_una + static_cast<std::uint32_t>(up / 800);
        if (!silent) sub->sent += up / 8e8;
        tell(*sub, EventKind::segment);
      }
    }
  }
  Plan tell(Sub& sub, EventKind kind)
  {
    Segment copy {};
    copy.direction = Direction::ingress;
    copy.payload_length = 1448;
    const Event event {
      .kind = kind, .now = now, .segment = kind == EventKind::segment ? &copy : nullptr, .links = &links
    };
    const Plan plan = static_cast<Module&>(module).decide(event, sub.view, sub.state.data());
    EXPECT_TRUE(plan.edit.empty());
    if (plan.pace) sub.pace = plan.pace->rate > 0 ? std::optional { plan.pace->rate } : std::nullopt;
    for (const LinkRequest& request : plan.request)
    {
      if (request.kind == RequestKind::roam)
      {
        EXPECT_EQ(request.link, Link::wifi);
        EXPECT_TRUE(request.value == 0 || module.get("roam") != 0);
        roam = request.value != 0;
        ++roams;
        continue;
      }
      if (request.kind == RequestKind::mptcp_endpoint)
      {
        EXPECT_EQ(request.link, Link::wifi);
        EXPECT_NE(module.get("promise") == 0 && request.value == 0, true);
        wifi_endpoint = request.value != 0;
        ++endpoint_requests;
        continue;
      }
      EXPECT_EQ(request.link, Link::cell);
      EXPECT_EQ(request.kind, RequestKind::mptcp_backup);
      backup = request.value != 0;
      ++requests;
    }
    return plan;
  }
  // It was idle for long, or is to rest: to a module that is as if it was switched off, for this flow alone. Of one
  // that was closed it hears nothing.
  void end(Sub& sub, bool closed = false)
  {
    if (!closed) tell(sub, EventKind::switched_off);
    module.flow_end(sub.state.data());
    std::erase_if(subs, [&sub](const auto& one) { return one.get() == &sub; });
  }
  // All flows hear of it; one does here.
  Plan wifi_changes(bool up)
  {
    now += 1ms;
    wifi().up = up;
    return tell(*subs.back(), EventKind::link);
  }
  Report report() const
  {
    Report all;
    module.report(all);
    return all;
  }
  LinkState& wifi() { return links[static_cast<std::size_t>(Link::wifi)]; }
  LinkState& cell() { return links[static_cast<std::size_t>(Link::cell)]; }

  RatePolicy module;
  LinkStates links {};
  std::vector<std::unique_ptr<Sub>> subs;
  Tick now { 100s };
  bool backup = true, wifi_endpoint = true, roam = false;
  bool obeys = false; // the host's TCP keeps to its paces
  int requests = 0, endpoint_requests = 0, roams = 0;
};

TEST(rate_module, every_knob_is_set_and_read_and_named_by_the_paper)
{
  RatePolicy module;
  for (const Knob& knob : module.knobs())
  {
    EXPECT_EQ(module.get(knob.name), knob.initial) << knob.name;
    EXPECT_GE(knob.initial, knob.minimum);
    EXPECT_LE(knob.initial, knob.maximum);
    const double other = knob.maximum == 1 ? 1 : (knob.minimum + knob.initial) / 2;
    module.set(knob.name, other);
    EXPECT_EQ(module.get(knob.name), other) << knob.name;
    EXPECT_FALSE(knob.help.empty());
  }
  EXPECT_EQ(RatePolicy {}.get("r0"), 18e6);
  EXPECT_EQ(RatePolicy {}.get("delta1"), 25);
  EXPECT_EQ(RatePolicy {}.get("promise"), 0) << "money is spent by those who say so";
}

TEST(rate_module, knobs_that_do_not_fit_together_are_told)
{
  RatePolicy module;
  EXPECT_EQ(module.complaint(), "");
  module.set("r0", 50e6);
  EXPECT_EQ(module.complaint(), "R0 is 50 Mb/s; the links carry at most 43 Mb/s together");
  module.set("c2", 30e6);
  EXPECT_EQ(module.complaint(), "");
  module.set("r1h", 26e6);
  EXPECT_EQ(module.complaint(), "R1h must be between 0 and C1, 25 Mb/s");
  module.set("r1h", 5e6);
  module.set("r0_up", 60e6);
  EXPECT_EQ(module.complaint(), "R0 of uploads is 60 Mb/s; the links carry at most 55 Mb/s together");
  module.set("r0_up", 55e6);
  EXPECT_EQ(module.complaint(), "");
}

TEST(rate_module, sees_other_links_only_for_the_promise)
{
  RatePolicy module;
  EXPECT_FALSE(module.interest().every_link) << "so that evidence can compare it flow by flow";
  EXPECT_TRUE(module.interest().radio);
  module.set("promise", 1);
  EXPECT_TRUE(module.interest().every_link);
}

TEST(rate_module, uses_cellular_for_the_difference_and_gives_it_back)
{
  Fixture f;
  Fixture::Sub& wifi = f.add(Link::wifi, 25e6);
  f.add(Link::cell, 18e6);
  f.run(5);
  EXPECT_TRUE(f.backup);
  EXPECT_EQ(f.report().words["cellular"], "backup");
  wifi.rate = 10e6;
  f.run(3);
  const double cell = static_cast<double>(f.subs[1]->view.bytes_delivered);
  EXPECT_GT(cell, 0);
  EXPECT_EQ(f.report().words["R0 held"], "yes");
  wifi.rate = 25e6;
  f.run(5);
  EXPECT_TRUE(f.backup);
}

TEST(rate_module, uses_cellular_for_the_difference_of_uploads_if_that_is_promised)
{
  for (const double r0 : { 0.0, 4e6 })
  {
    Fixture f;
    f.module.set("r0_up", r0);
    EXPECT_EQ((f.module.interest().observe & traffic::ingress_ack) != 0, r0 > 0);
    Fixture::Sub& wifi = f.add(Link::wifi, 0);
    Fixture::Sub& cell = f.add(Link::cell, 0);
    wifi.view.snd_una = cell.view.snd_una = { 0xffff'0000 };
    wifi.up = 10e6;
    cell.up = 8e6;
    f.run(5);
    EXPECT_TRUE(f.backup);
    EXPECT_EQ(cell.sent, 0);
    wifi.up = 2e6;
    f.run(10);
    if (r0 == 0)
    {
      EXPECT_EQ(cell.sent, 0);
      EXPECT_FALSE(f.report().words.contains("R0 of uploads held"));
      continue;
    }
    EXPECT_GT(8 * cell.sent / 10, 1.2) << "2 Mb/s are missing";
    EXPECT_LT(8 * cell.sent / 10, 3.2);
    EXPECT_EQ(f.report().words["R0 of uploads held"], "yes");
    EXPECT_EQ(f.report().words["R0 held"], "nothing to hold") << "no download";
    wifi.up = 10e6;
    f.run(5);
    EXPECT_TRUE(f.backup);
  }
}

TEST(rate_module, uploads_by_cellular_go_as_fast_as_r0_takes)
{
  for (const int subflows : { 1, 3 })
  {
    Fixture f;
    f.obeys = true;
    f.module.set("r0_up", 6e6);
    Fixture::Sub& wifi = f.add(Link::wifi, 0);
    for (int i = 0; i < subflows; ++i)
      f.add(Link::cell, 0);
    for (auto& sub : f.subs)
      sub->view.snd_una = { 1000 }, sub->up = 10e6;
    const auto by_cell = [&]
    {
      double sent = 0;
      for (auto& sub : f.subs)
        sent += sub->view.link == Link::cell ? sub->sent : 0;
      return sent;
    };
    f.run(5);
    EXPECT_EQ(f.subs[1]->pace, std::nullopt);
    wifi.up = 3e6;
    f.run(1.5);
    // Its first bytes count as well.
    EXPECT_LT(by_cell(), 1) << subflows;
    f.run(3);
    const double before = by_cell();
    f.run(8);
    EXPECT_FALSE(f.backup);
    EXPECT_NEAR(8 * (by_cell() - before) / 8, 3.2, 0.2) << subflows;
    EXPECT_EQ(wifi.pace, std::nullopt);
    wifi.up = 10e6;
    f.run(3);
    EXPECT_TRUE(f.backup);
    EXPECT_EQ(f.subs[1]->pace, std::nullopt);
  }
}

// An upload of which Wi-Fi carries 3 Mb/s, and cellular the rest of what is promised.
std::pair<Fixture::Sub&, Fixture::Sub&> uploads_by_both(Fixture& f, double promised)
{
  f.obeys = true;
  f.module.set("r0_up", promised);
  Fixture::Sub& wifi = f.add(Link::wifi, 0);
  Fixture::Sub& cell = f.add(Link::cell, 0);
  wifi.view.snd_una = cell.view.snd_una = { 1000 };
  wifi.up = cell.up = 10e6;
  f.run(5);
  wifi.up = 3e6;
  f.run(5);
  return { wifi, cell };
}

TEST(rate_module, uploads_by_cellular_are_as_fast_as_they_like_once_nothing_is_promised)
{
  Fixture f;
  const auto [wifi, cell] = uploads_by_both(f, 6e6);
  ASSERT_TRUE(cell.pace);
  f.module.set("r0_up", 0);
  f.run(0.1);
  EXPECT_EQ(cell.pace, std::nullopt);
}

// What they had by cellular then is not there now.
TEST(rate_module, uploads_of_which_nothing_is_promised_any_more_keep_no_dead_wifi)
{
  Fixture f;
  const auto [wifi, cell] = uploads_by_both(f, 8e6);
  ASSERT_FALSE(f.backup);
  f.module.set("r0_up", 0);
  wifi.up = cell.up = 0;
  wifi.rate = 25e6;
  f.run(10);
  ASSERT_TRUE(f.backup);
  f.wifi_changes(false);
  EXPECT_FALSE(f.wifi_endpoint) << "cellular carries nothing yet";
}

TEST(rate_module, what_a_download_sends_is_no_upload)
{
  Fixture f;
  f.module.set("r0_up", 4e6);
  Fixture::Sub& wifi = f.add(Link::wifi, 25e6);
  Fixture::Sub& cell = f.add(Link::cell, 18e6);
  wifi.view.snd_una = cell.view.snd_una = { 1000 };
  wifi.up = 1e6;
  f.run(10);
  EXPECT_TRUE(f.backup);
  EXPECT_EQ(f.report().words["R0 of uploads held"], "nothing to hold");
}

// What came before would be a rate of many Gb/s, R0 would be held for a second or two, and nothing would be done.
TEST(rate_module, what_came_before_the_promise_is_no_rate_of_now)
{
  Fixture f;
  f.module.set("promise", 0);
  for (const Link link : { Link::wifi, Link::wifi, Link::cell })
  {
    Fixture::Sub& sub = f.add(link, 5e6);
    sub.view.bytes_delivered = 1'000'000'000;
  }
  const auto is_small = [&f]
  {
    for (int i = 0; i < 30; ++i)
    {
      f.run(0.1);
      EXPECT_LT(f.report().numbers["R1"] + f.report().numbers["R2"], 16);
    }
    EXPECT_EQ(f.report().words["R0 held"], "yes") << "with cellular";
  };
  f.run(1);
  f.module.set("promise", 1);
  f.module.set("r0", 12e6);
  is_small();
  f.module.set("promise", 0);
  for (auto& sub : f.subs)
    sub->rate = 500e6;
  f.run(10);
  for (auto& sub : f.subs)
    sub->rate = 5e6;
  f.module.set("promise", 1);
  is_small();
}

// A chat stays open for hours on a laptop whose Wi-Fi is off: ten looks a second would cost its battery.
TEST(rate_module, a_silent_download_without_wifi_is_looked_at_seldom)
{
  Fixture f;
  f.add(Link::wifi, 5e6);
  Fixture::Sub& cell = f.add(Link::cell, 5e6);
  f.run(3);
  f.wifi_changes(false);
  f.run(1);
  const auto looks = [&f, &cell](double time)
  {
    const Tick end = f.now + from_seconds(time);
    int count = 0;
    while (f.now < end)
    {
      const Plan plan = f.tell(cell, EventKind::alarm);
      count += plan.wake ? 1 : 0;
      f.now = plan.wake.value_or(f.now + 10ms);
    }
    return count;
  };
  EXPECT_NEAR(looks(5), 50, 2) << "it may go on at any time";
  looks(10);
  EXPECT_NEAR(looks(100), 50, 2);
  cell.view.bytes_delivered += 100'000;
  f.tell(cell, EventKind::segment);
  EXPECT_NEAR(looks(5), 50, 2) << "it goes on";
  looks(10);
  f.wifi().changed = f.now;
  EXPECT_NEAR(looks(5), 50, 2) << "Wi-Fi is just back and gone again";
}

TEST(rate_module, repeats_what_may_have_been_dropped)
{
  Fixture f;
  f.add(Link::wifi, 25e6);
  f.run(10);
  EXPECT_NEAR(f.requests, 5, 1);
}

TEST(rate_module, leaves_cellular_alone_where_it_must)
{
  const auto used = [](auto change)
  {
    Fixture f;
    f.add(Link::wifi, 10e6);
    f.add(Link::cell, 18e6);
    change(f);
    f.run(5);
    EXPECT_EQ(f.report().words["R0 held"], f.subs[1]->view.bytes_delivered > 0 ? "yes" : "no");
    return std::pair { f.subs[1]->view.bytes_delivered > 0, f.report().words["promise"] };
  };
  EXPECT_TRUE(used([](Fixture&) {}).first);
  const auto no_route = used([](Fixture& f) { f.cell().route = false; });
  EXPECT_FALSE(no_route.first);
  EXPECT_THAT(no_route.second, HasSubstr("must not be used"));
  const auto spent = used([](Fixture& f) { f.cell().bytes_left = 100'000; });
  EXPECT_FALSE(spent.first);
  EXPECT_THAT(spent.second, HasSubstr("budget is spent"));
  // A day's budget of which nothing is spent, on a link that brings it in a quarter of a second.
  const auto fast = used(
      [](Fixture& f)
      {
        f.module.set("c2", 300e6);
        f.cell().bytes_left = 10'000'000;
      });
  EXPECT_FALSE(fast.first);
  EXPECT_THAT(fast.second, HasSubstr("half a second at c2"));
  const auto down = used([](Fixture& f) { f.cell().up = false; });
  EXPECT_FALSE(down.first);
  const auto peer = used([](Fixture& f) { f.add(Link::wifi, 1e6).view.cell_denied = CellDenied::private_peer; });
  EXPECT_FALSE(peer.first);
  EXPECT_THAT(peer.second, HasSubstr("private peer"));
}

// While Wi-Fi is there all that is asked is asked of cellular, see tell(): `ecn` speaks for Wi-Fi links, and a link has
// one request of a kind.
TEST(rate_module, cellular_takes_over_in_the_handoff_stage_alone)
{
  const auto warned = [](auto change)
  {
    Fixture f;
    Fixture::Sub& wifi = f.add(Link::wifi, 25e6);
    f.add(Link::cell, 18e6);
    change(f);
    f.run(5);
    EXPECT_TRUE(f.backup);
    f.wifi().at_risk = true;
    f.tell(wifi, EventKind::link); // at once, not with the next look
    const bool at_once = !f.backup;
    f.run(2);
    EXPECT_EQ(at_once, f.subs[1]->view.bytes_delivered > 0);
    return std::pair { at_once, f.report().words["promise"] };
  };
  const auto taken = warned([](Fixture&) {});
  EXPECT_TRUE(taken.first);
  EXPECT_EQ(taken.second, "rate: cellular takes over at a handoff");
  EXPECT_FALSE(warned([](Fixture& f) { f.module.set("promise", 0); }).first);
  EXPECT_FALSE(warned([](Fixture& f) { f.cell().bytes_left = 100'000; }).first);
  EXPECT_FALSE(warned([](Fixture& f) { f.cell().route = false; }).first) << "roaming, metered, filtered";
  EXPECT_FALSE(warned([](Fixture& f) { f.cell().up = false; }).first);
  EXPECT_FALSE(warned([](Fixture& f) { f.add(Link::wifi, 1e6).view.cell_denied = CellDenied::private_peer; }).first);
  // Pre-handoff is none: 22 dB, and a candidate that is as good.
  Fixture f;
  f.add(Link::wifi, 25e6);
  f.add(Link::cell, 18e6);
  f.wifi().radio = RadioState { .signal = -73.F, .candidate = -73.F };
  f.run(5);
  EXPECT_EQ(f.report().words["stage"], "pre-handoff");
  EXPECT_TRUE(f.backup);
  f.wifi().radio = RadioState { .signal = -78.F, .candidate = -65.F };
  f.run(0.5);
  EXPECT_EQ(f.report().words["stage"], "handoff");
  EXPECT_FALSE(f.backup);
}

TEST(rate_module, the_endpoint_of_a_wifi_that_is_gone_is_taken_away_and_comes_back_with_it)
{
  Fixture f;
  f.add(Link::wifi, 25e6);
  f.add(Link::cell, 18e6);
  f.run(5);
  EXPECT_EQ(f.endpoint_requests, 0);
  // At once, by whichever subflow hears of it; not with the next look.
  EXPECT_EQ(f.wifi_changes(false).why, "rate: Wi-Fi is gone, cellular carries what was under way there");
  EXPECT_FALSE(f.wifi_endpoint);
  f.run(5);
  EXPECT_FALSE(f.wifi_endpoint);
  EXPECT_NEAR(f.endpoint_requests, 3, 1) << "repeated: it may have been dropped";
  f.wifi_changes(true);
  EXPECT_TRUE(f.wifi_endpoint);
  const int told = f.endpoint_requests;
  f.run(5);
  EXPECT_EQ(f.endpoint_requests, told) << "once";
}

TEST(rate_module, a_wifi_that_is_gone_keeps_its_endpoint_where_cellular_must_not_carry_it)
{
  const auto taken = [](auto change)
  {
    Fixture f;
    f.add(Link::wifi, 25e6);
    f.add(Link::cell, 18e6);
    change(f);
    f.run(5);
    f.wifi_changes(false);
    f.run(3);
    return !f.wifi_endpoint;
  };
  EXPECT_TRUE(taken([](Fixture&) {}));
  EXPECT_FALSE(taken([](Fixture& f) { f.module.set("promise", 0); }));
  EXPECT_FALSE(taken([](Fixture& f) { f.cell().bytes_left = 100'000; })) << "the budget is spent";
  EXPECT_FALSE(taken([](Fixture& f) { f.cell().bytes_left = 100'000'000'000; })) << "it could not be kept";
  EXPECT_FALSE(taken([](Fixture& f) { f.cell().route = false; })) << "roaming, metered, filtered";
  EXPECT_FALSE(taken([](Fixture& f) { f.cell().up = false; }));
  EXPECT_FALSE(taken([](Fixture& f) { f.add(Link::wifi, 1e6).view.cell_denied = CellDenied::private_peer; }));
  EXPECT_FALSE(taken([](Fixture& f) { f.module.set("r0", 60e6); })) << "knobs that do not fit together";
  EXPECT_FALSE(taken([](Fixture& f) { f.module.set("strategy", 1); })) << "as published";
}

// What stands in its queue comes before what is sent again, and is sent again itself.
TEST(rate_module, a_wifi_that_goes_while_cellular_carries_already_keeps_its_endpoint_for_a_while)
{
  Fixture f;
  f.add(Link::wifi, 10e6);
  f.add(Link::cell, 18e6);
  f.run(5);
  ASSERT_GT(f.subs[1]->view.bytes_delivered, 0U);
  f.wifi_changes(false);
  f.run(0.25);
  EXPECT_EQ(f.endpoint_requests, 0);
  f.run(0.35);
  EXPECT_FALSE(f.wifi_endpoint);
  f.wifi_changes(true);
  EXPECT_TRUE(f.wifi_endpoint);
}

// A join by a link that is down fails, and the kernel tries none again.
TEST(rate_module, what_forbids_cellular_meanwhile_gives_no_endpoint_to_a_wifi_that_is_down)
{
  Fixture f;
  f.add(Link::wifi, 25e6);
  f.add(Link::cell, 18e6);
  f.run(1);
  f.wifi_changes(false);
  ASSERT_FALSE(f.wifi_endpoint);
  f.cell().route = false;
  f.run(3);
  EXPECT_FALSE(f.wifi_endpoint);
  f.wifi_changes(true);
  EXPECT_TRUE(f.wifi_endpoint);
}

// A subflow that was made anew starts slowly.
TEST(rate_module, a_wifi_that_comes_and_goes_keeps_its_endpoint_until_it_is_gone_for_longer)
{
  Fixture f;
  f.add(Link::wifi, 25e6);
  f.add(Link::cell, 18e6);
  f.run(5);
  f.wifi_changes(false);
  f.run(0.5);
  f.wifi_changes(true);
  f.run(1);
  const int told = f.endpoint_requests;
  for (int i = 0; i < 5; ++i)
  {
    f.wifi_changes(false);
    f.run(0.2);
    f.wifi_changes(true);
    f.run(0.2);
  }
  EXPECT_EQ(f.endpoint_requests, told);
  f.run(1.5);
  f.wifi_changes(false);
  EXPECT_TRUE(f.wifi_endpoint);
  f.run(0.5);
  EXPECT_FALSE(f.wifi_endpoint);
  f.wifi_changes(true);
  f.run(6);
  f.wifi_changes(false);
  EXPECT_FALSE(f.wifi_endpoint) << "the last time was long ago";
}

TEST(rate_module, the_wifi_endpoint_comes_back_when_nothing_is_promised_any_more)
{
  Fixture f;
  f.add(Link::wifi, 25e6);
  f.add(Link::cell, 18e6);
  f.run(5);
  f.wifi_changes(false);
  ASSERT_FALSE(f.wifi_endpoint);
  f.module.set("promise", 0);
  f.tell(*f.subs.back(), EventKind::segment);
  EXPECT_TRUE(f.wifi_endpoint);
  const int told = f.endpoint_requests;
  f.run(5);
  EXPECT_EQ(f.endpoint_requests, told) << "once";
}

// What was asked of links stands as long as the module is on, whichever flows end: who asked has to take it back.
TEST(rate_module, the_wifi_endpoint_comes_back_although_an_idle_flow_ended_meanwhile)
{
  Fixture f;
  Fixture::Sub& idle = f.add(Link::wifi, 0);
  idle.view.mptcp = false;
  Fixture::Sub& wifi = f.add(Link::wifi, 25e6);
  f.add(Link::cell, 18e6);
  f.run(5);
  f.wifi_changes(false);
  ASSERT_FALSE(f.wifi_endpoint);
  f.run(3);
  f.end(wifi, true); // the kernel reset it
  f.end(idle);
  f.run(3);
  EXPECT_FALSE(f.wifi_endpoint);
  f.wifi_changes(true);
  f.run(3);
  EXPECT_TRUE(f.wifi_endpoint);
}

// A connection that is silent for minutes is forgotten, but lives on, and would have no Wi-Fi any more.
TEST(rate_module, what_was_asked_for_mptcp_flows_is_taken_back_although_none_is_left)
{
  for (const bool promise : { true, false })
  {
    Fixture f;
    Fixture::Sub& wifi = f.add(Link::wifi, 25e6);
    Fixture::Sub& cell = f.add(Link::cell, 18e6);
    Fixture::Sub& plain = f.add(Link::wifi, 0);
    plain.view.mptcp = false;
    f.run(5);
    f.now += 1ms;
    f.wifi().up = false;
    f.tell(cell, EventKind::link);
    f.run(5);
    ASSERT_FALSE(f.wifi_endpoint);
    ASSERT_FALSE(f.backup);
    f.end(wifi, true);
    cell.rate = 0;
    f.run(1);
    f.now += 100s;
    f.end(cell);
    f.module.set("promise", promise ? 1 : 0);
    EXPECT_EQ(f.tell(plain, EventKind::radio).wake, std::nullopt);
    EXPECT_FALSE(f.wifi_endpoint) << "while Wi-Fi is down";
    EXPECT_EQ(f.wifi_changes(true).wake, std::nullopt);
    EXPECT_TRUE(f.wifi_endpoint) << promise;
    EXPECT_TRUE(f.backup) << promise;
  }
}

TEST(rate_module, a_promise_is_taken_back_although_a_flow_has_just_ended)
{
  Fixture f;
  Fixture::Sub& idle = f.add(Link::wifi, 0);
  Fixture::Sub& wifi = f.add(Link::wifi, 5e6);
  f.add(Link::cell, 18e6);
  for (int i = 0; i < 30 && f.backup; ++i)
    f.run(0.1);
  ASSERT_FALSE(f.backup);
  f.end(idle);
  f.module.set("promise", 0);
  f.tell(wifi, EventKind::segment);
  EXPECT_TRUE(f.backup);
}

// What was requested lapses with the module, and nobody tells the two apart.
TEST(rate_module, all_is_asked_for_again_once_a_flow_was_told_that_it_is_switched_off)
{
  Fixture f;
  f.module.set("roam", 1);
  Fixture::Sub& wifi = f.add(Link::wifi, 5e6);
  f.add(Link::cell, 18e6);
  f.wifi().radio = RadioState { .signal = -80.F, .candidate = -65.F };
  f.run(5);
  ASSERT_TRUE(f.roam);
  ASSERT_FALSE(f.backup);
  for (auto& sub : f.subs)
    f.tell(*sub, EventKind::switched_off);
  f.roam = false;
  f.backup = true;
  f.tell(wifi, EventKind::segment);
  f.run(0.2);
  EXPECT_TRUE(f.roam);
  EXPECT_FALSE(f.backup);
}

// Of a flow whose address is gone the chain hears nothing but a time, and to that flow its link is down (Chain::links).
TEST(rate_module, what_a_flow_asks_for_whose_address_is_gone_is_asked_for_by_another_one)
{
  Fixture f;
  Fixture::Sub& wifi = f.add(Link::wifi, 25e6);
  f.add(Link::cell, 18e6);
  f.run(5);
  f.now += 1ms;
  f.wifi().up = false;
  const Event event { .kind = EventKind::link, .now = f.now, .links = &f.links };
  static_cast<void>(static_cast<Module&>(f.module).decide(event, wifi.view, wifi.state.data())); // unheard
  const int told = f.endpoint_requests;
  f.tell(*f.subs.back(), EventKind::link);
  EXPECT_FALSE(f.wifi_endpoint);
  f.tell(*f.subs.back(), EventKind::link);
  EXPECT_EQ(f.endpoint_requests, told + 1) << "once";
}

TEST(rate_module, what_is_taken_back_with_a_flow_whose_address_is_gone_is_taken_back_by_another_one)
{
  Fixture f;
  f.module.set("roam", 1);
  Fixture::Sub& wifi = f.add(Link::wifi, 5e6);
  f.add(Link::cell, 18e6);
  f.wifi().radio = RadioState { .signal = -80.F, .candidate = -65.F };
  f.run(5);
  ASSERT_TRUE(f.roam);
  ASSERT_FALSE(f.backup);
  f.module.set("roam", 0);
  f.module.set("promise", 0);
  f.wifi().up = false;
  const Event event { .kind = EventKind::link, .now = f.now, .links = &f.links };
  for (int i = 0; i < 2; ++i)
    static_cast<void>(static_cast<Module&>(f.module).decide(event, wifi.view, wifi.state.data())); // unheard
  f.wifi().up = true;
  f.run(0.1);
  EXPECT_FALSE(f.roam);
  EXPECT_TRUE(f.backup);
}

TEST(rate_module, a_promise_that_is_taken_back_by_its_knob_is_taken_back_at_the_kernel)
{
  Fixture f;
  Fixture::Sub& wifi = f.add(Link::wifi, 5e6);
  f.add(Link::cell, 18e6);
  for (int i = 0; i < 30 && f.backup; ++i)
    f.run(0.1);
  ASSERT_FALSE(f.backup);
  f.module.set("promise", 0);
  f.tell(wifi, EventKind::segment);
  EXPECT_TRUE(f.backup);
  const int requests = f.requests;
  f.run(5);
  EXPECT_EQ(f.requests, requests) << "once";
}

TEST(rate_module, the_published_share_of_time_follows_algorithm_1)
{
  Fixture f;
  f.module.set("strategy", 1);
  f.add(Link::wifi, 9e6); // R2 = R0 - R1 - R2: half of 18 Mb/s at first
  Fixture::Sub& cell = f.add(Link::cell, 18e6);
  f.run(30);
  const double rate = static_cast<double>(cell.view.bytes_delivered) * 8 / 30;
  EXPECT_GT(rate, 3e6);
  EXPECT_LT(rate, 7e6) << "the R2 that is there counts against the new one: half of what is missing";
}

// Both of algorithms 1 to 3's signals: the candidate is what a scan found for this card, or another link.
TEST(rate_module, the_candidate_is_the_best_of_scan_results_and_other_links)
{
  Fixture f;
  Fixture::Sub& sub = f.add(Link::wifi, 25e6);
  const auto stage = [&](std::optional<float> candidate, std::optional<float> other)
  {
    f.now += 2s;                                                             // a stage that is left takes one
    f.wifi().radio = RadioState { .signal = -80.F, .candidate = candidate }; // S1 = 15 dB
    LinkState& second = f.links[static_cast<std::size_t>(wifi_link(1))];
    second.radio = RadioState { .signal = other, .candidate = -40.F };
    for (int i = 0; i < 3; ++i, f.now += 1s)
      f.tell(sub, EventKind::radio);
    return f.report();
  };
  Report none = stage({}, {});
  EXPECT_EQ(none.words["stage"], "pre-handoff");
  EXPECT_EQ(none.numbers.count("S2"), 0u) << "where another card may go is of no use to this one";
  Report scanned = stage(-70.F, {});
  EXPECT_EQ(scanned.numbers["S2"], 25);
  EXPECT_EQ(scanned.words["stage"], "handoff");
  EXPECT_EQ(stage(-78.F, {}).words["stage"], "pre-handoff") << "no better by delta2 / 2";
  EXPECT_EQ(stage(-75.F, -70.F).numbers["S2"], 25);
  EXPECT_EQ(stage(-72.F, -76.F).numbers["S2"], 23);
}

TEST(rate_module, says_beforehand_what_a_handoff_leaves)
{
  Fixture f;
  f.module.set("c1", 30e6);
  f.module.set("r0", 24e6);
  EXPECT_NEAR(f.report().numbers["held at a handoff"], 23, 1e-9) << "R1h + C2";
  f.module.set("r0", 18e6);
  EXPECT_EQ(f.report().numbers.count("held at a handoff"), 0u);
}

TEST(rate_module, says_beforehand_how_long_the_budget_lasts)
{
  Fixture f;
  Fixture::Sub& sub = f.add(Link::wifi, 25e6);
  const char* lasts = "without Wi-Fi the budget lasts";
  f.tell(sub, EventKind::link);
  EXPECT_EQ(f.report().numbers.count(lasts), 0u) << "no limit";
  f.cell().bytes_left = 9'000'000;
  f.tell(sub, EventKind::link);
  EXPECT_NEAR(f.report().numbers[lasts], 4, 1e-9) << "9 MB at 18 Mb/s";
}

// S1 and S2 over -95 dBm.
void hear(Fixture& f, std::optional<float> signal, std::optional<float> candidate)
{
  f.wifi().radio = RadioState { .signal = signal, .candidate = candidate };
}

TEST(rate_module, asks_for_a_roam_only_when_it_is_switched_on_and_to_what_is_heard)
{
  const auto asked = [](bool on, std::optional<float> signal, std::optional<float> candidate, bool at_risk = false)
  {
    Fixture f;
    f.module.set("roam", on ? 1 : 0);
    f.add(Link::wifi, 25e6);
    hear(f, signal, candidate);
    f.wifi().at_risk = at_risk;
    f.run(5);
    EXPECT_EQ(f.roams > 0, f.roam) << "what was never asked need not be taken back";
    return f.roam;
  };
  EXPECT_EQ(RatePolicy {}.get("roam"), 0) << "the card is moved for those who say so";
  EXPECT_TRUE(asked(true, -80, -65));
  EXPECT_FALSE(asked(false, -80, -65));
  EXPECT_FALSE(asked(true, -70, -50)) << "25 dB: pre-handoff";
  EXPECT_FALSE(asked(true, -80, -75)) << "5 dB better";
  EXPECT_FALSE(asked(true, -90, std::nullopt)) << "the stage assumes a candidate";
  EXPECT_FALSE(asked(true, std::nullopt, -50));
  EXPECT_TRUE(asked(true, -70, -50, true)) << "a blackout is foreseen";
  EXPECT_FALSE(asked(true, -70, -68, true));
}

TEST(rate_module, another_cards_access_point_is_no_candidate)
{
  Fixture f;
  f.module.set("roam", 1);
  f.add(Link::wifi, 25e6);
  hear(f, -80, std::nullopt);
  f.links[static_cast<std::size_t>(wifi_link(1))].radio = RadioState { .signal = -40 };
  f.run(2);
  EXPECT_EQ(f.report().words["stage"], "handoff");
  EXPECT_FALSE(f.roam);
  EXPECT_THAT(f.report().words["roam"], HasSubstr("no other access point of this network"));
}

TEST(rate_module, a_roam_is_asked_for_beside_the_promise_and_taken_back)
{
  Fixture f;
  f.module.set("roam", 1);
  f.add(Link::wifi, 25e6);
  f.add(Link::cell, 18e6);
  hear(f, -80, -65);
  f.run(3);
  EXPECT_TRUE(f.roam);
  EXPECT_FALSE(f.backup) << "cellular takes over";
  EXPECT_EQ(f.report().words["roam"], "asked for");
  hear(f, -65, -80); // there
  f.run(1);
  EXPECT_FALSE(f.roam);
  hear(f, -80, -65);
  f.run(1);
  EXPECT_TRUE(f.roam);
  f.module.set("roam", 0);
  f.run(1);
  EXPECT_FALSE(f.roam);
}

TEST(rate_module, a_roam_is_taken_back_although_an_idle_flow_ended_meanwhile)
{
  Fixture f;
  f.module.set("roam", 1);
  Fixture::Sub& idle = f.add(Link::wifi, 0);
  f.add(Link::wifi, 25e6);
  hear(f, -80, -65);
  f.run(3);
  ASSERT_TRUE(f.roam);
  f.end(idle);
  f.module.set("roam", 0);
  f.run(3);
  EXPECT_FALSE(f.roam);
}

} // namespace
} // namespace tandem::rate
