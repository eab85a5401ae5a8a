#include "src/feeder/feeder.h"
#include "src/feeder/feeder_json.h"
#include "tests/unit/feeder/capture.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::feeder
{
namespace
{

using namespace tandem::literals;

// A source that says what the test tells it to.
class Played final : public Source
{
public:
  struct Hands // outlives the source
  {
    std::vector<Report> next {};
    bool open = true;
    std::optional<Mac> told {}, own {};
    std::vector<std::string> interfaces {};
  };
  Played(Hands& hands, std::string name, unsigned limit) : hands_ { hands }, name_ { std::move(name) }, limit_ { limit }
  {
  }

  std::string name() const override { return name_; }
  int fd() const override { return fd_; }
  bool receive(Tick, std::vector<Report>& reports) override
  {
    if (!hands_.open)
    {
      fd_ = -1;
      return false;
    }
    reports.insert(reports.end(), hands_.next.begin(), hands_.next.end());
    hands_.next.clear();
    return true;
  }
  bool reopen(Tick) override
  {
    fd_ = hands_.open ? 7 : -1;
    return hands_.open;
  }
  void set_ap(const std::optional<Mac>& ap) override { hands_.told = ap; }
  std::optional<Mac> own_address() const override { return hands_.own; }
  void set_interfaces(const std::vector<std::string>& all) override { hands_.interfaces = all; }
  std::string problem() const override { return hands_.open ? "" : "unplugged"; }
  std::uint64_t skipped() const override { return 0; }
  Duration stale_after() const override { return 1s; }
  unsigned rate_limit() const override { return limit_; }

private:
  Hands& hands_;
  std::string name_;
  unsigned limit_;
  int fd_ = -1;
};

class FeederTest : public testing::Test
{
protected:
  Played::Hands radio {}, modem {};
  std::vector<std::string> said {};
  std::vector<RadioEvent> events {};

  Feeder make(unsigned limit = 10000)
  {
    std::vector<std::unique_ptr<Source>> sources;
    sources.push_back(std::make_unique<Played>(radio, "radio", limit));
    sources.push_back(std::make_unique<Played>(modem, "modem", limit));
    return { std::move(sources), { own }, [this](bool, const std::string& words) { said.push_back(words); } };
  }
  bool was_said(const std::string& part) const
  {
    return std::any_of(said.begin(), said.end(), [&](const auto& line) { return line.find(part) != line.npos; });
  }

  // Ten seconds without a report are none too many, and nothing is waited for that has passed.
  void expect_no_silence(Feeder& feeder, Tick now)
  {
    feeder.receive(now, events);
    feeder.receive(now += 10s, events);
    EXPECT_FALSE(was_said("radio has reported nothing"));
    EXPECT_GT(feeder.due(), now);
  }
};

StationStats station(std::uint32_t packets)
{
  StationStats stats { .ap = ap };
  stats.rx_packets = stats.tx_packets = packets;
  stats.tx_retries = packets / 4;
  stats.rx_mbps = 54;
  stats.signal = -60.F;
  return stats;
}

Frame data(std::uint16_t sequence)
{
  Frame frame { .kind = Frame::Kind::data, .receiver = own, .transmitter = ap, .from_ap = true };
  frame.sequence = sequence;
  frame.mbps = 54;
  return frame;
}

TEST_F(FeederTest, what_is_stale_switches_off_what_depends_on_it)
{
  Feeder feeder = make();
  Tick now { 10s };
  for (unsigned i = 0; i < 30; ++i, now += 100ms)
  {
    radio.next.push_back({ .at = now, .what = station(20 * i) });
    feeder.receive(now, events);
  }
  ASSERT_TRUE(feeder.current());
  EXPECT_TRUE(feeder.current()->packet_time);
  EXPECT_EQ(radio.told, ap);
  feeder.receive(now + 1s, events);
  EXPECT_FALSE(feeder.current());
  EXPECT_TRUE(was_said("radio has reported nothing for 1 s"));
  EXPECT_EQ(feeder.status(now + 1s)[0].state, Feeder::State::stale);
  radio.next.push_back({ .at = now + 2s, .what = station(1000) });
  feeder.receive(now + 2s, events);
  EXPECT_TRUE(was_said("radio speaks again"));
  EXPECT_EQ(feeder.status(now + 2s)[0].state, Feeder::State::fresh);
}

TEST_F(FeederTest, of_several_channels_ours_says_how_busy_it_is)
{
  Feeder feeder = make();
  Tick now { 10s };
  for (unsigned i = 0; i < 20; ++i, now += 100ms)
  {
    Frame frame = data(static_cast<std::uint16_t>(i));
    frame.frequency = 5180;
    radio.next.push_back({ .at = now, .what = frame });
    // Nobody says which channel is in use.
    const Duration active = i * 100ms;
    radio.next.push_back({ .at = now, .what = Survey { .frequency = 5180, .active = active, .busy = active / 4 } });
    radio.next.push_back({ .at = now, .what = Survey { .frequency = 5240, .active = active, .busy = active } });
    feeder.receive(now, events);
  }
  ASSERT_TRUE(feeder.radio());
  ASSERT_TRUE(feeder.radio()->busy);
  EXPECT_NEAR(*feeder.radio()->busy, 0.25, 1e-3);
}

TEST_F(FeederTest, a_flood_is_limited_and_counted)
{
  Feeder feeder = make(100);
  Tick now { 10s };
  for (int second = 0; second < 3; ++second, now += 1s)
  {
    for (std::uint16_t i = 0; i < 1000; ++i)
      radio.next.push_back({ .at = now, .what = data(i) });
    feeder.receive(now, events);
  }
  const auto status = feeder.status(now)[0];
  EXPECT_EQ(status.reports, 300u);
  EXPECT_EQ(status.limited, 2700u);
}

TEST_F(FeederTest, a_source_that_ends_is_told_once_and_comes_back)
{
  radio.open = false;
  Feeder feeder = make();
  for (Tick now { 10s }; now < Tick { 30s }; now += 100ms)
    feeder.receive(now, events);
  EXPECT_EQ(
      std::count_if(said.begin(), said.end(), [](const auto& line) { return line.find("unplugged") != line.npos; }), 1);
  EXPECT_EQ(feeder.status(Tick { 30s })[0].state, Feeder::State::closed);
  radio.open = true;
  feeder.receive(Tick { 32s }, events);
  EXPECT_TRUE(was_said("radio is back"));
  EXPECT_EQ(feeder.descriptors().size(), 2u);
}

TEST_F(FeederTest, frames_become_events_and_estimates)
{
  Feeder feeder = make();
  Tick now { 10s };
  for (std::uint16_t i = 0; i < 400; ++i, now += 1ms)
    radio.next.push_back({ .at = now, .what = data(i) });
  feeder.receive(now, events);
  EXPECT_EQ(events.size(), 400u);
  EXPECT_TRUE(feeder.hears_frames());
  ASSERT_TRUE(feeder.current());
  EXPECT_EQ(feeder.current()->basis, Basis::frames);
  EXPECT_EQ(*feeder.current()->delivery, 1);
}

// Anybody can send us a frame in the name of an access point that nobody has associated with.
TEST_F(FeederTest, frames_do_not_say_whose_we_are_where_the_driver_does)
{
  Feeder feeder = make();
  Tick now { 10s };
  for (unsigned i = 0; i < 30; ++i, now += 100ms)
  {
    radio.next.push_back({ .at = now, .what = station(20 * i) });
    Frame forged = data(static_cast<std::uint16_t>(i));
    forged.transmitter = ap2;
    forged.signal = -90.F;
    modem.next.push_back({ .at = now, .what = forged });
    feeder.receive(now, events);
    ASSERT_EQ(feeder.ap(), ap);
    ASSERT_EQ(radio.told, ap);
  }
  ASSERT_TRUE(feeder.current());
  EXPECT_EQ(feeder.current()->signal, -60.F);
  Frame one = data(100);
  one.transmitter = ap2;
  modem.next.push_back({ .at = now + 2s, .what = one });
  feeder.receive(now + 2s, events);
  EXPECT_EQ(feeder.ap(), ap2) << "of a driver that has fallen silent nothing is known";
}

// Its beacons go on.
TEST_F(FeederTest, an_access_point_that_the_driver_has_left_is_not_ours_because_it_is_heard)
{
  Feeder feeder = make();
  const Tick now { 10s };
  radio.next = { { .at = now, .what = WifiChange { .kind = WifiChange::Kind::connected, .ap = ap } },
                 { .at = now, .what = station(1) } };
  modem.next = { { .at = now, .what = data(1) } };
  feeder.receive(now, events);
  ASSERT_EQ(feeder.ap(), ap);
  radio.next = { { .at = now + 1s, .what = WifiChange { .kind = WifiChange::Kind::disconnected, .ap = ap } } };
  feeder.receive(now + 1s, events);
  Frame beacon { .kind = Frame::Kind::beacon, .receiver = { 255, 255, 255, 255, 255, 255 }, .transmitter = ap };
  modem.next = { { .at = now + 1100ms, .what = beacon } };
  feeder.receive(now + 1100ms, events);
  EXPECT_EQ(feeder.ap(), std::nullopt);
  EXPECT_EQ(events.back().kind, RadioEventKind::other);
  modem.next = { { .at = now + 1200ms, .what = data(2) } };
  feeder.receive(now + 1200ms, events);
  EXPECT_EQ(feeder.ap(), ap) << "it has data for us again";
}

TEST_F(FeederTest, associations_become_events)
{
  Feeder feeder = make();
  using Kind = WifiChange::Kind;
  Tick now { 10s };
  for (const auto& [kind, mac] :
       { std::pair { Kind::connected, ap }, { Kind::roamed, ap2 }, { Kind::disconnected, ap2 } })
  {
    radio.next.push_back({ .at = now, .what = WifiChange { .kind = kind, .ap = mac } });
    feeder.receive(now, events);
    now += 1s;
    EXPECT_EQ(feeder.ap(), kind == Kind::disconnected ? std::nullopt : std::optional { mac });
  }
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].kind, RadioEventKind::associated);
  EXPECT_EQ(events[2].kind, RadioEventKind::disconnected);
  EXPECT_FALSE(feeder.current());
}

