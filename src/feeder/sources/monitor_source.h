// Captured frames of a monitor interface (libpcap, link type radiotap): its own one, which it makes, or a given one.
#pragma once

#include "src/feeder/sources/source.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

struct pcap;

namespace tandem::feeder
{

// A name of ours for a monitor interface, which nobody else in this process has as long as it lives: each Wi-Fi link
// has a source of its own.
class MonitorName
{
public:
  static constexpr const char* prefix = "tandem-mon"; // a number follows

  MonitorName();
  ~MonitorName();
  MonitorName(const MonitorName&) = delete;
  MonitorName& operator=(const MonitorName&) = delete;
  const std::string& text() const { return text_; }

private:
  std::string text_ {};
};

// A monitor interface beside a Wi-Fi interface, which goes with this object. One of our name that a killed run left
// behind is replaced; another one is never touched.
class MonitorInterface
{
public:
  MonitorInterface() = default;
  ~MonitorInterface() { remove(); }
  MonitorInterface(const MonitorInterface&) = delete;
  MonitorInterface& operator=(const MonitorInterface&) = delete;

  // Makes it on the radio of `wifi` and brings it up. False: problem() says why.
  bool make(const std::string& wifi);
  void remove();
  std::string name() const { return name_ ? name_->text() : std::string {}; } // empty: it has not been made
  const std::string& problem() const { return problem_; }
  // What it lacks: "damaged frames are not delivered: ..."; empty when nothing is known to.
  const std::string& note() const { return note_; }

private:
  bool fails(const std::string& what, int error);

  bool made_ = false;
  std::optional<MonitorName> name_ {};
  std::string problem_ {}, note_ {};
};

// Removes the monitor interfaces of our names that a killed run left behind, and that none here would replace: this run
// may have fewer Wi-Fi links, or no such source. Never throws; what cannot be removed stays.
void remove_left_monitors();

// Whether there is such an interface, and it is up.
bool interface_is_up(const std::string& name);

// Which frames are worth the way out of the kernel, in libpcap's language: those to and from our own interfaces, those
// that the access point sends, and acknowledgements that it gets. Damaged ones pass as well. Pure.
std::string monitor_filter(const std::vector<Mac>& own, const std::optional<Mac>& ap);

class MonitorSource final : public Source
{
public:
  // `wifi`: the interface whose traffic is of interest. `monitor`: which interface to listen on; empty: our own one.
  // `own`: more addresses of ours than that of `wifi`.
  explicit MonitorSource(std::string wifi, std::string monitor = {}, std::vector<Mac> own = {});
  ~MonitorSource() override;
  MonitorSource(const MonitorSource&) = delete;
  MonitorSource& operator=(const MonitorSource&) = delete;

  // Our access point is another one now, or there is none. Reads the address of our interface anew, too: it may change
  // with every association.
  void set_ap(const std::optional<Mac>& ap) override;

  std::optional<Mac> own_address() const override { return own_; }

  std::string name() const override { return monitor_.empty() ? "monitor" : "monitor:" + monitor_; }
  int fd() const override { return fd_; }
  Tick due() const override { return pcap_ ? look_due_ : Tick::max(); }
  bool receive(Tick now, std::vector<Report>& reports) override;
  bool reopen(Tick now) override;
  std::string problem() const override { return problem_; }
  // Frames that could not be read, and those that the kernel dropped because nobody fetched them.
  std::uint64_t skipped() const override { return skipped_ + dropped_; }
  Duration stale_after() const override { return std::chrono::seconds { 5 }; }
  unsigned rate_limit() const override { return 20'000; }
  const std::string& note() const { return interface_.note(); }

private:
  struct ClosePcap
  {
    void operator()(pcap* handle) const noexcept;
  };

  bool ended(std::string why);
  void close();
  bool apply_filter();
  bool look(Tick now);
  void take(std::int64_t time_ns, std::span<const std::byte> record, std::uint32_t length, Tick now,
            std::vector<Report>& reports);

  std::string wifi_, monitor_, device_;
  std::vector<Mac> more_own_;
  std::optional<Mac> ap_ {}, own_ {};
  MonitorInterface interface_ {};
  std::unique_ptr<pcap, ClosePcap> pcap_ {};
  int fd_ = -1;
  std::string filter_ {};
  std::string problem_ {};
  std::uint64_t skipped_ = 0, dropped_ = 0, dropped_before_ = 0;
  Tick look_due_ {};
  Duration offset_ {}; // from our clock to the capture's
  bool offset_known_ = false;
};

} // namespace tandem::feeder
