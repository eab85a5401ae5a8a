// The round-trip time that TCP sees over a card that comes and goes (Giustiniano et al., section IV-B), and the
// throughput that it allows. A packet sent at t while the station is connected has a round trip of d_i when the answer
// finds the station connected again at t + d_i (condition 1); else the access point keeps the answer until the next
// connection (condition 2).
#pragma once

#include "modules/rate/connection.h"

#include <cstdint>
#include <vector>

namespace tandem::rate
{

// As published: "the TCP ACKs arrive exponentially distributed over the duty cycle", "one TCP DATA is sent right after
// the reception of a TCP ACK", and what would leave too late is sent at the next connection. The paper prints neither
// the mean of that distribution nor how late is too late.
struct ModelSettings
{
  double mean_share =
      1; // mean of the exponential distribution, cut off at the connection's end, in lengths of the connection
  double air_time =
      0.5e-3; // s: an ACK that arrives less than this before the end has its data sent at the next connection
};

// The expected round-trip time, s: the mean of what the samples below are drawn from, in closed form. `delay` is d_i,
// s, not negative.
double expected_rtt(const Schedule& schedule, double delay, const ModelSettings& settings = {});

// The published way: round-trip times of `count` samples, s. Connections are drawn in proportion to their length.
std::vector<double> sampled_rtts(const Schedule& schedule, double delay, std::size_t count, std::uint64_t seed,
                                 const ModelSettings& settings = {});

// Ours: nothing is drawn. A window of W packets goes round: the access point sends one after the other, first in, first
// out, while the station is connected, and each comes back to it `delay` later. D_k, when packet k has been sent,
// follows from D_(k-1) and D_(k-W) + delay; the round trip is D_k - D_(k-W). The mean is over packets and over the
// windows of Reno's sawtooth, from 2/3 to 4/3 of `window`.
struct SelfClocked
{
  double window =
      22; // packets, mean: sqrt(3 / (2 p)) at p = 0.32 % (Padhye et al., SIGCOMM 1998, equation 20 with b = 1)
  double air_time = 0.5e-3; // s, of one packet with its ACK
};
double self_clocked_rtt(const Schedule& schedule, double delay, const SelfClocked& settings = {});

// Mathis et al., as the paper prints it: BW <= MSS / RTT * 1 / sqrt(p). Bytes a second; `mss` in bytes, `rtt` in s.
double mathis(double mss, double rtt, double loss);

constexpr double measured_loss = 0.0032; // "congestion signal rate" of section VI-C
constexpr double published_mss = 1448;   // bytes; the paper prints none: Linux's with timestamps

} // namespace tandem::rate