TEST_F(FeederTest, a_modem_that_vanishes_is_not_remembered)
{
  Feeder feeder = make();
  ModemStats lte { .modem = "/modem/0" };
  lte.rsrp = -95.F;
  modem.next.push_back({ .at = Tick { 10s }, .what = lte });
  feeder.receive(Tick { 10s }, events);
  ASSERT_EQ(modems_json(feeder).size(), 1u);
  EXPECT_EQ(modems_json(feeder)[0]["rsrp_dbm"], -95.F);
  EXPECT_FALSE(modems_json(feeder)[0].contains("rsrq_db")) << "absent, not zero";
  lte.gone = true;
  modem.next.push_back({ .at = Tick { 10s + 100ms }, .what = lte });
  feeder.receive(Tick { 10s + 100ms }, events);
  EXPECT_TRUE(feeder.modems().empty());

  lte.gone = false;
  modem.next.push_back({ .at = Tick { 11s }, .what = lte });
  feeder.receive(Tick { 11s }, events);
  EXPECT_FALSE(feeder.modems().empty());
  feeder.receive(Tick { 13s }, events);
  EXPECT_TRUE(feeder.modems().empty()) << "stale";
}

TEST_F(FeederTest, what_is_distrusted_is_told_once)
{
  Feeder feeder = make();
  for (int i = 0; i < 5; ++i)
  {
    StationStats stats = station(100);
    stats.rx_mbps = 1e9;
    radio.next.push_back({ .at = Tick { 10s } + i * 100ms, .what = stats });
    feeder.receive(Tick { 10s } + i * 100ms, events);
  }
  EXPECT_EQ(std::count_if(said.begin(), said.end(),
                          [](const auto& line) { return line.find("impossible rate") != line.npos; }),
            1);
  EXPECT_EQ(wifi_json(feeder, Tick { 11s })["sources"][0]["rejected"]["impossible rate"], 5);
}

