#include "src/links/validation.h"

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

std::string NetworkValidation::take(const Connectivity& now)
{
  if (now.connection != connection_)
  {
    connection_ = now.connection;
    validated_ = false;
  }
  const auto either = [&](unsigned state) { return now.v4 == state || now.v6 == state; };
  // One IP version is enough: many networks have only one.
  if (either(full)) validated_ = true;
  if (either(full)) return {};
  // A portal may come back when the time that was paid for is over.
  if (either(portal)) validated_ = false;
  if (either(portal)) return "the Wi-Fi network is behind a captive portal (NetworkManager)";
  return either(limited) && !validated_ ? "the Wi-Fi network has not led to the Internet yet (NetworkManager)" : "";
}

struct ValidationWatch::Told
{
  std::mutex mutex {};
  NetworkValidation validation {};
  std::string why {};
};

ValidationWatch::ValidationWatch(std::string interface, std::function<void()> told)
    : told_ { std::make_unique<Told>() }, thread_ {
        std::make_unique<BusThread>(
            std::move(interface), [](const std::string& now) { return std::make_unique<ValidationBus>(now); },
            [said = told_.get(), told = std::move(told)](const Bus* bus)
            {
              {
                const std::lock_guard lock { said->mutex };
                const auto now = bus ? static_cast<const ValidationBus*>(bus)->said() : std::optional<Connectivity> {};
                std::string why = said->validation.take(now.value_or(Connectivity {}));
                if (why == said->why) return;
                said->why = std::move(why);
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
  return told_->why;
}

void ValidationWatch::follow(const std::string& interface)
{
  thread_->follow(interface);
}

} // namespace tandem::links
