// What the cellular link costs, as NetworkManager (metered) and ModemManager (roaming) know it, by D-Bus.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace tandem::links
{

class BusThread;

struct CellCost
{
  bool known = false; // whoever is there was asked and has answered, or failed to
  // Nothing: nobody who knows is there.
  std::optional<bool> metered {}; // a guess counts (NM_METERED_GUESS_YES)
  std::optional<bool> roaming {}; // of the modem that the interface belongs to; when none says so, of any modem
  bool operator==(const CellCost&) const = default;
};

// NMMetered, libnm-core/nm-dbus-interface.h 1.42.
std::optional<bool> metered(unsigned nm_metered);
// MMModem3gppRegistrationState, ModemManager-enums.h 1.20; nothing when it is registered nowhere.
std::optional<bool> roaming(unsigned mm_registration);

// Follows one interface (bus.h): both services announce changes.
class CellCostWatch
{
public:
  struct Asks
  {
    bool metered = true; // NetworkManager
    bool roaming = true; // ModemManager
  };

  // `told` is called from the thread, whenever the answer is another one.
  CellCostWatch(Asks asks, std::string interface, std::function<void(const CellCost&)> told);
  ~CellCostWatch();
  CellCostWatch(const CellCostWatch&) = delete;
  CellCostWatch& operator=(const CellCostWatch&) = delete;

  // What is known now. From any thread.
  CellCost cost() const;
  // Another interface has the role now; empty: none.
  void follow(const std::string& interface);

private:
  struct Told;
  std::unique_ptr<Told> told_; // outlives the thread
  std::unique_ptr<BusThread> thread_;
};

} // namespace tandem::links
