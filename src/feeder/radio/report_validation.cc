#include "src/feeder/radio/report_validation.h"

#include <algorithm>
#include <chrono>

namespace tandem::feeder
{

namespace
{

using namespace std::chrono_literals;

constexpr double slowest_mbps = 1, fastest_mbps = 50'000; // 802.11 has 1 Mb/s to 46 Gb/s (EHT)
constexpr float weakest_dbm = -120, strongest_dbm = 20;
constexpr unsigned lowest_mhz = 700, highest_mhz = 72'000; // 802.11ah to 802.11ad
constexpr Duration clock_tolerance = 1s;
constexpr Duration longest_counted = 24h * 3650; // of counters since the driver was loaded: no sum overflows
// A measured signal changes within seconds, even of a laptop that lies still.
constexpr unsigned same_frames = 100;
constexpr Duration same_for = 60s;

} // namespace

template <class T>
void ReportValidation::bound(std::optional<T>& value, T least, T most, Doubt what)
{
  if (!value || (*value >= least && *value <= most)) return; // also takes out NaN
  value.reset();
  doubt(what);
}

void ReportValidation::watch_signal(float signal, Tick at)
{
  if (same_ == 0 || signal != signal_)
  {
    signal_ = signal;
    same_since_ = at;
    same_ = 0;
    constant_ = false;
  }
  ++same_;
  if (constant_ || same_ < same_frames || at - same_since_ < same_for) return;
  constant_ = true;
  doubt(Doubt::constant_signal);
}

bool ReportValidation::examine(Report& report, Tick now)
{
  bool jumped = false;
  // A scan's result is of the time when the access point was heard.
  const bool may_be_old = std::holds_alternative<Candidate>(report.what);
  if (report.at > now + clock_tolerance || (!may_be_old && report.at + clock_tolerance < last_))
  {
    doubt(Doubt::clock_jump);
    report.at = now;
    jumped = true;
  }
  report.at = std::min(report.at, now);
  last_ = jumped ? now : std::max(last_, report.at);

  if (auto* frame = std::get_if<Frame>(&report.what))
  {
    bound(frame->mbps, slowest_mbps, fastest_mbps, Doubt::impossible_rate);
    bound(frame->signal, weakest_dbm, strongest_dbm, Doubt::impossible_signal);
    bound(frame->noise, weakest_dbm, strongest_dbm, Doubt::impossible_signal);
    bound(frame->frequency, lowest_mhz, highest_mhz, Doubt::impossible_frequency);
    if (frame->signal && frame->from_ap && !frame->damaged) watch_signal(*frame->signal, report.at);
  }
  else if (auto* stats = std::get_if<StationStats>(&report.what))
  {
    bound(stats->rx_mbps, slowest_mbps, fastest_mbps, Doubt::impossible_rate);
    bound(stats->tx_mbps, slowest_mbps, fastest_mbps, Doubt::impossible_rate);
    bound(stats->signal, weakest_dbm, strongest_dbm, Doubt::impossible_signal);
    bound(stats->signal_average, weakest_dbm, strongest_dbm, Doubt::impossible_signal);
    bound(stats->inactive, Duration {}, Duration { 24h }, Doubt::impossible_time);
    bound(stats->beacon_interval, Duration { 1ms }, Duration { 70s }, Doubt::impossible_time);
    // Where nothing came, the signal is that of the frame before: cards that spare the host the beacons, at rest.
    const bool fresh = !stats->rx_packets || stats->rx_packets != packets_;
    packets_ = stats->rx_packets;
    if (stats->signal && fresh) watch_signal(*stats->signal, report.at);
  }
  else if (auto* survey = std::get_if<Survey>(&report.what))
  {
    bound(survey->noise, weakest_dbm, strongest_dbm, Doubt::impossible_signal);
    for (std::optional<Duration>* time : { &survey->active, &survey->busy, &survey->receiving, &survey->sending })
      bound(*time, Duration {}, longest_counted, Doubt::impossible_time);
  }
  else if (auto* candidate = std::get_if<Candidate>(&report.what))
  {
    bound(candidate->signal, weakest_dbm, strongest_dbm, Doubt::impossible_signal);
    bound(candidate->age, Duration {}, Duration::max(), Doubt::impossible_time);
    if (candidate->age) candidate->age = std::min(*candidate->age, longest_counted); // not: unknown, which is new
  }
  else if (auto* modem = std::get_if<ModemStats>(&report.what))
  {
    // 3GPP TS 36.133, 9.1.4 and 9.1.7; 38.133, 10.1.6: RSRP down to -156, RSRQ -43 to 20.
    bound(modem->rsrp, -160.F, 0.F, Doubt::impossible_signal);
    bound(modem->rssi, -160.F, 0.F, Doubt::impossible_signal);
    bound(modem->rsrq, -45.F, 25.F, Doubt::impossible_signal);
    bound(modem->snr, -40.F, 60.F, Doubt::impossible_signal);
    bound(modem->quality, 0.F, 1.F, Doubt::impossible_signal);
  }
  return jumped;
}

} // namespace tandem::feeder
