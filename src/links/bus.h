// Services on the system's message bus that are asked about an interface and announce changes: followed by a thread
// that sleeps while nothing changes. None of them is started by it. DBUS_SYSTEM_BUS_ADDRESS names another bus.
#pragma once

#include "src/kernel/message_bus.h"

#include <tandem/units.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::links
{

constexpr auto bus_answer = std::chrono::seconds { 3 }; // a call that takes longer has failed
inline const std::string network_manager = "org.freedesktop.NetworkManager";
inline const std::string network_manager_device = network_manager + ".Device";
inline const std::string bus_properties = "org.freedesktop.DBus.Properties";

using Properties = std::map<std::string, sdbus::Variant>;
// A property of D-Bus' type u; nothing when there is none of that name and type.
std::optional<unsigned> whole(const Properties& properties, const std::string& name);

// A service: who it is, and whether it has to be asked.
struct BusService
{
  std::string name {};
  bool asked = true;    // somebody wants to know
  std::string owner {}; // its unique name; empty: it is not there
  bool asking = false;
  bool again = true; // something has changed
  bool answered = false;
  Tick repeat = Tick::max(); // when it is asked again since a call failed
  Duration pause = first_repeat;
  std::unique_ptr<sdbus::IProxy> proxy {}, device {};

  // The first pause after a call that failed; each further failure doubles it.
  static constexpr Duration first_repeat = std::chrono::seconds { 5 }, longest_repeat = std::chrono::seconds { 600 };

  bool due(Tick now) const { return asked && (again || now >= repeat) && !asking && !owner.empty(); }
  bool settled() const { return !asked || owner.empty() || answered; }
  void begin() { again = false, asking = true, repeat = Tick::max(); }
  void done() { asking = false, answered = true, pause = first_repeat; }
  // What was known before stays: a service that hangs does not make anything better. Nor does it announce that it hangs
  // no more, so that it is asked again.
  void failed(Tick now);
  // Nothing it has said counts any more.
  void begin_anew(std::string by);
};

// A connection, and the services asked over it. All of it throws sdbus::Error or std::exception when the bus is gone.
class Bus
{
public:
  explicit Bus(std::string interface);
  virtual ~Bus() = default;
  Bus(const Bus&) = delete;
  Bus& operator=(const Bus&) = delete;

  void follow(const std::string& interface);
  // All that is there, and what has to be asked.
  void process();
  sdbus::IConnection::PollData poll_data() const { return connection_->getEventLoopPollData(); }
  // When a service is to be asked again without a word from it; max: none is.
  Tick repeat() const;

protected:
  // `service` lives as long as the bus. `rule`: a signal of its own upon which it is asked again; its owner alone
  // counts.
  void find(BusService& service, const std::string& rule);
  void watch(BusService& service, const std::string& rule);
  // "type='signal',..." of a property of this interface that changes.
  static std::string changed_rule(const std::string& service, const std::string& interface);
  // NetworkManager's device of the interface, then these properties of it; `take` gets nothing when it does not know
  // the interface.
  void ask_device(BusService& service, std::function<void(const Properties*)> take);

  const std::string& interface() const { return interface_; }
  sdbus::IConnection& connection() { return *connection_; }
  // Asks a service that is due; when the answer is there, BusService::done(), or failed().
  virtual void ask(BusService& service) = 0;
  // What it said is void: another owner, or another interface.
  virtual void forget(BusService& service) = 0;

private:
  std::string interface_;
  std::unique_ptr<sdbus::IConnection> connection_;
  std::unique_ptr<sdbus::IProxy> bus_;
  std::vector<BusService*> services_ {};
  std::vector<sdbus::Slot> matches_ {};
};

class BusThread
{
public:
  // `make` is called in the thread, again and again where there is no bus; `told` after each round, with nothing then.
  BusThread(std::string interface, std::function<std::unique_ptr<Bus>(const std::string& interface)> make,
            std::function<void(const Bus*)> told);
  ~BusThread();
  BusThread(const BusThread&) = delete;
  BusThread& operator=(const BusThread&) = delete;

  // Another interface is asked about now; empty: none. From any thread.
  void follow(const std::string& interface);

private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

} // namespace tandem::links