TEST_F(FeederTest, a_driver_that_always_says_the_same_signal_is_told)
{
  Feeder feeder = make();
  Tick now { 10s };
  for (unsigned i = 0; i < 700; ++i, now += 100ms)
  {
    radio.next.push_back({ .at = now, .what = station(20 * i) });
    feeder.receive(now, events);
  }
  EXPECT_FALSE(feeder.signal_validated());
  for (const Mac& one : { ap, ap2 })
    radio.next.push_back(
        { .at = now, .what = Candidate { .ap = one, .ssid = "home", .frequency = 2437, .signal = -60.F } });
  feeder.receive(now, events);
  ASSERT_TRUE(feeder.radio());
  EXPECT_EQ(feeder.best_candidate(), -60.F);
  EXPECT_FALSE(feeder.radio()->candidate) << "nor is what the same driver says of others";
  EXPECT_TRUE(was_said("radio is not accepted: constant signal; warnings of a weak signal are off"));
  EXPECT_EQ(wifi_json(feeder, now)["signal_validated"], false);
  StationStats moved = station(20000);
  moved.signal = -61.F;
  radio.next.push_back({ .at = now, .what = moved });
  feeder.receive(now, events);
  EXPECT_TRUE(feeder.signal_validated());
}

// NetworkManager gives an interface an address for each network.
TEST_F(FeederTest, frames_are_for_us_at_the_address_that_we_have_now)
{
  Feeder feeder = make();
  radio.own = Mac { 6, 0, 0, 0, 0, 9 };
  Tick now { 10s };
  for (std::uint16_t i = 0; i < 130; ++i, now += 10ms)
  {
    Frame frame = data(i);
    frame.receiver = *radio.own;
    frame.bytes = 1500;
    radio.next.push_back({ .at = now, .what = frame });
    feeder.receive(now, events);
  }
  EXPECT_EQ(feeder.ap(), ap);
  EXPECT_EQ(events.back().kind, RadioEventKind::heard);
  ASSERT_TRUE(feeder.current());
  EXPECT_EQ(feeder.current()->basis, Basis::frames);
  ASSERT_TRUE(feeder.radio()->received);
  EXPECT_GT(*feeder.radio()->received, 0);
}

