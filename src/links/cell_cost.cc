#include "src/links/cell_cost.h"

#include "src/kernel/clock.h"
#include "src/kernel/fd.h"

#include <poll.h>
#include <sdbus-c++/sdbus-c++.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::links
{

namespace
{

const std::string network_manager = "org.freedesktop.NetworkManager";
const std::string device_interface = network_manager + ".Device";
const std::string modem_manager = "org.freedesktop.ModemManager1";
const std::string modem_interface = modem_manager + ".Modem";
const std::string gpp_interface = modem_interface + ".Modem3gpp";
const std::string properties_interface = "org.freedesktop.DBus.Properties";
constexpr auto answer = std::chrono::seconds { 3 }; // a call that takes longer has failed
constexpr auto first_pause = std::chrono::seconds { 5 }, longest_pause = std::chrono::seconds { 600 }; // without a bus

using Properties = std::map<std::string, sdbus::Variant>;
using Objects = std::map<sdbus::ObjectPath, std::map<std::string, Properties>>;

std::optional<unsigned> whole(const Properties& properties, const std::string& name)
{
  const auto found = properties.find(name);
  if (found == properties.end() || found->second.peekValueType() != "u") return {};
  return found->second.get<std::uint32_t>();
}

bool has_port(const Properties& modem, const std::string& interface)
{
  const auto found = modem.find("Ports");
  if (found == modem.end() || found->second.peekValueType() != "a(su)") return false;
  const auto ports = found->second.get<std::vector<sdbus::Struct<std::string, std::uint32_t>>>();
  return std::any_of(ports.begin(), ports.end(), [&](const auto& port) { return std::get<0>(port) == interface; });
}

// One of the services: who it is, and what it has said.
struct Service
{
  std::string name {};
  bool asked = true;    // the configuration wants it
  std::string owner {}; // its unique name; empty: it is not there
  bool asking = false;
  bool again = true; // something has changed
  bool answered = false;
  std::optional<bool> said {};
  std::unique_ptr<sdbus::IProxy> proxy {}, device {};

  // Nothing it has said counts any more.
  void begin_anew(std::string by) { *this = Service { .name = name, .asked = asked, .owner = std::move(by) }; }
};

// A connection, and what is asked over it. All of it throws sdbus::Error or std::exception when the bus is gone.
class Bus
{
public:
  Bus(CellCostWatch::Asks asks, std::string interface) : interface_ { std::move(interface) }
  {
    nm_.name = network_manager, nm_.asked = asks.metered;
    mm_.name = modem_manager, mm_.asked = asks.roaming;
    connection_ = sdbus::createSystemBusConnection();
    connection_->setMethodCallTimeout(static_cast<std::uint64_t>(std::chrono::microseconds { answer }.count()));
    bus_ = sdbus::createProxy(*connection_, "org.freedesktop.DBus", "/org/freedesktop/DBus");
    const std::string changed = "',interface='" + properties_interface + "',member='PropertiesChanged',arg0='";
    if (nm_.asked)
    {
      find(nm_, "type='signal',sender='" + network_manager + changed + device_interface + "'");
      watch(nm_, "type='signal',sender='" + network_manager + "',interface='" + network_manager
                     + "',path='/org/freedesktop/NetworkManager'");
    }
    if (mm_.asked)
    {
      find(mm_, "type='signal',sender='" + modem_manager + changed + gpp_interface + "'");
      watch(mm_, "type='signal',sender='" + modem_manager
                     + "',interface='org.freedesktop.DBus.ObjectManager',path='/org/freedesktop/ModemManager1'");
    }
  }

  void follow(std::string interface)
  {
    if (interface == interface_) return;
    interface_ = std::move(interface);
    for (Service* service : { &nm_, &mm_ })
      service->begin_anew(service->owner);
  }

  // All that is there, and what has to be asked.
  void process()
  {
    do
    {
      if (due(nm_)) ask_metered();
      if (due(mm_)) ask_roaming();
      while (connection_->processPendingRequest())
      {
      }
    } while (due(nm_) || due(mm_));
  }

  CellCost cost() const
  {
    return { settled(nm_) && settled(mm_), nm_.asked ? nm_.said : std::nullopt, mm_.asked ? mm_.said : std::nullopt };
  }

  sdbus::IConnection::PollData poll_data() const { return connection_->getEventLoopPollData(); }

private:
  static bool settled(const Service& service) { return !service.asked || service.owner.empty() || service.answered; }
  static bool due(const Service& service)
  {
    return service.asked && service.again && !service.asking && !service.owner.empty();
  }

  void watch(Service& service, const std::string& rule)
  {
    // What changed is asked, not read from the signal; and only its owner can make us ask: signals can be sent to us
    // alone by anybody, past the bus's own filter.
    matches_.push_back(connection_->addMatch(rule,
                                             [&service](sdbus::Message& message)
                                             {
                                               if (!service.owner.empty() && message.getSender() == service.owner)
                                                 service.again = true;
                                             }));
  }

  void find(Service& service, const std::string& rule)
  {
    watch(service, rule);
    matches_.push_back(connection_->addMatch(
        "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='"
            + service.name + "'",
        [&service](sdbus::Message& message)
        {
          if (message.getSender() != "org.freedesktop.DBus") return;
          std::string name {}, before {}, after {};
          message >> name >> before >> after;
          service.begin_anew(after);
        }));
    try
    {
      bus_->callMethod("GetNameOwner")
          .onInterface("org.freedesktop.DBus")
          .withArguments(service.name)
          .storeResultsTo(service.owner);
    }
    catch (const sdbus::Error& error)
    {
      if (error.getName() != "org.freedesktop.DBus.Error.NameHasNoOwner") throw;
    }
  }

  // A call that failed leaves what was known before: a service that hangs does not make the link cheaper.
  static void done(Service& service)
  {
    service.asking = false;
    service.answered = true;
  }

  void ask_metered()
  {
    nm_.again = false;
    nm_.asking = true;
    // To the owner, not to the name: a call to the name would start the service.
    nm_.proxy = sdbus::createProxy(*connection_, nm_.owner, "/org/freedesktop/NetworkManager");
    nm_.proxy->callMethodAsync("GetDeviceByIpIface")
        .onInterface(network_manager)
        .withTimeout(answer)
        .withArguments(interface_)
        .uponReplyInvoke(
            [this](const sdbus::Error* error, const sdbus::ObjectPath& path)
            {
              if (error)
              {
                // It does not know the interface: then it cannot know what that costs.
                if (error->getName() == network_manager + ".UnknownDevice") nm_.said.reset();
                return done(nm_);
              }
              nm_.device = sdbus::createProxy(*connection_, nm_.owner, path);
              nm_.device->callMethodAsync("Get")
                  .onInterface(properties_interface)
                  .withTimeout(answer)
                  .withArguments(device_interface, std::string { "Metered" })
                  .uponReplyInvoke(
                      [this](const sdbus::Error* fault, const sdbus::Variant& value)
                      {
                        if (!fault && value.peekValueType() == "u") nm_.said = metered(value.get<std::uint32_t>());
                        done(nm_);
                      });
            });
  }

  void ask_roaming()
  {
    mm_.again = false;
    mm_.asking = true;
    mm_.proxy = sdbus::createProxy(*connection_, mm_.owner, "/org/freedesktop/ModemManager1");
    mm_.proxy->callMethodAsync("GetManagedObjects")
        .onInterface("org.freedesktop.DBus.ObjectManager")
        .withTimeout(answer)
        .uponReplyInvoke(
            [this](const sdbus::Error* error, const Objects& objects)
            {
              if (!error) mm_.said = roaming_of(objects);
              done(mm_);
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
      const bool mine = modem != interfaces.end() && has_port(modem->second, interface_);
      named = named || mine;
      if (gpp == interfaces.end()) continue;
      const auto state = whole(gpp->second, "RegistrationState");
      const auto one = state ? roaming(*state) : std::nullopt;
      take(any, one);
      if (mine) take(ours, one);
    }
    return named ? ours : any;
  }

  std::string interface_;
  std::unique_ptr<sdbus::IConnection> connection_ {};
  std::unique_ptr<sdbus::IProxy> bus_ {};
  Service nm_ {}, mm_ {};
  std::vector<sdbus::Slot> matches_ {};
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

struct CellCostWatch::Thread
{
  Asks asks {};
  std::function<void(const CellCost&)> told {};
  kernel::Fd wake { ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
  mutable std::mutex mutex {};
  std::string interface {
  };
  bool ends = false;
  CellCost last {};
  std::optional<Bus> bus {};
  std::chrono::seconds pause = first_pause;
  std::thread thread {};

  void rouse() const
  {
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake.get(), &one, sizeof one));
  }

  void tell(const CellCost& cost)
  {
    {
      const std::lock_guard lock { mutex };
      if (last == cost) return;
      last = cost;
    }
    told(cost);
  }

  // How long to sleep, in milliseconds; -1: until something comes.
  int work(const std::string& now_interface, std::array<pollfd, 2>& fds)
  {
    fds[1].fd = -1;
    try
    {
      if (!bus) bus.emplace(asks, now_interface);
      bus->follow(now_interface);
      bus->process();
      tell(bus->cost());
      pause = first_pause;
      const auto data = bus->poll_data();
      fds[1] = { data.fd, data.events, 0 };
      if (data.timeout_usec == UINT64_MAX) return -1;
      const auto now = static_cast<std::uint64_t>(
          std::chrono::floor<std::chrono::microseconds>(kernel::now().time_since_epoch()).count());
      return data.timeout_usec <= now
                 ? 0
                 : static_cast<int>(std::min<std::uint64_t>((data.timeout_usec - now) / 1000 + 1, 60'000));
    }
    catch (const std::exception&)
    {
      // Without a bus there is nobody who could know.
      bus.reset();
      tell({ .known = true });
      const auto wait = std::chrono::milliseconds { pause };
      pause = std::min(2 * pause, longest_pause);
      return static_cast<int>(wait.count());
    }
  }

  void run()
  {
    std::array<pollfd, 2> fds { pollfd { wake.get(), POLLIN, 0 }, pollfd { -1, 0, 0 } };
    for (;;)
    {
      std::string now_interface {};
      {
        const std::lock_guard lock { mutex };
        if (ends) return;
        now_interface = interface;
      }
      const int wait = work(now_interface, fds);
      static_cast<void>(::poll(fds.data(), fds.size(), wait));
      std::uint64_t ignored = 0;
      static_cast<void>(::read(wake.get(), &ignored, sizeof ignored));
    }
  }
};

CellCostWatch::CellCostWatch(Asks asks, std::string interface, std::function<void(const CellCost&)> told)
    : thread_ { std::make_unique<Thread>() }
{
  if (!thread_->wake) throw std::system_error { errno, std::generic_category(), "eventfd" };
  thread_->asks = asks;
  thread_->interface = std::move(interface);
  thread_->told = std::move(told);
  thread_->thread = std::thread { [thread = thread_.get()] { thread->run(); } };
}

CellCostWatch::~CellCostWatch()
{
  {
    const std::lock_guard lock { thread_->mutex };
    thread_->ends = true;
  }
  thread_->rouse();
  thread_->thread.join();
}

CellCost CellCostWatch::cost() const
{
  const std::lock_guard lock { thread_->mutex };
  return thread_->last;
}

void CellCostWatch::follow(const std::string& interface)
{
  {
    const std::lock_guard lock { thread_->mutex };
    if (thread_->interface == interface) return;
    thread_->interface = interface;
  }
  thread_->rouse();
}

} // namespace tandem::links
