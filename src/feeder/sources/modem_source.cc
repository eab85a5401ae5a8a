#include "src/feeder/sources/modem_source.h"

#include "src/feeder/sources/modem_properties.h"

#include <poll.h>

#include <algorithm>
#include <map>
#include <set>

namespace tandem::feeder
{

namespace message_bus = kernel::message_bus;

namespace
{

const std::string service = "org.freedesktop.ModemManager1";
const std::string root_path = "/org/freedesktop/ModemManager1";

constexpr std::size_t most_modems = 8;
constexpr int most_messages = 256; // that one receive() takes in

using Interfaces = std::map<std::string, Properties>;
using Objects = std::map<sdbus::ObjectPath, Interfaces>;

} // namespace

struct ModemSource::Bus
{
  Settings settings;
  std::unique_ptr<sdbus::IConnection> connection {};
  std::unique_ptr<sdbus::IProxy> bus_proxy {}, manager {};
  std::map<std::string, std::unique_ptr<sdbus::IProxy>> proxies {}; // of modems, for Setup
  std::vector<sdbus::Slot> matches {};
  std::string owner {}; // of the service, its unique name; empty: nobody
  std::map<std::string, Modem> modems {};
  std::set<std::string> gone {};
  std::uint64_t odd = 0;
  Tick now {};
  Tick next_poll {};
  bool asking = false;
  bool broken = false;

  // Throws sdbus::Error.
  explicit Bus(const Settings& s) : settings { s }
  {
    connection = sdbus::createSystemBusConnection();
    connection->setMethodCallTimeout(micro(settings.answer));
    bus_proxy = message_bus::proxy_of(*connection, "org.freedesktop.DBus", "/org/freedesktop/DBus");
    match(
        "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='"
            + service + "'",
        [this](sdbus::Message& message) { owner_changed(message); });
    const std::string from = "type='signal',sender='" + service + "',";
    match(from + "interface='org.freedesktop.DBus.Properties',member='PropertiesChanged',path_namespace='" + root_path
              + "'",
          [this](sdbus::Message& message) { properties_changed(message); });
    match(from + "interface='org.freedesktop.DBus.ObjectManager',path='" + root_path + "'",
          [this](sdbus::Message& message) { objects_changed(message); });
    try
    {
      bus_proxy->callMethod("GetNameOwner")
          .onInterface("org.freedesktop.DBus")
          .withArguments(service)
          .storeResultsTo(owner);
    }
    catch (const sdbus::Error& error)
    {
      if (error.getName() != "org.freedesktop.DBus.Error.NameHasNoOwner") throw;
    }
  }

  static std::uint64_t micro(Duration span)
  {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(span).count());
  }

  template <class Handler>
  void match(const std::string& rule, Handler handler)
  {
    matches.push_back(message_bus::add_match(*connection, rule,
                                             [this, handler](sdbus::Message& message)
                                             {
                                               try
                                               {
                                                 handler(message);
                                               }
                                               catch (const std::exception&)
                                               {
                                                 ++odd;
                                               }
                                             }));
  }

  // Signals can be sent to us alone by anybody, past the bus's own filter.
  bool from_manager(const sdbus::Message& message) const
  {
    return !owner.empty() && message_bus::text_of(message.getSender()) == owner;
  }

  void owner_changed(sdbus::Message& message)
  {
    std::string name {}, before {}, after {};
    message >> name >> before >> after;
    if (message_bus::text_of(message.getSender()) != "org.freedesktop.DBus" || name != service) return;
    lose_all();
    owner = after;
    next_poll = now;
    asking = false;
    manager.reset(); // with the calls that wait for an answer
  }

  void lose_all()
  {
    for (const auto& [path, modem] : modems)
      gone.insert(path);
    modems.clear();
    proxies.clear();
  }

  void lose(const std::string& path)
  {
    if (modems.erase(path) > 0) gone.insert(path);
    proxies.erase(path);
  }

  void properties_changed(sdbus::Message& message)
  {
    if (!from_manager(message)) return;
    std::string interface {
    };
    Properties changed {};
    std::vector<std::string> invalidated {};
    message >> interface >> changed >> invalidated;
    const auto found = modems.find(message_bus::text_of(message.getPath()));
    if (found == modems.end()) return;
    found->second.take(interface, changed, odd);
    if (!invalidated.empty()) next_poll = now;
  }

