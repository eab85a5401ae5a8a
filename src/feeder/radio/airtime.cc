#include "src/feeder/radio/airtime.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tandem::feeder
{

namespace
{

constexpr unsigned mac_header = 24, qos_field = 2, llc_snap = 8, fcs = 4, ack_bytes = 14, block_ack_bytes = 32;
constexpr unsigned ampdu_delimiter = 4;

bool at_2_4_ghz(const PhySeen& phy)
{
  return phy.frequency > 0 && phy.frequency < 3000;
}

// DSSS and CCK have the rates 1, 2, 5.5 and 11 Mb/s, which OFDM does not.
bool is_cck(const PhySeen& phy)
{
  constexpr std::array<double, 4> rates { 1, 2, 5.5, 11 };
  return !phy.ht && std::find(rates.begin(), rates.end(), phy.mbps) != rates.end();
}

double ofdm_us(double mbps, double bytes)
{
  constexpr double preamble_us = 20, symbol_us = 4, service_and_tail = 22;
  return preamble_us + symbol_us * std::ceil((8 * bytes + service_and_tail) / (mbps * symbol_us));
}

double ht_us(const PhySeen& phy, double bytes)
{
  // Mixed format: legacy preamble and SIG 20, HT-SIG 8, HT-STF 4, one HT-LTF of 4 a stream.
  constexpr double legacy_us = 20, ht_fixed_us = 12, ltf_us = 4, symbol_us = 4, service_and_tail = 22;
  const double bits = 8 * bytes + service_and_tail;
  return legacy_us + ht_fixed_us + ltf_us * phy.streams + symbol_us * std::ceil(bits / (phy.mbps * symbol_us));
}

double cck_us(double mbps, double bytes)
{
  constexpr double long_preamble_us = 192;
  return long_preamble_us + std::ceil(8 * bytes / mbps);
}

double response_us(const PhySeen& phy, unsigned bytes)
{
  if (is_cck(phy)) return cck_us(std::min(phy.mbps, 2.0), bytes);
  constexpr std::array<double, 3> basic { 24, 12, 6 };
  double rate = basic.back();
  for (const double one : basic)
    if (one <= phy.mbps)
    {
      rate = one;
      break;
    }
  return ofdm_us(rate, bytes);
}

} // namespace

PhyTimes PhyTimes::of(const PhySeen& phy)
{
  PhyTimes out {};
  out.aifsn = phy.qos ? 3 : 2;
  if (is_cck(phy)) return { .slot_us = 20, .sifs_us = 10, .aifsn = out.aifsn, .cw_min = 31 };
  if (at_2_4_ghz(phy))
  {
    out.sifs_us = 10;
    out.extension_us = 6;
  }
  return out;
}

double exchange_us(const PhySeen& phy, unsigned packet_bytes)
{
  const PhyTimes times = PhyTimes::of(phy);
  const double mpdu = packet_bytes + mac_header + (phy.qos ? qos_field : 0) + llc_snap + fcs;
  const bool aggregated = phy.per_aggregate > 1;
  const double body = aggregated ? phy.per_aggregate * (std::ceil(mpdu / 4) * 4 + ampdu_delimiter) : mpdu;
  const double frame = phy.ht ? ht_us(phy, body) : is_cck(phy) ? cck_us(phy.mbps, body) : ofdm_us(phy.mbps, body);
  const double response = response_us(phy, aggregated ? block_ack_bytes : ack_bytes);
  const double whole = frame + times.sifs_us + response + 2 * times.extension_us + times.difs_us();
  return whole / std::max(1.0, phy.per_aggregate);
}

Duration packet_time(const PhySeen& phy, unsigned packet_bytes, double p, double later, unsigned retry_limit)
{
  const PhyTimes times = PhyTimes::of(phy);
  const double exchange = exchange_us(phy, packet_bytes);
  double sum = 0, reached = 1; // probability that the attempt is made
  if (phy.per_aggregate > 1)
    sum = (exchange + times.slot_us * times.cw_min / 2.0 / phy.per_aggregate) / (1 - p);
  else
  {
    double window = times.cw_min;
    for (unsigned i = 0; i <= retry_limit; ++i)
    {
      sum += reached * (exchange + times.slot_us * window / 2);
      reached *= i == 0 ? p : later;
      window = std::min(2 * window + 1, static_cast<double>(times.cw_max));
    }
    sum /= 1 - reached;
  }
  return Duration { static_cast<std::int64_t>(sum * 1e3) };
}

} // namespace tandem::feeder
