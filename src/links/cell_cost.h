// What the cellular link costs and whose network it is, as NetworkManager (metered) and ModemManager (roaming,
// operator) know it, by D-Bus.
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
  bool known = false; // whoever is there was asked what it costs and has answered, or failed to
  // Nothing: nobody who knows is there.
  std::optional<bool> metered {}; // a guess counts (NM_METERED_GUESS_YES)
  std::optional<bool> roaming {}; // of the modem that the interface belongs to; when none says so, of any modem
  std::string interface {
  };                            // of which this is said; another one may have the role by now
  std::string operator_code {}; // where its modem is registered, operator_code() of modem_objects.h; empty: not known
  bool operator==(const CellCost&) const = default;
};

// NMMetered, libnm-core/nm-dbus-interface.h 1.42.
std::optional<bool> metered(unsigned nm_metered);

// Follows one interface (bus.h): both services announce changes.
class CellCostWatch
{
public:
  struct Asks
  {
    bool metered = true;       // NetworkManager
    bool roaming = true;       // ModemManager
    bool operator_code = true; // likewise
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
