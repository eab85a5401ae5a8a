// What the Wi-Fi driver says: its counters by asking again and again, changes of the association as they happen.
#pragma once

#include "src/feeder/sources/nl80211_decode.h"
#include "src/feeder/sources/nl80211_socket.h"
#include "src/feeder/sources/source.h"

#include <optional>
#include <string>
#include <vector>

namespace tandem::feeder
{

struct Nl80211Settings
{
  Duration period = std::chrono::milliseconds { 100 }; // between two readings of the counters
  Duration slow_period = std::chrono::seconds { 1 };   // between two surveys, two readings of scan results at least
  // Where the driver shall tell of a falling or rising signal, dBm. There is one such setting per interface, and
  // wpa_supplicant uses it for background scans (bgscan), so nothing is set unless asked for. Thresholds that others
  // have set are heard as well.
  std::optional<int> signal_threshold {};
  unsigned signal_hysteresis = 4; // dB
};

// Asking may wait for the kernel's rtnl lock: run it behind a thread of its own. Never triggers a scan.
class Nl80211Source final : public Source
{
public:
  explicit Nl80211Source(std::string interface, Nl80211Settings settings = {});

  std::string name() const override { return "nl80211"; }
  int fd() const override { return events_.fd(); }
  Tick due() const override;
  bool receive(Tick now, std::vector<Report>& reports) override;
  bool reopen(Tick now) override;
  std::string problem() const override { return problem_; }
  std::uint64_t skipped() const override { return skipped_; }
  Duration stale_after() const override { return 20 * settings_.period; }
  unsigned rate_limit() const override { return 500; }
  // Why the driver does not tell of thresholds although it was asked to; empty when it does, or was not asked.
  const std::string& threshold_problem() const { return threshold_problem_; }

private:
  void take_event(std::span<const std::byte> bytes, Tick now, std::vector<Report>& reports);
  void changed(WifiChange change, Tick now, std::vector<Report>& reports);
  int poll_station(Tick now, std::vector<Report>& reports);
  int ask(std::uint8_t command, Tick now, std::vector<Report>& reports, const std::optional<Mac>& of = {});
  int ask_what_it_is();
  void reconcile(const std::optional<Mac>& seen, Tick now, std::vector<Report>& reports);
  void set_threshold();
  bool ended(const std::string& what, int error);

  std::string interface_;
  Nl80211Settings settings_;
  std::uint32_t ifindex_ = 0;
  nl80211::Socket events_ {}, questions_ {};
  std::string problem_ {}, threshold_problem_ {};
  std::uint64_t skipped_ = 0;

  Tick station_due_ {}, survey_due_ {}, scan_due_ {};
  Tick list_due_ {}; // of stations, where the driver has refused one
  bool scan_wanted_ = true;
  bool surveys_ = true;  // the driver has some
  bool client_ = true;   // of an access point; a hotspot's stations are none of ours
  bool turned_ = false;  // into another kind of interface, perhaps
  bool refused_ = false; // the driver lists no stations

  bool known_ = false;       // whether ap_ says how it is
  std::optional<Mac> ap_ {}; // with which we are associated
  unsigned disagreed_ = 0;   // readings in a row that contradicted the events
};

} // namespace tandem::feeder
