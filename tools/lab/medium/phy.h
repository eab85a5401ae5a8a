// The 802.11 physical layers b, g, a and n (HT20, one stream): timing, rates and error rates.
#pragma once

#include <tandem/units.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::medium
{

enum class Standard : std::uint8_t
{
  b, // DSSS / CCK, 2.4 GHz (IEEE 802.11-2016 clauses 15 and 16)
  g, // ERP-OFDM, 2.4 GHz, no b stations around (clause 18)
  a, // OFDM, 5 GHz (clause 17)
  n, // HT20, one spatial stream, 5 GHz, mixed-mode preamble (clause 19)
};

enum class Modulation : std::uint8_t
{
  dbpsk,
  dqpsk,
  cck_5_5,
  cck_11,
  bpsk,
  qpsk,
  qam16,
  qam64,
};

// Rate of the convolutional code (K = 7, generators 133 and 171 octal, punctured).
enum class Coding : std::uint8_t
{
  none,
  half,
  two_thirds,
  three_quarters,
  five_sixths,
};

struct PhyRate
{
  double mbps = 0;
  Modulation modulation = Modulation::bpsk;
  Coding coding = Coding::none;
  std::uint16_t bits_per_symbol = 0; // data bits of one OFDM symbol (N_DBPS); 0 for DSSS and CCK
  std::uint8_t mcs = 0;              // HT: the MCS index; else the position in the list
  bool ht = false;
};

// Bytes around a packet on the air.
namespace mac_bytes
{
constexpr std::uint32_t header = 24, qos = 2, llc_snap = 8, fcs = 4, ack = 14, block_ack = 32, beacon = 200, null = 28;
}

// Timing and rates of one standard. Every field may be overridden after `of()`.
struct Phy
{
  Standard standard = Standard::g;
  Duration slot {};
  Duration sifs {};
  unsigned aifsn = 2;        // DIFS = SIFS + aifsn slots; 2 is the DCF's, 3 the best-effort class of EDCA
  std::uint32_t cw_min = 15; // first contention window: backoff is uniform in 0 .. cw
  std::uint32_t cw_max = 1023;
  bool short_preamble = false;  // b only: 96 us instead of 192 us, never at 1 Mb/s
  bool short_guard = false;     // n only: 400 ns guard interval
  Duration signal_extension {}; // silence after an OFDM frame at 2.4 GHz
  std::vector<PhyRate> rates;   // for data, slowest first
  std::vector<PhyRate> basic;   // for ACKs, beacons and group-addressed frames, slowest first

  static Phy of(Standard standard, bool short_guard = false);

  Duration difs() const { return sifs + static_cast<int>(aifsn) * slot; }
  // After a frame that could not be decoded: room for the ACK that others may have sent (IEEE 802.11-2016 10.3.2.3.7).
  Duration eifs() const { return sifs + airtime(basic.front(), mac_bytes::ack) + difs(); }

  // Air time of a frame: preamble, PLCP header and `bytes` of MPDU (or A-MPDU) at `rate`.
  Duration airtime(const PhyRate& rate, std::uint32_t bytes) const;

  // Rate of the response to a frame: the highest basic rate that is not above it (10.7.6.5.2); the lowest when all are.
  const PhyRate& response_rate(const PhyRate& data) const;

  // Index of the data rate of so many Mb/s (within 0.2, so "72" means 72.2), or nothing.
  std::optional<unsigned> find_rate(double mbps) const;
  // Leaves only the basic rates of these Mb/s. Returns the first value that the standard does not have.
  std::optional<double> restrict_basic(const std::vector<double>& mbps);

  // MPDU length of a data frame that carries `bytes` of network-layer packet.
  std::uint32_t mpdu(std::uint32_t bytes) const
  {
    return bytes + mac_bytes::header + (standard == Standard::n ? mac_bytes::qos : 0) + mac_bytes::llc_snap
           + mac_bytes::fcs;
  }
};

// -ln(1 - p) where p is the probability that one bit of the frame is wrong after decoding, so that a frame of n bits
// survives with probability exp(-n * exponent). `snr_db` is over the 20 MHz (DSSS: 22 MHz) channel, additive white
// Gaussian noise.
//  OFDM and HT: uncoded bit error probability of the constellation (Proakis, Digital Communications, chapter 4), then
//  the union bound over the distance spectrum of the punctured code with hard decisions (Haccoun and Begin, IEEE Trans.
//  Commun. 37(11), 1989; used for 802.11 by Pei and Henderson, "Validation of OFDM error rate model in ns-3", 2010).
//  DSSS: Eb/N0 = SNR * 22 MHz / rate, DBPSK 0.5 exp(-Eb/N0), DQPSK Q(sqrt(1.1716 Eb/N0)). CCK: union bound over
//  codeword distances.
double error_exponent(const PhyRate& rate, double snr_db);

// Below this a receiver does not even notice the preamble. Barker's code gains 10.4 dB.
constexpr double detection_snr_db = 2.0;
constexpr double dsss_detection_snr_db = -8.4;

} // namespace tandem::medium