// Forged, or by another link of the same access point (802.11be): what is known of this association stays.
TEST_F(FeederTest, while_the_driver_tells_frames_of_another_are_no_association)
{
  Feeder feeder = make();
  const Tick now { 10s };
  modem.next.push_back({ .at = now, .what = station(10) });
  feeder.receive(now, events);
  Frame forged = data(1);
  forged.transmitter = ap2;
  for (const Frame& frame : { data(0), forged, data(2), forged })
    radio.next.push_back({ .at = now, .what = frame });
  feeder.receive(now, events);
  ASSERT_EQ(events.size(), 4u);
  for (const RadioEvent& event : events)
    EXPECT_EQ(event.kind, RadioEventKind::heard);
  EXPECT_EQ(feeder.ap(), ap);
}

// A driver without surveys, not associated: scan results come when somebody scans.
TEST_F(FeederTest, a_source_that_tells_only_what_happens_does_not_fall_silent)
{
  Feeder feeder = make();
  const Tick now { 10s };
  radio.next.push_back({ .at = now, .what = Candidate { .ap = ap, .ssid = "home", .frequency = 2437 } });
  expect_no_silence(feeder, now);
}

// Else whoever waits for it waits for what has passed, again and again.
TEST_F(FeederTest, a_driver_that_is_not_associated_wants_nothing)
{
  Feeder feeder = make();
  Tick now { 10s };
  radio.next.push_back({ .at = now, .what = station(10) });
  radio.next.push_back({ .at = now, .what = WifiChange { .kind = WifiChange::Kind::disconnected, .ap = ap } });
  expect_no_silence(feeder, now);
}

