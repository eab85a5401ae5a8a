// The cellular modem as ModemManager knows it, by D-Bus.
#pragma once

#include "src/feeder/sources/source.h"

#include <memory>
#include <string>

namespace tandem::feeder
{

// Listens to ModemManager on the system bus (DBUS_SYSTEM_BUS_ADDRESS names another one), and asks it for all modems
// every `poll`: what does not change is not announced, and a modem that is silent must be told from one that is as it
// was. Asks modems to measure their signal (Modem.Signal.Setup) unless somebody else has; that takes a privilege, and
// without it there is only what ModemManager knows anyway.
//
// Opening the bus waits for the bus: run it behind ThreadedSource. It is closed while there is no ModemManager; it
// never starts one.
class ModemSource final : public Source
{
public:
  struct Settings
  {
    Duration poll = std::chrono::seconds { 5 };   // also the rate asked of Signal.Setup
    Duration answer = std::chrono::seconds { 3 }; // a method call that takes longer has failed
    bool measure = true;                          // ask for measurements; a mere onlooker does not
    Duration again = std::chrono::seconds { 60 }; // Setup was refused: when to ask again
  };

  ModemSource() : ModemSource { Settings {} } {}
  explicit ModemSource(Settings settings);
  ~ModemSource() override;
  ModemSource(const ModemSource&) = delete;
  ModemSource& operator=(const ModemSource&) = delete;

  std::string name() const override { return "modem"; }
  int fd() const override;
  Tick due() const override;
  // A report for each modem that has changed or was asked for. False when ModemManager or the bus has gone; the modems
  // are then told as gone.
  bool receive(Tick now, std::vector<Report>& reports) override;
  bool reopen(Tick now) override;
  // Also while it works, when a modem does not measure its signal.
  std::string problem() const override;
  // Values of an unexpected type, messages that could not be read, calls that were not answered.
  std::uint64_t skipped() const override;
  Duration stale_after() const override { return 3 * settings_.poll; }
  unsigned rate_limit() const override { return 100; }
  bool optional() const override { return true; }

private:
  struct Bus;

  Settings settings_;
  std::unique_ptr<Bus> bus_ {};
  std::string problem_ {};
  std::uint64_t skipped_ = 0; // by buses that are closed
};

} // namespace tandem::feeder
