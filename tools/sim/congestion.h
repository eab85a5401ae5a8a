// Congestion control as Linux and the RFCs have it: what happens to the window of one subflow.
#pragma once

#include <tandem/units.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace tandem::sim
{

enum class Algorithm : std::uint8_t
{
  reno,  // RFC 5681 with appropriate byte counting, as Linux's "reno"
  cubic, // RFC 9438 as Linux has it, with HyStart
  lia,   // RFC 6356, coupled over the subflows of a connection
  olia,  // Khalili et al., "MPTCP is not Pareto-optimal", CoNEXT 2012; draft-khalili-mptcp-congestion-control-05
};

constexpr std::string_view name(Algorithm algorithm)
{
  constexpr std::string_view names[] = { "reno", "cubic", "lia", "olia" };
  return names[static_cast<std::size_t>(algorithm)];
}

// The state of a subflow's sender that a congestion control reads and changes. Windows in segments.
struct Window
{
  double cwnd = 10; // RFC 6928
  double ssthresh = 1e9;
  Duration rtt {};             // smoothed; zero until measured
  Duration rtt_min {};         // over the whole flow; zero until measured
  std::uint64_t acked = 0;     // next segment that the receiver has not acknowledged
  std::uint64_t sent = 0;      // next segment to be sent for the first time
  std::uint64_t delivered = 0; // segments acknowledged or selectively acknowledged, in all
  bool established = false;
  // Segments between the last losses (OLIA): since the last one, and between the last two.
  std::uint64_t at_last_loss = 0;
  std::uint64_t between_losses = 0;

  bool slow_start() const { return cwnd < ssthresh; }
  std::uint64_t since_last_loss() const { return delivered - at_last_loss; }
};

class Congestion
{
public:
  virtual ~Congestion() = default;
  // `acked` segments were acknowledged outside of recovery by a sender that used its window.
  virtual void increase(double acked, Tick now) = 0;
  // The slow-start threshold after a loss or an ECE; called once for each reduction.
  virtual double reduce() = 0;
  // Every acknowledgement with a new sample, before increase().
  virtual void sample(Duration rtt, Tick now) { static_cast<void>(rtt), static_cast<void>(now); }
  virtual void timed_out() {}
  virtual void undo() {}
};

// The subflows that a coupled control looks at; plain TCP has one.
using Group = std::vector<const Window*>;

// `window` and `group` must outlive what is returned.
std::unique_ptr<Congestion> make_congestion(Algorithm algorithm, Window& window, const Group& group);

// RFC 6356 equation 2, with windows in segments and round-trip times in seconds.
double lia_alpha(const Group& group);

// OLIA's alpha of one subflow of the group (section 4 of the paper): moves window from those with the largest window to
// the best ones with a smaller window.
double olia_alpha(const Group& group, const Window& window);

} // namespace tandem::sim
