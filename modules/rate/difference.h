// Ours, for R0: the cellular link is used while more of R0 is missing than was made up for. What is missing is an
// account in bytes, so that the share of time in which cellular is used follows from what both links bring, without a
// model of either.
#pragma once

#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::rate
{

class Difference
{
public:
  // Both literals: why() before the first look, and without data.
  explicit Difference(std::string_view begins = "rate: an MPTCP download begins",
                      std::string_view none = "rate: no MPTCP download")
      : none_ { none }, why_ { begins }
  {
  }
  struct Input
  {
    Tick now {};
    double R0 = 0;                    // bits/s, to be kept
    std::uint64_t wifi = 0, cell = 0; // bytes that came by each, ever
    bool wifi_up = true;
    // Something says that Wi-Fi carries no more: a queue, a weak signal. Without it the download may be all that the
    // server or the application wants.
    bool limited = false;
    bool leaving = false;         // a handoff is about to come
    bool paced = false;           // cellular is kept to pace(), as far as this host can do that
    std::string_view hindered {}; // why cellular may not be used; empty: it may
  };
  // Call about every 100 ms while data comes. Returns whether cellular is to be used.
  bool look(const Input& input);

  bool used() const { return used_; }
  bool needed() const { return needed_; } // Wi-Fi alone does not bring R0
  bool held() const { return held_; }
  bool idle() const { return idle_; }
  // When data last came. While Wi-Fi is down a download is not idle, however long it is silent.
  Tick moved() const { return moved_; }
  // For who can say how fast cellular is to bring it: so many bits/s while it is used, and the account seldom needs to
  // stop it. Nothing: as fast as it can.
  std::optional<double> pace() const { return pace_; }
  // What is done, or why nothing can be; a literal of this class, or Input::hindered.
  std::string_view why() const { return why_; }
  // bits/s over about the last second.
  double wifi() const { return 8 * rate(&Sample::wifi, span); }
  double cell() const { return 8 * rate(&Sample::cell, span); }

private:
  struct Sample
  {
    Tick at {};
    std::uint64_t wifi = 0, cell = 0;
  };
  static constexpr std::size_t span = 10; // looks: a second
  double rate(std::uint64_t Sample::*link, std::size_t looks, std::size_t ago = 0) const;
  double both(std::size_t looks, std::size_t ago = 0) const
  {
    return rate(&Sample::wifi, looks, ago) + rate(&Sample::cell, looks, ago);
  }
  const Sample& sample(std::size_t ago) const { return samples_[(count_ - 1 - ago) % samples_.size()]; }
  bool takes_over(const Input& input);
  void put_off_trial(const Input& input);
  void judge(const Input& input);
  void begin(const Input& input);
  bool account(const Input& input, bool ahead);
  double share(const Input& input) const;

  std::array<Sample, 32> samples_ {};
  std::size_t count_ = 0; // of samples since the download came out of a pause
  double missing_ = 0;    // bytes
  double tail_ = 0;       // bytes that come by cellular after its last use
  std::uint64_t cell_at_stop_ = 0, cell_at_begin_ = 0, wifi_at_begin_ = 0;
  Tick switched_at_ {};
  double before_ = 0; // bytes per second, ahead of the use of cellular
  bool used_ = false, needed_ = false, held_ = true, idle_ = true, judged_ = false;
  Tick began_ {};                  // needed since
  Tick used_at_ {};                // last
  Tick short_since_ = Tick::max(); // all that cellular carries is not enough
  Tick rest_until_ {};
  Duration rest_ {};
  bool rest_without_wifi_ = false;
  Tick moved_ {};        // when data last came
  bool leaving_ = false; // at the last look
  Tick ahead_until_ {};  // cellular is used for a handoff
  Tick next_ahead_ {};   // not again before
  std::optional<double> pace_ {};
  std::string_view none_, why_;
};

} // namespace tandem::rate
