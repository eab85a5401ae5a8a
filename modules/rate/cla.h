// CLA-MPTCP as published (Sinky, Hamdaoui and Guizani, "Proactive Multipath TCP for Seamless Handoff in Heterogeneous
// Wireless Access Networks", section IV): rates of the Wi-Fi and of the cellular subflow before and at a handoff, by
// signal strengths. The names are the paper's (table I). It changes the sender; the simulator runs it for comparison.
#pragma once

#include "modules/rate/bad_input.h"

#include <tandem/units.h>

#include <cstdint>
#include <optional>

namespace tandem::rate
{

// Table II. Rates in bits/s, signal strengths and thresholds in dB.
struct ClaParameters
{
  double C1 = 25e6;   // capacity of the Wi-Fi interface
  double C2 = 18e6;   // of the cellular one
  double R1h = 5e6;   // Wi-Fi throughput at the time of the handoff
  double R0 = 18e6;   // connection throughput threshold
  double delta0 = 20; // scan trigger
  double delta1 = 25; // pre-handoff trigger
  double delta2 = 12; // handoff trigger
};

// Throws BadInput: a capacity or R0 that is not above 0, R1h below 0 or above C1, thresholds that are not above 0, and
// an R0 that no links can carry (above C1 + C2).
void check(const ClaParameters& parameters);
// Throws BadInput where a rate of that name, bits/s, is more than the links carry together.
void check_carried(const ClaParameters& parameters, double rate, const char* name);

// What is held when the handoff comes: R0 as far as R1h + C2 carries it ("the maximum achievable throughput at the time
// of handoff").
double held_at_handoff(const ClaParameters& parameters);

struct ClaState
{
  double S1 = 0;               // signal of the current access point, dB
  std::optional<double> S2 {}; // of the candidate; none: nothing else is heard
  double R1 = 0, R2 = 0;       // measured throughput by Wi-Fi (R_1^1) and by cellular, bits/s
  double R2p = 0;              // R2 when the pre-handoff began
};

enum class ClaStage : std::uint8_t
{
  none,        // R_tot reaches R0: MPTCP as it is
  stationary,  // algorithm 1: R_tot < R0 and S1 > S2 + delta1
  pre_handoff, // algorithm 2: R_tot < R0 and S1 < S2 + delta1
};
ClaStage stage(const ClaParameters& parameters, const ClaState& state);

// R_new of each subflow, bits/s.
struct ClaRates
{
  double wifi = 0, cell = 0;
};
// Algorithm 1: Wi-Fi as it is, R2 = max(0, min(delta, C2)) with delta = R0 - R1 - R2. As printed: the R2 that is there
// counts against the new one.
ClaRates stationary(const ClaParameters& parameters, const ClaState& state);
// Algorithm 2: R1 = (C1 - R1h) / (delta1 + delta2) * (S1 - S2 - delta1) + C1 and
// R2 = (C2 - R2p) / (delta1 + delta2) * (S2 - S1 - delta2) + C2, each within 0 and its capacity: the lines are meant
// between their two points.
ClaRates pre_handoff(const ClaParameters& parameters, const ClaState& state);

// Algorithm 3, lines 2 to 6. R_1^2 = (C1 - R1h) / (delta1 + delta2) * (S2 - S1 - delta2) + C1, as printed there; the
// linear system above it in the text has another slope (0 at S1 - delta1).
double candidate_rate(const ClaParameters& parameters, const ClaState& state);
bool asks_for_access_points(const ClaParameters& parameters, const ClaState& state); // S1 < delta0 or R_tot < R0
bool hands_off(const ClaParameters& parameters, const ClaState& state); // S2 > S1 + delta2 or R_1^2 > R_1^1
// The traditional way: S1 < delta0, and S2 > S1 + delta2.
bool hands_off_traditionally(const ClaParameters& parameters, const ClaState& state);

// Lines 14 of algorithms 1 and 2: BDP_path = R_new * RTT / MSS, packets. At least 1.
double bdp_path(double rate, Duration rtt, double mss);
// Equations 1 and 2: BDP_UB = S * N, with S one packet and N the hops of both ways: N packets.
double bdp_upper_bound(unsigned forward_hops, unsigned backward_hops);
// Equation 1 itself: R_min * (sum of S / R_i forward + sum of S' / R'_i backward), bytes; rates in bits/s.
double bdp_equation_1(double forward_bytes, const double* forward, unsigned forward_hops, double backward_bytes,
                      const double* backward, unsigned backward_hops);

} // namespace tandem::rate