  void objects_changed(sdbus::Message& message)
  {
    if (!from_manager(message)) return;
    sdbus::ObjectPath path {};
    message >> path;
    const std::string member = message_bus::text_of(message.getMemberName());
    if (member == "InterfacesAdded")
    {
      Interfaces interfaces {};
      message >> interfaces;
      add(path, interfaces);
    }
    else if (member == "InterfacesRemoved")
    {
      std::vector<std::string> interfaces {};
      message >> interfaces;
      if (std::find(interfaces.begin(), interfaces.end(), modem_interface) != interfaces.end()) lose(path);
      const auto found = modems.find(path);
      if (found != modems.end()
          && std::find(interfaces.begin(), interfaces.end(), signal_interface) != interfaces.end())
      {
        found->second.measures = false;
        found->second.signals.clear();
        found->second.dirty = true;
      }
    }
  }

  void add(const std::string& path, const Interfaces& interfaces)
  {
    const bool is_modem = interfaces.contains(modem_interface);
    if (!modems.contains(path) && (!is_modem || modems.size() >= most_modems)) return;
    Modem& modem = modems[path];
    modem.dirty = true;
    gone.erase(path);
    for (const auto& [interface, properties] : interfaces)
      modem.take(interface, properties, odd);
    if (interfaces.contains(signal_interface)) set_up(path, modem);
  }

  void ask()
  {
    next_poll = now + settings.poll;
    if (asking || owner.empty()) return;
    // To the owner, not to the name: a call to the name would start ModemManager.
    manager = message_bus::proxy_of(*connection, owner, root_path);
    asking = true;
    manager->callMethodAsync("GetManagedObjects")
        .onInterface("org.freedesktop.DBus.ObjectManager")
        .withTimeout(settings.answer)
        .uponReplyInvoke(
            [this](message_bus::CallError error, const Objects& objects)
            {
              asking = false;
              if (error)
                ++odd;
              else
                take_all(objects);
            });
  }

  void take_all(const Objects& objects)
  {
    std::vector<std::string> lost {};
    for (const auto& [path, modem] : modems)
    {
      const auto found = objects.find(sdbus::ObjectPath { path });
      if (found == objects.end() || !found->second.contains(modem_interface)) lost.push_back(path);
    }
    for (const std::string& path : lost)
      lose(path);
    for (const auto& [path, interfaces] : objects)
    {
      try
      {
        if (const auto found = modems.find(path); found != modems.end()) found->second.signals.clear();
        add(path, interfaces);
      }
      catch (const std::exception&)
      {
        ++odd;
      }
    }
  }

  void set_up(const std::string& path, Modem& modem)
  {
    const bool too_soon = modem.refused && now - *modem.refused < settings.again;
    if (!settings.measure || modem.rate != 0 || modem.asking || too_soon) return;
    auto& proxy = proxies[path];
    proxy = message_bus::proxy_of(*connection, owner, path);
    modem.asking = true;
    const auto rate = static_cast<std::uint32_t>(
        std::max<std::int64_t>(1, std::chrono::duration_cast<std::chrono::seconds>(settings.poll).count()));
    proxy->callMethodAsync("Setup")
        .onInterface(signal_interface)
        .withTimeout(settings.answer)
        .withArguments(rate)
        .uponReplyInvoke(
            [this, path](message_bus::CallError error)
            {
              const auto found = modems.find(path);
              if (found == modems.end()) return;
              Modem& asked = found->second;
              asked.asking = false;
              asked.asked = !error;
              asked.refusal = error ? error->getName() + ": " + error->getMessage() : "";
              asked.refused.reset();
              if (error)
              {
                asked.refused = now;
                ++odd;
              }
            });
  }

  // Takes back the measurements that we have asked for. Without waiting for an answer.
  void give_back() noexcept
  {
    for (const auto& [path, modem] : modems)
    {
      if (!modem.asked || !proxies.contains(path)) continue;
      try
      {
        proxies[path]
            ->callMethod("Setup")
            .onInterface(signal_interface)
            .withArguments(std::uint32_t { 0 })
            .dontExpectReply();
      }
      catch (const std::exception&)
      {
        return; // the bus is gone, and ModemManager has nobody to measure for
      }
    }
  }

