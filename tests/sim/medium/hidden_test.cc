// Interferers that only the receiver hears, sequence numbers, and the truth that frame reports tell.

#include "tests/sim/medium/bench.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tandem::medium::test
{

namespace
{

struct Attempts
{
  std::uint64_t all = 0, lost = 0, first = 0, first_lost = 0, again_lost = 0, unheard = 0;

  double lost_share() const { return static_cast<double>(lost) / static_cast<double>(all); }
  double first_lost_share() const { return static_cast<double>(first_lost) / static_cast<double>(first); }
  double again_lost_share() const { return static_cast<double>(again_lost) / static_cast<double>(all - first); }
};

// A saturated downlink to the observer for so long; its attempts.
Attempts saturated(const AirConfig& config, const HiddenSettings& hidden, Duration length, Random seed = Random(7))
{
  Outbox box;
  box.want_frames = true;
  Air air(config, seed.bits(), box);
  const NodeId ap = air.add_access_point(Tick {}, 36);
  const NodeId station = air.add_station(ap);
  air.observe(station);
  air.add_background(Tick {}, station, Traffic::down, 1500, std::nullopt);
  air.set_hidden(Tick {}, station, hidden);
  Attempts found;
  for (Duration now {}; now < length; now += 100ms)
  {
    air.run_until(at(now));
    for (const FrameReport& frame : box.frames)
    {
      if (frame.transmitter != ap || frame.type != FrameType::data) continue;
      ++found.all;
      found.lost += frame.failed;
      found.unheard += !frame.heard;
      if (frame.retry)
        found.again_lost += frame.failed;
      else
      {
        ++found.first;
        found.first_lost += frame.failed;
      }
    }
    box.clear();
  }
  EXPECT_EQ(found.all, air.stats(ap).attempts);
  return found;
}

// Bursts of exponential length L and gaps of exponential length G are a Markov chain in time. A frame of length D that
// begins at a time independent of them is untouched with probability (1 - share) exp(-D / G).
TEST(HiddenTerminal, LosesTheFramesThatItsBurstsMeet)
{
  for (const double share : { 0.02, 0.1, 0.3 })
  {
    AirConfig config = quiet(Standard::a, 54);
    // One attempt each: a repeated frame would not begin at an independent time.
    config.retry_limit = 1;
    const HiddenSettings hidden { .share = share, .length = 2ms };
    const Attempts found = saturated(config, hidden, 300s);
    const double gap = 0.002 * (1 - share) / share;
    const Duration frame = config.phy.airtime(config.phy.rates[*config.rate], config.phy.mpdu(1500));
    const double expected = 1 - (1 - share) * std::exp(-seconds(frame) / gap);
    EXPECT_NEAR(found.lost_share(), expected, 0.1 * expected) << share;
    // What begins within a burst is not even noticed.
    EXPECT_NEAR(static_cast<double>(found.unheard) / static_cast<double>(found.all), share, 0.1 * share) << share;
    std::printf("hidden %.2f: %.4f of the attempts lost, geometry says %.4f\n", share, found.lost_share(), expected);
  }
}

TEST(HiddenTerminal, ShortFixedBurstsLoseByTheirLengthAndTheFrames)
{
  AirConfig config = quiet(Standard::a, 54);
  config.retry_limit = 1;
  const HiddenSettings hidden { .share = 0.05, .length = 200us, .fixed = true };
  const Attempts found = saturated(config, hidden, 60s);
  const Duration frame = config.phy.airtime(config.phy.rates[*config.rate], config.phy.mpdu(1500));
  const double expected = 1 - 0.95 * std::exp(-seconds(frame) / (200e-6 * 0.95 / 0.05));
  EXPECT_NEAR(found.lost_share(), expected, 0.03 * expected);
}

TEST(HiddenTerminal, AttemptsFailTogether)
{
  const AirConfig config = quiet(Standard::a, 54);
  const Attempts burst = saturated(config, { .share = 0.1, .length = 3ms }, 60s);
  EXPECT_GT(burst.again_lost_share(), 3 * burst.first_lost_share());
  // The same share of first attempts lost, but each on its own: the repeated ones fare no worse.
  AirConfig noisy = config;
  noisy.frame_error = burst.first_lost_share();
  const Attempts noise = saturated(noisy, {}, 60s);
  EXPECT_NEAR(noise.again_lost_share(), noise.first_lost_share(), 0.01);
}

TEST(HiddenTerminal, MeetsPartOfAnAggregate)
{
  AirConfig config;
  config.phy = Phy::of(Standard::n);
  config.rate = 7;
  config.aggregation.frames = 16;
  Outbox box;
  box.want_frames = true;
  Air air(config, 5, box);
  const NodeId ap = air.add_access_point(Tick {}, 36);
  const NodeId station = air.add_station(ap);
  air.observe(station);
  air.add_background(Tick {}, station, Traffic::down, 1500, std::nullopt);
  air.set_hidden(Tick {}, station, { .share = 0.05, .length = 300us });
  air.run_until(at(10s));
  std::map<std::uint32_t, std::pair<unsigned, unsigned>> aggregates; // frames, lost ones
  for (const FrameReport& frame : box.frames)
    if (frame.transmitter == ap && frame.aggregated)
    {
      ++aggregates[frame.aggregate].first;
      aggregates[frame.aggregate].second += frame.failed;
    }
  double all = 0, whole = 0, untouched = 0;
  for (const auto& [number, counts] : aggregates)
  {
    if (counts.first < 8) continue;
    ++all;
    whole += counts.second == counts.first;
    untouched += counts.second == 0;
  }
  ASSERT_GT(all, 1000);
  // A burst over the preamble, 5 % of the time and a little more, takes them all; another one only what it meets.
  EXPECT_NEAR(whole / all, 0.055, 0.02);
  EXPECT_GT(1 - (whole + untouched) / all, 0.15);
  EXPECT_GT(untouched / all, 0.4);
}

TEST(HiddenTerminal, EndsAndBeginsWhileTheAirIsUp)
{
  const AirConfig config = quiet(Standard::a, 54);
  Outbox box;
  Air air(config, 5, box);
  const NodeId ap = air.add_access_point(Tick {}, 36);
  const NodeId station = air.add_station(ap);
  air.add_background(Tick {}, station, Traffic::down, 1500, std::nullopt);
  air.run_until(at(1s));
  const auto attempts = [&] { return air.stats(ap).attempts - air.stats(ap).delivered; };
  EXPECT_LE(attempts(), 1u);
  air.set_hidden(at(1s), station, { .share = 0.3, .length = 5ms });
  air.run_until(at(2s));
  const auto during = attempts();
  EXPECT_GT(during, 50u);
  air.set_hidden(at(2s), station, {});
  air.run_until(at(2100ms));
  const auto after = attempts();
  air.run_until(at(4s));
  EXPECT_EQ(attempts(), after);
}

// The station hears the interferer: what it has to send waits for silence.
TEST(HiddenTerminal, TheStationDefers)
{
  const AirConfig config = quiet(Standard::a, 54);
  Outbox box;
  box.want_frames = true;
  Air air(config, 5, box);
  const NodeId ap = air.add_access_point(Tick {}, 36);
  const NodeId station = air.add_station(ap);
  air.observe(station);
  air.add_background(Tick {}, station, Traffic::up, 1500, std::nullopt);
  const HiddenSettings hidden { .share = 0.5, .length = 10ms, .fixed = true };
  air.set_hidden(Tick {}, station, hidden);
  air.run_until(at(20s));
  EXPECT_GT(air.stats(station).delivered, 10000u);
  // Acknowledgements of frames that a burst began upon are lost; the frames did arrive.
  const double again = static_cast<double>(air.stats(station).attempts - air.stats(station).delivered);
  EXPECT_LT(again / static_cast<double>(air.stats(station).attempts), 0.05);
  const AirConfig same = config;
  Air open(same, 5, box);
  const NodeId other = open.add_access_point(Tick {}, 36);
  open.add_background(Tick {}, open.add_station(other), Traffic::up, 1500, std::nullopt);
  open.run_until(at(20s));
  EXPECT_NEAR(static_cast<double>(air.stats(station).delivered) / static_cast<double>(open.stats(other + 1).delivered),
              0.5, 0.05);
}

struct Numbers
{
  bool qos = false;
};

// Every first attempt of the access point's frames, to anyone, in order.
std::vector<FrameReport> sent_by_ap(Standard standard)
{
  AirConfig config;
  config.phy = Phy::of(standard);
  config.rate = static_cast<unsigned>(config.phy.rates.size() - 1);
  config.beacon_interval = 20ms;
  config.frame_error = 0.2;
  Outbox box;
  box.want_frames = true;
  Air air(config, 9, box);
  const NodeId ap = air.add_access_point(Tick {}, 36);
  const NodeId station = air.add_station(ap);
  air.observe(station);
  air.add_background(Tick {}, air.add_station(ap), Traffic::down, 700, Rate { 3e6 });
  Feeder feeder;
  for (unsigned i = 0; i < 2000; ++i)
  {
    const Tick now = at(1ms * static_cast<int>(i));
    air.run_until(now);
    Packet packet = feeder.make(300);
    packet.group = i % 10 == 0;
    air.submit(now, packet, ap, packet.group ? nobody : station);
  }
  air.run_until(at(3s));
  std::vector<FrameReport> sent;
  for (const FrameReport& frame : box.frames)
    if (frame.transmitter == ap && frame.type != FrameType::ack && !frame.retry) sent.push_back(frame);
  return sent;
}

TEST(SequenceNumbers, NonQosFramesOfATransmitterShareOneCounter)
{
  const auto sent = sent_by_ap(Standard::a);
  std::set<NodeId> receivers;
  for (std::size_t i = 1; i < sent.size(); ++i)
  {
    // A beacon may go out between the attempts of a frame, but takes the next number.
    ASSERT_EQ(sent[i].sequence, (sent[i - 1].sequence + 1) & 0x0fff) << i;
    receivers.insert(sent[i].receiver);
  }
  EXPECT_EQ(receivers.size(), 3u); // both stations and everybody
}

TEST(SequenceNumbers, QosDataHasACounterPerReceiver)
{
  const auto sent = sent_by_ap(Standard::n);
  std::map<NodeId, std::uint16_t> next; // group-addressed frames and beacons: under `nobody`
  for (const FrameReport& frame : sent)
  {
    const auto [entry, fresh] = next.emplace(frame.receiver, frame.sequence);
    ASSERT_EQ(frame.sequence, entry->second) << frame.receiver;
    entry->second = (entry->second + 1) & 0x0fff;
  }
  EXPECT_EQ(next.size(), 3u);
}

// What the observer hears is less than what was sent, and what was sent is all there.
TEST(FrameReports, TellTheTruthAlsoOfWhatWasNotHeard)
{
  AirConfig config = quiet(Standard::a, 6);
  Outbox box;
  box.want_frames = true;
  Air air(config, 3, box);
  const NodeId ap = air.add_access_point(Tick {}, 36);
  const NodeId station = air.add_station(ap);
  air.observe(station);
  air.add_background(Tick {}, station, Traffic::down, 1500, std::nullopt);
  air.run_until(at(1s));
  air.set_signal(station, ap, config.noise_dbm + detection_snr_db - 1);
  air.run_until(at(2s));
  std::uint64_t all = 0, failed = 0, unheard = 0;
  for (const FrameReport& frame : box.frames)
    if (frame.transmitter == ap)
    {
      ++all;
      failed += frame.failed;
      unheard += !frame.heard;
    }
  EXPECT_EQ(all, air.stats(ap).attempts);
  EXPECT_GE(failed, unheard); // at that signal nothing of 1500 bytes arrives
  EXPECT_GT(unheard, 100u);
  EXPECT_EQ(all - failed, air.stats(ap).delivered);
}

} // namespace

} // namespace tandem::medium::test