// A full MAC driver whose firmware began anew.
TEST_F(FeederTest, a_counter_of_failures_that_begins_anew_is_no_failure)
{
  Feeder feeder = make();
  Tick now { 10s };
  const auto failures = [&](std::uint32_t failed)
  {
    StationStats stats = station(10);
    stats.tx_failed = failed;
    radio.next.push_back({ .at = now += 100ms, .what = stats });
    events.clear();
    feeder.receive(now, events);
    return std::count_if(events.begin(), events.end(),
                         [](const RadioEvent& event) { return event.kind == RadioEventKind::failed; });
  };
  failures(UINT32_MAX - 1);
  EXPECT_EQ(failures(UINT32_MAX), 1);
  EXPECT_EQ(failures(2), 1) << "it wraps";
  EXPECT_EQ(failures(5), 1);
  EXPECT_EQ(failures(0), 0);
}

TEST_F(FeederTest, the_candidate_is_the_strongest_other_access_point_of_the_network_seen_lately)
{
  Feeder feeder = make();
  Tick now { 10s };
  std::uint32_t packets = 0;
  const auto associated = [&](Duration span)
  {
    for (const Tick end = now + span; now < end; now += 100ms)
    {
      StationStats stats = station(packets += 20);
      stats.signal = -70.F - static_cast<float>(packets % 3); // a measured one
      radio.next.push_back({ .at = now, .what = stats });
      feeder.receive(now, events);
    }
    const auto known = feeder.radio();
    EXPECT_TRUE(known);
    return known ? known->candidate : std::nullopt;
  };
  const auto scan = [&](const Mac& mac, const char* ssid, std::optional<float> dbm, Duration age = {})
  {
    radio.next.push_back(
        { .at = now, .what = Candidate { .ap = mac, .ssid = ssid, .frequency = 2437, .signal = dbm, .age = age } });
  };
  const Mac ap3 { 2, 0, 0, 0, 2, 3 };
  EXPECT_FALSE(associated(1s));
  scan(ap2, "home", -65.F);
  EXPECT_FALSE(associated(1s)) << "our own network's name is not known";
  scan(ap, "home", -50.F);
  scan(neighbour, "other", -40.F);
  scan(ap2, "home", -65.F);
  scan(ap3, "home", -80.F);
  EXPECT_EQ(associated(1s), -65.F);
  scan(ap3, "home", -55.F, 5s);
  EXPECT_EQ(associated(1s), -65.F) << "what is known of it is younger";
  const Mac ap4 { 2, 0, 0, 0, 2, 4 };
  scan(ap4, "home", -60.F, 14s);
  EXPECT_EQ(associated(500ms), -60.F);
  EXPECT_EQ(associated(2s), -65.F) << "too old";
  radio.next.push_back(
      { .at = now,
        .what =
            Candidate { .ap = neighbour, .ssid = "home", .frequency = 5180, .signal = -40.F, .associated = true } });
  EXPECT_EQ(associated(500ms), -65.F) << "another link of our own association (802.11be)";
  EXPECT_FALSE(associated(15s));
  scan(ap2, "home", std::nullopt);
  EXPECT_FALSE(associated(1s)) << "without a signal it is none";
  scan(ap, "", -50.F);
  scan(ap2, "", -60.F);
  EXPECT_FALSE(associated(1s)) << "names that are hidden may be any";
}

// An exhibition hall has more, and so has somebody who makes beacons up.
TEST_F(FeederTest, of_more_access_points_than_are_remembered_ours_and_the_strong_ones_are)
{
  Feeder feeder = make();
  Tick now { 10s };
  std::uint32_t packets = 0;
  const auto associated = [&]
  {
    for (const Tick end = now + 1s; now < end; now += 100ms)
    {
      StationStats stats = station(packets += 20);
      stats.signal = -70.F - static_cast<float>(packets % 3);
      radio.next.push_back({ .at = now, .what = stats });
      feeder.receive(now, events);
    }
    return feeder.radio() ? feeder.radio()->candidate : std::nullopt;
  };
  const auto scan = [&](const Mac& mac, const char* ssid, std::optional<float> dbm)
  { radio.next.push_back({ .at = now, .what = Candidate { .ap = mac, .ssid = ssid, .signal = dbm } }); };
  const auto crowd = [&](float dbm)
  {
    for (unsigned i = 0; i < 400; ++i)
      scan({ 2, 0, 0, 9, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i) }, "other", dbm);
  };
  crowd(-85);
  EXPECT_FALSE(associated());
  scan(ap2, "home", -65.F);
  scan(ap, "home", -90.F); // weaker than all others, and ours
  EXPECT_EQ(associated(), -65.F);
  crowd(-80);
  EXPECT_EQ(associated(), -65.F);
  EXPECT_LE(feeder.candidates().size(), 256u);
  crowd(-30);
  scan(ap, "home", -90.F);
  associated();
  EXPECT_TRUE(feeder.candidates().contains(ap));
  EXPECT_LE(feeder.candidates().size(), 256u);
}

