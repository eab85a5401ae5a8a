#include "src/links/validation.h"

#include "src/kernel/clock.h"
#include "src/links/bus.h"

#include <mutex>
#include <optional>
#include <utility>

namespace tandem::links
{

namespace
{

constexpr unsigned portal = 2, limited = 3, full = 4;

class ValidationBus final : public Bus
{
public:
  explicit ValidationBus(std::string interface) : Bus { std::move(interface) }
  {
    nm_.name = network_manager;
    find(nm_, changed_rule(network_manager, network_manager_device));
  }

  const std::string& of() const { return interface(); }
  // What it said last; nothing: nobody says anything.
  const std::optional<Connectivity>& said() const { return said_; }

private:
  void forget(BusService&) override { said_.reset(); }

  void ask(BusService& service) override
  {
    ask_device(service,
               [this](const Properties* device)
               {
                 said_.reset();
                 if (device == nullptr) return;
                 said_ = Connectivity { .v4 = whole(*device, "Ip4Connectivity").value_or(0),
                                        .v6 = whole(*device, "Ip6Connectivity").value_or(0) };
                 const auto active = device->find("ActiveConnection");
                 if (active != device->end() && active->second.containsValueOfType<sdbus::ObjectPath>())
                   said_->connection = active->second.get<sdbus::ObjectPath>();
               });
  }

  BusService nm_ {};
  std::optional<Connectivity> said_ {};
};

} // namespace

void NetworkValidation::take(const Connectivity& said, Tick now)
{
  if (said.connection != connection_)
  {
    connection_ = said.connection;
    validated_ = false;
  }
  const auto either = [&](unsigned state) { return said.v4 == state || said.v6 == state; };
  if (!either(full) && !either(portal) && !either(limited))
  {
    if (!silent_) silent_ = now;
    return;
  }
  why_.clear();
  silent_.reset();
  // One IP version is enough: many networks have only one.
  if (either(full)) validated_ = true;
  if (either(full)) return;
  // A portal may come back when the time that was paid for is over.
  if (either(portal)) validated_ = false;
  if (either(portal))
    why_ = "the Wi-Fi network is behind a captive portal (NetworkManager)";
  else if (!validated_)
    why_ = "the Wi-Fi network has not led to the Internet yet (NetworkManager)";
}

std::string NetworkValidation::why(Tick now) const
{
  return silent_ && !holds(now) ? std::string {} : why_;
}

bool NetworkValidation::holds(Tick now) const
{
  return silent_ && !why_.empty() && now - *silent_ < holds_on;
}

struct ValidationWatch::Told
{
  std::mutex mutex {};
  std::string interface {
  }; // of which this is said
  NetworkValidation validation {};
};

ValidationWatch::ValidationWatch(std::string interface, std::function<void()> told)
    : told_ { std::make_unique<Told>() }, thread_ {
        std::make_unique<BusThread>(
            std::move(interface), [](const std::string& now) { return std::make_unique<ValidationBus>(now); },
            [said = told_.get(), told = std::move(told)](const Bus* bus)
            {
              {
                const auto* asked = static_cast<const ValidationBus*>(bus);
                const Tick now = kernel::now();
                const std::lock_guard lock { said->mutex };
                const auto state = [&] { return std::pair { said->validation.why(now), said->validation.holds(now) }; };
                const auto before = state();
                if (asked != nullptr && std::exchange(said->interface, asked->of()) != asked->of())
                  said->validation = {};
                const auto answer = asked != nullptr ? asked->said() : std::nullopt;
                said->validation.take(answer.value_or(Connectivity {}), now);
                if (state() == before) return;
              }
              told();
            })
      }
{
}

ValidationWatch::~ValidationWatch() = default;

std::string ValidationWatch::why() const
{
  const std::lock_guard lock { told_->mutex };
  return told_->validation.why(kernel::now());
}

bool ValidationWatch::holds() const
{
  const std::lock_guard lock { told_->mutex };
  return told_->validation.holds(kernel::now());
}

void ValidationWatch::follow(const std::string& interface)
{
  thread_->follow(interface);
}

} // namespace tandem::links
