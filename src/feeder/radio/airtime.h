// What a packet costs on the air, from what a captured frame says about its PHY. Pure.
#pragma once

#include <tandem/units.h>

namespace tandem::feeder
{

// The PHY of an exchange, as far as captured frames tell.
struct PhySeen
{
  double mbps = 0;
  bool ht = false;          // also VHT and HE
  unsigned streams = 1;     // of those
  unsigned frequency = 0;   // MHz; 0 when unknown: 5 GHz is assumed
  bool qos = false;         // sent by EDCA
  double per_aggregate = 1; // frames of an A-MPDU
};

// Constants of one PHY (IEEE 802.11-2016): table 15-5 and 16-4 (DSSS, CCK), 18-5 (ERP, short slots), 17-21 (OFDM at
// 5 GHz), 19-25 (HT). AIFSN of best effort is 3 (table 9-137), of frames without QoS 2.
struct PhyTimes
{
  double slot_us = 9;
  double sifs_us = 16;
  unsigned aifsn = 2;
  unsigned cw_min = 15;
  unsigned cw_max = 1023;
  double extension_us = 0; // silence behind an OFDM frame at 2.4 GHz

  double difs_us() const { return sifs_us + aifsn * slot_us; }
  static PhyTimes of(const PhySeen& phy);
};

// MSS / MCS + K of equation 1 of Croitoru et al.: the frame, SIFS, its acknowledgement at the highest basic rate that
// is not above its own (10.7.6.5.2), and DIFS, with preambles; of aggregates the share of one packet. In microseconds.
// `packet_bytes`: network-layer length.
double exchange_us(const PhySeen& phy, unsigned packet_bytes);

// Equation 1 with what given-up packets cost: the attempt i = 0 .. R is made with probability p^i, and costs the
// exchange and a mean backoff of C * 2^i (cut at cw_max); divided by the share that arrives, 1 - p^(R+1). Within
// aggregates a failed packet waits for the next one, and the backoff is that of the aggregate. `p`: probability that
// an attempt fails, below 1; `later`: of those after the first, which rate control sends at other rates.
Duration packet_time(const PhySeen& phy, unsigned packet_bytes, double p, double later, unsigned retry_limit);

} // namespace tandem::feeder
