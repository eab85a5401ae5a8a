#include "src/links/cell_cost.h"

#include "src/links/bus.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace tandem::links
{

namespace
{

const std::string modem_manager = "org.freedesktop.ModemManager1";
const std::string modem_interface = modem_manager + ".Modem";
const std::string gpp_interface = modem_interface + ".Modem3gpp";

using Objects = std::map<sdbus::ObjectPath, std::map<std::string, Properties>>;

bool has_port(const Properties& modem, const std::string& interface)
{
  const auto found = modem.find("Ports");
  if (found == modem.end() || found->second.peekValueType() != "a(su)") return false;
  const auto ports = found->second.get<std::vector<sdbus::Struct<std::string, std::uint32_t>>>();
  return std::any_of(ports.begin(), ports.end(), [&](const auto& port) { return std::get<0>(port) == interface; });
}

class CostBus final : public Bus
{
public:
  CostBus(CellCostWatch::Asks asks, std::string interface) : Bus { std::move(interface) }
  {
    nm_.name = network_manager, nm_.asked = asks.metered;
    mm_.name = modem_manager, mm_.asked = asks.roaming;
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

  CellCost cost() const { return { nm_.settled() && mm_.settled(), metered_, roaming_ }; }

private:
  void forget(BusService& service) override { (&service == &nm_ ? metered_ : roaming_).reset(); }

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
      ask_roaming();
  }

  void ask_roaming()
  {
    mm_.proxy = sdbus::createProxy(connection(), mm_.owner, "/org/freedesktop/ModemManager1");
    mm_.proxy->callMethodAsync("GetManagedObjects")
        .onInterface("org.freedesktop.DBus.ObjectManager")
        .withTimeout(bus_answer)
        .uponReplyInvoke(
            [this](const sdbus::Error* error, const Objects& objects)
            {
              if (!error) roaming_ = roaming_of(objects);
              mm_.done();
            });
  }

  std::optional<bool> roaming_of(const Objects& objects) const
  {
    std::optional<bool> ours {}, any {};
    bool named = false;
    const auto take = [](std::optional<bool>& into, std::optional<bool> one)
    {
      if (one) into = into.value_or(false) || *one;
    };
    for (const auto& [path, interfaces] : objects)
    {
      const auto modem = interfaces.find(modem_interface);
      const auto gpp = interfaces.find(gpp_interface);
      const bool mine = modem != interfaces.end() && has_port(modem->second, interface());
      named = named || mine;
      if (gpp == interfaces.end()) continue;
      const auto state = whole(gpp->second, "RegistrationState");
      const auto one = state ? roaming(*state) : std::nullopt;
      take(any, one);
      if (mine) take(ours, one);
    }
    return named ? ours : any;
  }

  BusService nm_ {}, mm_ {};
  std::optional<bool> metered_ {}, roaming_ {};
};

} // namespace

std::optional<bool> metered(unsigned nm_metered)
{
  // NM_METERED_YES 1, NO 2, GUESS_YES 3, GUESS_NO 4.
  if (nm_metered == 1 || nm_metered == 3) return true;
  if (nm_metered == 2 || nm_metered == 4) return false;
  return {};
}

std::optional<bool> roaming(unsigned mm_registration)
{
  // HOME 1, ROAMING 5, HOME_SMS_ONLY 6, ROAMING_SMS_ONLY 7, HOME_CSFB_NOT_PREFERRED 9, ROAMING_CSFB_NOT_PREFERRED 10.
  constexpr std::array home { 1u, 6u, 9u }, away { 5u, 7u, 10u };
  if (std::find(away.begin(), away.end(), mm_registration) != away.end()) return true;
  if (std::find(home.begin(), home.end(), mm_registration) != home.end()) return false;
  return {};
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
