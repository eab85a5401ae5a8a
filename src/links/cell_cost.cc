#include "src/links/cell_cost.h"

#include "src/kernel/clock.h"
#include "src/links/bus.h"
#include "src/links/modem_objects.h"

#include <mutex>
#include <utility>

namespace tandem::links
{

namespace
{

class CostBus final : public Bus
{
public:
  CostBus(CellCostWatch::Asks asks, std::string interface) : Bus { std::move(interface) }, asks_ { asks }
  {
    nm_.name = network_manager, nm_.asked = asks.metered;
    mm_.name = modem_manager, mm_.asked = asks.roaming || asks.operator_code;
    if (nm_.asked)
    {
      find(nm_, changed_rule(network_manager, network_manager_device));
      watch(nm_, "type='signal',sender='" + network_manager + "',interface='" + network_manager
                     + "',path='/org/freedesktop/NetworkManager'");
    }
    if (mm_.asked)
    {
      find(mm_, changed_rule(modem_manager, gpp_interface));
      watch(mm_, "type='signal',sender='" + modem_manager
                     + "',interface='org.freedesktop.DBus.ObjectManager',path='/org/freedesktop/ModemManager1'");
    }
  }

  CellCost cost() const
  {
    // Nothing waits for the operator's name.
    const bool known = nm_.settled() && (!asks_.roaming || mm_.settled());
    return { known, metered_, roaming_, interface(), operator_ };
  }

private:
  void forget(BusService& service) override
  {
    (&service == &nm_ ? metered_ : roaming_).reset();
    if (&service == &mm_) operator_.clear();
  }

  void ask(BusService& service) override
  {
    if (&service == &nm_)
      ask_device(nm_,
                 [this](const Properties* device)
                 {
                   // It does not know the interface: then it cannot know what that costs.
                   if (device == nullptr) return metered_.reset();
                   if (const auto state = whole(*device, "Metered")) metered_ = metered(*state);
                 });
    else
      ask_modems();
  }

  void ask_modems()
  {
    mm_.proxy = kernel::message_bus::proxy_of(connection(), mm_.owner, "/org/freedesktop/ModemManager1");
    mm_.proxy->callMethodAsync("GetManagedObjects")
        .onInterface("org.freedesktop.DBus.ObjectManager")
        .withTimeout(bus_answer)
        .uponReplyInvoke(
            [this](kernel::message_bus::CallError error, const ModemObjects& objects)
            {
              if (error) return mm_.failed(kernel::now());
              if (asks_.roaming) roaming_ = roaming_of(objects, interface());
              if (asks_.operator_code) operator_ = operator_of(objects, interface());
              mm_.done();
            });
  }

  BusService nm_ {}, mm_ {};
  CellCostWatch::Asks asks_;
  std::optional<bool> metered_ {}, roaming_ {};
  std::string operator_ {};
};

} // namespace

std::optional<bool> metered(unsigned nm_metered)
{
  // NM_METERED_YES 1, NO 2, GUESS_YES 3, GUESS_NO 4.
  if (nm_metered == 1 || nm_metered == 3) return true;
  if (nm_metered == 2 || nm_metered == 4) return false;
  return {};
}

void CostThatCounts::One::take(std::optional<bool>& said, Tick now)
{
  if (said)
  {
    costs = *said;
    silent.reset();
  }
  if (said || !costs) return;
  if (!silent) silent = now;
  costs = now - *silent < holds_on;
  if (costs) said = true;
}

CellCost CostThatCounts::take(CellCost said, const std::string& interface, Tick now)
{
  if (std::exchange(interface_, interface) != interface) metered_ = roaming_ = {};
  // Without a bus nobody is asked of any interface.
  if (said.interface != interface && !said.interface.empty()) return { .interface = interface };
  metered_.take(said.metered, now);
  roaming_.take(said.roaming, now);
  return said;
}

struct CellCostWatch::Told
{
  mutable std::mutex mutex {};
  CellCost last {};
};

CellCostWatch::CellCostWatch(Asks asks, std::string interface, std::function<void(const CellCost&)> told)
    : told_ { std::make_unique<Told>() }, thread_ {
        std::make_unique<BusThread>(
            std::move(interface), [asks](const std::string& now) { return std::make_unique<CostBus>(asks, now); },
            [said = told_.get(), told = std::move(told)](const Bus* bus)
            {
              // Without a bus there is nobody who could know.
              const CellCost cost = bus ? static_cast<const CostBus*>(bus)->cost() : CellCost { .known = true };
              {
                const std::lock_guard lock { said->mutex };
                if (said->last == cost) return;
                said->last = cost;
              }
              told(cost);
            })
      }
{
}

CellCostWatch::~CellCostWatch() = default;

CellCost CellCostWatch::cost() const
{
  const std::lock_guard lock { told_->mutex };
  return told_->last;
}

void CellCostWatch::follow(const std::string& interface)
{
  thread_->follow(interface);
}

} // namespace tandem::links