  // All messages that are there. False when the bus is gone.
  bool process(Tick at)
  {
    now = at;
    try
    {
      for (int i = 0; i < most_messages && message_bus::process(*connection); ++i)
      {
      }
      if (!owner.empty() && now >= next_poll)
      {
        ask();
        while (message_bus::process(*connection))
        {
        }
      }
    }
    catch (const std::exception&)
    {
      broken = true;
    }
    return !broken;
  }

  bool has_news() const
  {
    return !gone.empty() || std::any_of(modems.begin(), modems.end(), [](const auto& one) { return one.second.dirty; });
  }

  void report(std::vector<Report>& reports)
  {
    for (const std::string& path : gone)
    {
      ModemStats stats {};
      stats.modem = path;
      stats.gone = true;
      reports.push_back({ now, stats });
    }
    gone.clear();
    for (auto& [path, modem] : modems)
    {
      if (!modem.dirty) continue;
      modem.dirty = false;
      reports.push_back({ now, modem.stats(path) });
    }
  }
};

ModemSource::ModemSource(Settings settings) : settings_ { settings } {}

ModemSource::~ModemSource()
{
  if (bus_) bus_->give_back();
}

int ModemSource::fd() const
{
  if (!bus_ || bus_->owner.empty()) return -1;
  return bus_->connection->getEventLoopPollData().fd;
}

Tick ModemSource::due() const
{
  if (!bus_ || bus_->owner.empty()) return Tick::max();
  // The answer may have come while the source was being opened, and nothing follows it.
  if (bus_->has_news()) return bus_->now;
  Tick next = bus_->next_poll;
  const auto poll = bus_->connection->getEventLoopPollData();
  if (const auto late = message_bus::due(poll);
      late && *late < std::chrono::floor<std::chrono::microseconds>(Duration::max()))
    next = std::min(next, Tick { *late });
  // What could not be written yet has no other way to say so.
  if ((poll.events & POLLOUT) != 0) next = std::min(next, bus_->now + std::chrono::milliseconds { 20 });
  return next;
}

bool ModemSource::receive(Tick now, std::vector<Report>& reports)
{
  if (!bus_) return false;
  const bool works = bus_->process(now);
  if (!works) bus_->lose_all();
  bus_->report(reports);
  if (!works)
  {
    problem_ = "the system bus has closed the connection; modems are known again when it is back";
    skipped_ += bus_->odd;
    bus_.reset();
    return false;
  }
  if (!bus_->owner.empty()) return true;
  problem_ = "ModemManager has left the bus; modems are known again when it is back (systemctl start ModemManager)";
  return false;
}

bool ModemSource::reopen(Tick now)
{
  try
  {
    if (bus_ && !bus_->process(now))
    {
      skipped_ += bus_->odd;
      bus_.reset();
    }
    if (!bus_)
    {
      bus_ = std::make_unique<Bus>(settings_);
      bus_->process(now);
    }
    if (bus_->owner.empty())
    {
      problem_ = "there is no ModemManager on the bus; install and start it (systemctl start ModemManager), or set "
                 "links.modem to none";
      return false;
    }
  }
  catch (const std::exception& error)
  {
    bus_.reset();
    problem_ =
        std::string { "the system bus cannot be used: " } + error.what() + "; start dbus, or set links.modem to none";
    return false;
  }
  problem_.clear();
  return true;
}

std::string ModemSource::problem() const
{
  if (!problem_.empty() || !bus_) return problem_;
  for (const auto& [path, modem] : bus_->modems)
  {
    if (!modem.refusal.empty())
      return path + " does not measure its signal, only its quality is known: ModemManager refuses (" + modem.refusal
             + "); allow org.freedesktop.ModemManager1.Device.Control to the user of tandemd";
    if (!modem.measures) return path + " cannot measure its signal, only its quality is known";
  }
  return {};
}

std::uint64_t ModemSource::skipped() const
{
  return skipped_ + (bus_ ? bus_->odd : 0);
}

} // namespace tandem::feeder
