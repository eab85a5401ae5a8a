// What the cellular link costs and whose network it is, as NetworkManager (metered) and ModemManager (roaming,
// operator) know it, by D-Bus.
#pragma once

#include <tandem/units.h>

#include <chrono>
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

// What counts of what is said, for whoever must not spend. Pure.
//
// What is said of another interface says nothing of this one. And a service that is started anew knows nothing for a
// while: that a link costs holds on for so long after nobody says it any more, unless somebody says that it does not.
class CostThatCounts
{
public:
  static constexpr Duration holds_on = std::chrono::seconds { 15 }; // ModemManager finds a modem in about ten
  CellCost take(CellCost said, const std::string& interface, Tick now);

private:
  struct One
  {
    bool costs = false;
    std::optional<Tick> silent {}; // since when nobody says so
    void take(std::optional<bool>& said, Tick now);
  };
  std::string interface_ {};
  One metered_ {}, roaming_ {};
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
