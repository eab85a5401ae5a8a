#include "src/links/bus.h"

#include "src/kernel/clock.h"
#include "src/kernel/fd.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace tandem::links
{

namespace message_bus = kernel::message_bus;

std::optional<unsigned> whole(const Properties& properties, const std::string& name)
{
  const auto found = properties.find(name);
  if (found == properties.end() || !found->second.containsValueOfType<std::uint32_t>()) return {};
  return found->second.get<std::uint32_t>();
}

namespace
{

constexpr auto first_pause = std::chrono::seconds { 5 }, longest_pause = std::chrono::seconds { 600 }; // without a bus
const std::string bus_name = "org.freedesktop.DBus";

} // namespace

void BusService::begin_anew(std::string by)
{
  *this = BusService { .name = name, .asked = asked, .owner = std::move(by) };
}

void BusService::failed(Tick now)
{
  asking = false, answered = true;
  repeat = now + pause;
  pause = std::min(2 * pause, longest_repeat);
}

Bus::Bus(std::string interface)
    : interface_ { std::move(interface) }, connection_ { sdbus::createSystemBusConnection() }, bus_ {
        message_bus::proxy_of(*connection_, bus_name, "/org/freedesktop/DBus")
      }
{
  connection_->setMethodCallTimeout(static_cast<std::uint64_t>(std::chrono::microseconds { bus_answer }.count()));
}

void Bus::follow(const std::string& interface)
{
  if (interface == interface_) return;
  interface_ = interface;
  for (BusService* service : services_)
  {
    forget(*service);
    service->begin_anew(service->owner);
  }
}

void Bus::process()
{
  const auto due = [](const BusService* service) { return service->due(kernel::now()); };
  do
  {
    for (BusService* service : services_)
    {
      if (!due(service)) continue;
      service->begin();
      ask(*service);
    }
    while (message_bus::process(*connection_))
    {
    }
  } while (std::any_of(services_.begin(), services_.end(), due));
}

Tick Bus::repeat() const
{
  Tick first = Tick::max();
  for (const BusService* service : services_)
    if (service->asked && !service->asking && !service->owner.empty()) first = std::min(first, service->repeat);
  return first;
}

std::string Bus::changed_rule(const std::string& service, const std::string& interface)
{
  return "type='signal',sender='" + service + "',interface='" + bus_properties + "',member='PropertiesChanged',arg0='"
         + interface + "'";
}

void Bus::watch(BusService& service, const std::string& rule)
{
  // What changed is asked, not read from the signal; and only its owner can make us ask: signals can be sent to us
  // alone by anybody, past the bus's own filter.
  matches_.push_back(message_bus::add_match(*connection_, rule,
                                            [&service](sdbus::Message& message)
                                            {
                                              if (!service.owner.empty()
                                                  && message_bus::text_of(message.getSender()) == service.owner)
                                                service.again = true;
                                            }));
}

void Bus::find(BusService& service, const std::string& rule)
{
  services_.push_back(&service);
  watch(service, rule);
  matches_.push_back(message_bus::add_match(*connection_,
                                            "type='signal',sender='" + bus_name + "',interface='" + bus_name
                                                + "',member='NameOwnerChanged',arg0='" + service.name + "'",
                                            [this, &service](sdbus::Message& message)
                                            {
                                              if (message_bus::text_of(message.getSender()) != bus_name) return;
                                              std::string name {}, before {}, after {};
                                              message >> name >> before >> after;
                                              forget(service);
                                              service.begin_anew(after);
                                            }));
  try
  {
    bus_->callMethod("GetNameOwner").onInterface(bus_name).withArguments(service.name).storeResultsTo(service.owner);
  }
  catch (const sdbus::Error& error)
  {
    if (error.getName() != bus_name + ".Error.NameHasNoOwner") throw;
  }
}

void Bus::ask_device(BusService& service, std::function<void(const Properties*)> take)
{
  // To the owner, not to the name: a call to the name would start the service.
  service.proxy = message_bus::proxy_of(*connection_, service.owner, "/org/freedesktop/NetworkManager");
  service.proxy->callMethodAsync("GetDeviceByIpIface")
      .onInterface(network_manager)
      .withTimeout(bus_answer)
      .withArguments(interface_)
      .uponReplyInvoke(
          [this, &service, take = std::move(take)](message_bus::CallError error, const sdbus::ObjectPath& path)
          {
            if (error && error->getName() != network_manager + ".UnknownDevice") return service.failed(kernel::now());
            if (error)
            {
              take(nullptr);
              return service.done();
            }
            service.device = message_bus::proxy_of(*connection_, service.owner, path);
            service.device->callMethodAsync("GetAll")
                .onInterface(bus_properties)
                .withTimeout(bus_answer)
                .withArguments(network_manager_device)
                .uponReplyInvoke(
                    [&service, take](message_bus::CallError fault, const Properties& properties)
                    {
                      if (fault) return service.failed(kernel::now());
                      take(&properties);
                      service.done();
                    });
          });
}

struct BusThread::Loop
{
  std::function<std::unique_ptr<Bus>(const std::string&)> make {};
  std::function<void(const Bus*)> told {};
  kernel::Fd wake { ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
  std::mutex mutex {};
  std::string interface {
  };
  bool ends = false;
  std::unique_ptr<Bus> bus {};
  std::chrono::seconds pause = first_pause;
  std::thread thread {};

  void rouse() const
  {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake.get(), &one, sizeof one);
  }

  // How long to sleep, in milliseconds; -1: until something comes.
  int work(const std::string& now_interface, std::array<pollfd, 2>& fds)
  {
    fds[1].fd = -1;
    try
    {
      if (!bus) bus = make(now_interface);
      bus->follow(now_interface);
      bus->process();
      told(bus.get());
      pause = first_pause;
      const auto data = bus->poll_data();
      fds[1] = { data.fd, data.events, 0 };
      Tick next = bus->repeat();
      if (const auto due = message_bus::due(data)) next = std::min(next, Tick { *due });
      if (next == Tick::max()) return -1;
      const auto left = std::chrono::floor<std::chrono::milliseconds>(next - kernel::now()).count();
      return left < 0 ? 0 : static_cast<int>(std::min<std::int64_t>(left + 1, 60'000));
    }
    catch (const std::exception&)
    {
      // Without a bus there is nobody who could know.
      bus.reset();
      told(nullptr);
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
      [[maybe_unused]] const ssize_t count = ::read(wake.get(), &ignored, sizeof ignored);
    }
  }
};

BusThread::BusThread(std::string interface, std::function<std::unique_ptr<Bus>(const std::string&)> make,
                     std::function<void(const Bus*)> told)
    : loop_ { std::make_unique<Loop>() }
{
  if (!loop_->wake) throw std::system_error { errno, std::generic_category(), "eventfd" };
  loop_->interface = std::move(interface);
  loop_->make = std::move(make);
  loop_->told = std::move(told);
  loop_->thread = std::thread { [loop = loop_.get()] { loop->run(); } };
}

BusThread::~BusThread()
{
  {
    const std::lock_guard lock { loop_->mutex };
    loop_->ends = true;
  }
  loop_->rouse();
  loop_->thread.join();
}

void BusThread::follow(const std::string& interface)
{
  {
    const std::lock_guard lock { loop_->mutex };
    if (loop_->interface == interface) return;
    loop_->interface = interface;
  }
  loop_->rouse();
}

} // namespace tandem::links
