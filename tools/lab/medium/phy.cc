#include "tools/lab/medium/phy.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace tandem::medium
{

namespace
{

std::vector<PhyRate> dsss_rates()
{
  return { { 1, Modulation::dbpsk, Coding::none, 0, 0, false },
           { 2, Modulation::dqpsk, Coding::none, 0, 1, false },
           { 5.5, Modulation::cck_5_5, Coding::none, 0, 2, false },
           { 11, Modulation::cck_11, Coding::none, 0, 3, false } };
}

std::vector<PhyRate> ofdm_rates()
{
  return { { 6, Modulation::bpsk, Coding::half, 24, 0, false },
           { 9, Modulation::bpsk, Coding::three_quarters, 36, 1, false },
           { 12, Modulation::qpsk, Coding::half, 48, 2, false },
           { 18, Modulation::qpsk, Coding::three_quarters, 72, 3, false },
           { 24, Modulation::qam16, Coding::half, 96, 4, false },
           { 36, Modulation::qam16, Coding::three_quarters, 144, 5, false },
           { 48, Modulation::qam64, Coding::two_thirds, 192, 6, false },
           { 54, Modulation::qam64, Coding::three_quarters, 216, 7, false } };
}

// MCS 0 to 7 at 20 MHz. A symbol takes 4 us, with the short guard interval 3.6 us.
std::vector<PhyRate> ht_rates(bool short_guard)
{
  std::vector<PhyRate> rates { { 0, Modulation::bpsk, Coding::half, 26, 0, true },
                               { 0, Modulation::qpsk, Coding::half, 52, 1, true },
                               { 0, Modulation::qpsk, Coding::three_quarters, 78, 2, true },
                               { 0, Modulation::qam16, Coding::half, 104, 3, true },
                               { 0, Modulation::qam16, Coding::three_quarters, 156, 4, true },
                               { 0, Modulation::qam64, Coding::two_thirds, 208, 5, true },
                               { 0, Modulation::qam64, Coding::three_quarters, 234, 6, true },
                               { 0, Modulation::qam64, Coding::five_sixths, 260, 7, true } };
  for (auto& rate : rates)
    rate.mbps = rate.bits_per_symbol / (short_guard ? 3.6 : 4.0);
  return rates;
}

double tail(double x)
{
  return 0.5 * std::erfc(x / std::sqrt(2.0));
}

// Distance spectrum of the code: error weights from the free distance on.
struct Spectrum
{
  int free_distance;
  int step;       // the rate 1/2 code has even distances only
  double per_bit; // 1 / (2 k) with k information bits per puncturing period
  std::span<const double> weights;
};

constexpr double weights_half[] = { 36, 211, 1404, 11633, 77433, 502690, 3322763, 21292910, 134365911 };
constexpr double weights_two_thirds[] = { 3, 70, 285, 1276, 6160, 27128, 117019, 498860, 2103891, 8784123 };
constexpr double weights_three_quarters[] = { 42,     201,     1492,     10469,    62935,
                                              379644, 2253373, 13073811, 75152755, 428005675 };
constexpr double weights_five_sixths[] = { 92,      528,      8694,      79453,      792114,
                                           7375573, 67884974, 610875423, 5427275376, 47664215639 };

Spectrum spectrum(Coding coding)
{
  switch (coding)
  {
  case Coding::two_thirds:
    return { 6, 1, 1.0 / 4, weights_two_thirds };
  case Coding::three_quarters:
    return { 5, 1, 1.0 / 6, weights_three_quarters };
  case Coding::five_sixths:
    return { 4, 1, 1.0 / 10, weights_five_sixths };
  case Coding::none:
  case Coding::half:
    break;
  }
  return { 10, 2, 1.0 / 2, weights_half };
}

double coded_bit_error(Coding coding, double raw)
{
  const Spectrum s = spectrum(coding);
  const double d = std::sqrt(4 * raw * (1 - raw));
  const double factor = s.step == 2 ? d * d : d;
  double power = std::pow(d, s.free_distance);
  double sum = 0;
  for (double weight : s.weights)
  {
    sum += weight * power;
    power *= factor;
  }
  return std::min(0.5, s.per_bit * sum);
}

double bit_error(const PhyRate& rate, double snr)
{
  switch (rate.modulation)
  {
  case Modulation::dbpsk:
    return 0.5 * std::exp(-snr * 22);
  case Modulation::dqpsk:
    return tail(std::sqrt(1.1716 * snr * 11));
  case Modulation::cck_5_5:
  {
    const double symbol = 14 * tail(std::sqrt(8 * snr)) + tail(std::sqrt(16 * snr));
    return std::min(0.5, symbol * 8 / 15);
  }
  case Modulation::cck_11:
  {
    const double symbol = 24 * tail(std::sqrt(4 * snr)) + 16 * tail(std::sqrt(6 * snr)) + 174 * tail(std::sqrt(8 * snr))
                          + 16 * tail(std::sqrt(10 * snr)) + 24 * tail(std::sqrt(12 * snr)) + tail(std::sqrt(16 * snr));
    return std::min(0.5, symbol * 128 / 255);
  }
  case Modulation::bpsk:
    return coded_bit_error(rate.coding, tail(std::sqrt(2 * snr)));
  case Modulation::qpsk:
    return coded_bit_error(rate.coding, tail(std::sqrt(snr)));
  case Modulation::qam16:
    return coded_bit_error(rate.coding, 0.75 * tail(std::sqrt(snr / 5)));
  case Modulation::qam64:
    return coded_bit_error(rate.coding, 7.0 / 12 * tail(std::sqrt(snr / 21)));
  }
  return 0.5;
}

} // namespace

double error_exponent(const PhyRate& rate, double snr_db)
{
  const double p = bit_error(rate, std::pow(10.0, snr_db / 10));
  return -std::log1p(-p);
}

Phy Phy::of(Standard standard, bool short_guard)
{
  using std::chrono::microseconds;
  Phy phy;
  phy.standard = standard;
  switch (standard)
  {
  case Standard::b:
    phy.slot = microseconds { 20 };
    phy.sifs = microseconds { 10 };
    phy.cw_min = 31;
    phy.rates = dsss_rates();
    phy.basic = dsss_rates();
    phy.basic.resize(2);
    return phy;
  case Standard::g:
    phy.slot = microseconds { 9 };
    phy.sifs = microseconds { 10 };
    phy.signal_extension = microseconds { 6 };
    phy.rates = ofdm_rates();
    break;
  case Standard::a:
    phy.slot = microseconds { 9 };
    phy.sifs = microseconds { 16 };
    phy.rates = ofdm_rates();
    break;
  case Standard::n:
    phy.slot = microseconds { 9 };
    phy.sifs = microseconds { 16 };
    phy.aifsn = 3;
    phy.short_guard = short_guard;
    phy.rates = ht_rates(short_guard);
    break;
  }
  phy.basic = ofdm_rates();
  phy.restrict_basic({ 6, 12, 24 });
  return phy;
}

Duration Phy::airtime(const PhyRate& rate, std::uint32_t bytes) const
{
  using std::chrono::microseconds;
  using std::chrono::nanoseconds;
  const std::int64_t bits = static_cast<std::int64_t>(bytes) * 8;
  if (rate.bits_per_symbol == 0)
  {
    const bool short_plcp = short_preamble && rate.mbps > 1;
    // The length field counts microseconds, rounded up.
    const auto payload = static_cast<std::int64_t>(std::ceil(static_cast<double>(bits) / rate.mbps));
    return microseconds { (short_plcp ? 96 : 192) + payload };
  }
  // 16 service bits before and 6 tail bits behind the payload.
  const std::int64_t symbols = (bits + 22 + rate.bits_per_symbol - 1) / rate.bits_per_symbol;
  if (rate.ht)
  {
    // L-STF 8, L-LTF 8, L-SIG 4, HT-SIG 8, HT-STF 4, one HT-LTF 4.
    const nanoseconds payload { symbols * (short_guard ? 3600 : 4000) };
    // With the short guard interval the frame ends on a 4 us boundary (19.3.9.4.1).
    const auto rounded = (payload + microseconds { 4 } - nanoseconds { 1 }) / microseconds { 4 } * microseconds { 4 };
    return microseconds { 36 } + rounded + signal_extension;
  }
  return microseconds { 20 + 4 * symbols } + signal_extension;
}

const PhyRate& Phy::response_rate(const PhyRate& data) const
{
  const PhyRate* best = &basic.front();
  for (const auto& rate : basic)
    if (rate.mbps <= data.mbps) best = &rate;
  return *best;
}

std::optional<unsigned> Phy::find_rate(double mbps) const
{
  for (unsigned i = 0; i < rates.size(); ++i)
    if (std::abs(rates[i].mbps - mbps) <= 0.25) return i;
  return std::nullopt;
}

std::optional<double> Phy::restrict_basic(const std::vector<double>& mbps)
{
  const auto all = standard == Standard::b ? dsss_rates() : ofdm_rates();
  std::vector<PhyRate> chosen;
  for (double wanted : mbps)
  {
    const auto it =
        std::find_if(all.begin(), all.end(), [&](const PhyRate& r) { return std::abs(r.mbps - wanted) < 0.01; });
    if (it == all.end()) return wanted;
    chosen.push_back(*it);
  }
  std::sort(chosen.begin(), chosen.end(), [](const PhyRate& a, const PhyRate& b) { return a.mbps < b.mbps; });
  if (!chosen.empty()) basic = std::move(chosen);
  return std::nullopt;
}

} // namespace tandem::medium
