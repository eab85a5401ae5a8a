#include "modules/rate/cla.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace tandem::rate
{
namespace
{

std::string mbps(double rate)
{
  char text[32];
  std::snprintf(text, sizeof text, "%g Mb/s", rate / 1e6);
  return text;
}

void above_zero(double value, const char* name)
{
  if (!(value > 0) || !std::isfinite(value)) throw BadInput(std::string(name) + " must be above 0");
}

// Between its two points; `lowest` and `capacity` beyond them.
double on_line(double lowest, double capacity, double span, double distance)
{
  return std::clamp((capacity - lowest) / span * distance + capacity, 0.0, capacity);
}

} // namespace

void check(const ClaParameters& p)
{
  above_zero(p.C1, "C1");
  above_zero(p.C2, "C2");
  above_zero(p.R0, "R0");
  above_zero(p.delta0, "delta0");
  above_zero(p.delta1, "delta1");
  above_zero(p.delta2, "delta2");
  if (!(p.R1h >= 0) || p.R1h > p.C1) throw BadInput("R1h must be between 0 and C1, " + mbps(p.C1));
  check_carried(p, p.R0, "R0");
}

void check_carried(const ClaParameters& p, double rate, const char* name)
{
  if (rate > p.C1 + p.C2)
    throw BadInput(std::string(name) + " is " + mbps(rate) + "; the links carry at most " + mbps(p.C1 + p.C2)
                   + " together");
}

double held_at_handoff(const ClaParameters& p)
{
  return std::min(p.R0, p.R1h + p.C2);
}

ClaStage stage(const ClaParameters& p, const ClaState& state)
{
  if (state.R1 + state.R2 >= p.R0) return ClaStage::none;
  const double other = state.S2.value_or(-std::numeric_limits<double>::infinity());
  return state.S1 > other + p.delta1 ? ClaStage::stationary : ClaStage::pre_handoff;
}

ClaRates stationary(const ClaParameters& p, const ClaState& state)
{
  const double delta = p.R0 - state.R1 - state.R2;
  return { .wifi = state.R1, .cell = std::max(0.0, std::min(delta, p.C2)) };
}

ClaRates pre_handoff(const ClaParameters& p, const ClaState& state)
{
  const double span = p.delta1 + p.delta2;
  const double s2 = state.S2.value_or(state.S1 - p.delta1);
  return { .wifi = on_line(p.R1h, p.C1, span, state.S1 - s2 - p.delta1),
           .cell = on_line(state.R2p, p.C2, span, s2 - state.S1 - p.delta2) };
}

double candidate_rate(const ClaParameters& p, const ClaState& state)
{
  if (!state.S2) return 0;
  return on_line(p.R1h, p.C1, p.delta1 + p.delta2, *state.S2 - state.S1 - p.delta2);
}

bool asks_for_access_points(const ClaParameters& p, const ClaState& state)
{
  return state.S1 < p.delta0 || state.R1 + state.R2 < p.R0;
}

bool hands_off(const ClaParameters& p, const ClaState& state)
{
  if (!state.S2 || !asks_for_access_points(p, state)) return false;
  return *state.S2 > state.S1 + p.delta2 || candidate_rate(p, state) > state.R1;
}

bool hands_off_traditionally(const ClaParameters& p, const ClaState& state)
{
  return state.S2 && state.S1<p.delta0&& * state.S2> state.S1 + p.delta2;
}

double bdp_path(double rate, Duration rtt, double mss)
{
  return std::max(1.0, rate / 8 * seconds(rtt) / mss);
}

double bdp_upper_bound(unsigned forward_hops, unsigned backward_hops)
{
  return std::max(1.0, static_cast<double>(forward_hops) + static_cast<double>(backward_hops));
}

double bdp_equation_1(double forward_bytes, const double* forward, unsigned forward_hops, double backward_bytes,
                      const double* backward, unsigned backward_hops)
{
  double least = std::numeric_limits<double>::infinity(), sum = 0;
  for (unsigned i = 0; i < forward_hops; ++i)
  {
    least = std::min(least, forward[i]);
    sum += forward_bytes / forward[i];
  }
  for (unsigned i = 0; i < backward_hops; ++i)
  {
    least = std::min(least, backward[i]);
    sum += backward_bytes / backward[i];
  }
  return sum > 0 ? least * sum : 0;
}

} // namespace tandem::rate