TEST_F(FeederTest, any_bytes_may_be_in_a_name)
{
  Feeder feeder = make();
  radio.next.push_back(
      { .at = Tick { 10s }, .what = Candidate { .ap = ap, .ssid = "caf\xe9 \xff\x01\"", .frequency = 2437 } });
  feeder.receive(Tick { 10s }, events);
  EXPECT_NO_THROW(static_cast<void>(wifi_json(feeder, Tick { 10s }).dump()));
}

TEST_F(FeederTest, the_channel_of_the_access_point_before_is_not_ours)
{
  const Mac next { 2, 0, 0, 0, 7, 7 };
  const auto surveyed = [](unsigned frequency, bool in_use)
  { return Survey { .frequency = frequency, .in_use = in_use, .active = 10s, .busy = 1s }; };
  Feeder feeder = make();
  Tick now { 10s };
  radio.next = { { .at = now, .what = station(20) }, { .at = now, .what = surveyed(2412, true) } };
  feeder.receive(now, events);
  EXPECT_EQ(feeder.frequency(), 2412u);
  now += 100ms;
  StationStats elsewhere = station(40);
  elsewhere.ap = next;
  radio.next = { { .at = now, .what = elsewhere }, { .at = now, .what = surveyed(2412, false) } };
  feeder.receive(now, events);
  ASSERT_EQ(feeder.ap(), next);
  EXPECT_EQ(feeder.frequency(), 0u) << "nobody has said so";
  radio.next = { { .at = now, .what = surveyed(5180, true) } };
  feeder.receive(now, events);
  EXPECT_EQ(feeder.frequency(), 5180u);
  // Our access point goes over to another channel (CSA).
  radio.next = { { .at = now, .what = surveyed(5745, true) } };
  feeder.receive(now, events);
  EXPECT_EQ(feeder.frequency(), 5745u);
}

TEST_F(FeederTest, another_modem_closes_nothing)
{
  Feeder feeder = make();
  Tick now { 10s };
  radio.next = { { .at = now, .what = station(20) },
                 { .at = now, .what = InterfaceChange { .interface = "wlan0", .ifindex = 2, .up = true } },
                 { .at = now, .what = InterfaceChange { .interface = "wwan0", .ifindex = 3, .up = true } } };
  feeder.receive(now, events);
  feeder.set_interfaces({ "wlan0", "wwan1" });
  EXPECT_EQ(radio.interfaces, (std::vector<std::string> { "wlan0", "wwan1" }));
  EXPECT_EQ(feeder.ap(), ap) << "the radio goes on";
  EXPECT_EQ(feeder.descriptors().size(), 2u);
  EXPECT_TRUE(feeder.interfaces().contains("wlan0"));
  EXPECT_FALSE(feeder.interfaces().contains("wwan0"));
}

TEST(Feeder, a_name_of_a_network_stays_readable_in_json)
{
  EXPECT_EQ(ssid_json("\xe5\xae\xb6"), "\xe5\xae\xb6");
  EXPECT_EQ(ssid_json("caf\xe9"), "caf\xef\xbf\xbd");
  EXPECT_EQ(ssid_json("a\x1b[2J").dump(), R"("a\u001b[2J")");
}

} // namespace
} // namespace tandem::feeder
