// A laptop with both links for weeks: the real chain and modules, and the two TCPs of every connection. Pure: time is
// handed in, whoever calls says what happens when.
#pragma once

#include "modules/freeze/freeze.h"
#include "modules/mirror/mirror.h"
#include "modules/offload/offload.h"
#include "tests/golden/harness/fixture.h"
#include "tests/sim/endurance/server.h"

#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

namespace tandem::test::days
{

struct Paths
{
  Duration wifi = ms(8); // one way
  Duration cell = ms(10);
  double rate = 5e6;       // bytes per second, down
  Duration queue = ms(60); // the longest
  double loss = 0;         // share of the data
  Duration wifi_rtt() const { return 2 * wifi; }
};

struct Counts
{
  std::uint64_t by_wifi = 0, by_cell = 0, withheld = 0; // ACKs, those by cellular with copies and what else is injected
};

class Laptop;

// One connection that the laptop has opened.
class Connection
{
public:
  Connection(Laptop& laptop, std::uint16_t port, double ppm);

  void push(std::uint64_t bytes); // the server has something to say
  void ask(std::uint64_t bytes);  // it has when it is asked, by 300 bytes
  bool quiet() const { return server_.settled() && received_ == server_.written() && server_.asked() == asked_; }
  const FlowView* view() const; // null: the chain has forgotten it
  const Server& server() const { return server_; }
  std::uint64_t received() const { return received_; }

private:
  friend class Laptop;
  std::uint64_t offset(Seq ack) const;
  void arrive(const Packet& packet);
  void acknowledge(const Packet& packet);
  void leave(const Segment& segment, std::uint64_t asked);
  void injected(const InjectedSegment& segment);
  void send_request();
  void served(const Packet& packet, std::uint64_t asked);
  void let_server_send();

  Laptop& laptop_;
  Peers peers_ {};
  Server server_;
  std::uint64_t received_ = 0, asked_ = 0, answers_ = 0;
  std::map<std::uint64_t, std::uint64_t> beyond_ {}; // what arrived behind a hole
  Tick asked_at_ {};
  Tick tick_at_ = Tick::max();
};

class Laptop
{
public:
  Laptop(const Paths& paths, Duration idle, std::vector<Module*> more = {});

  Connection& open(double ppm = 0);
  void run(Tick until);
  void run_for(Duration span) { run(now() + span); }
  Tick now() const { return fixture.now(); }
  void links(bool up);
  // The next day is as random as the last.
  void seed() { random_.seed(1); }
  // All that must never be, whatever happens; empty: nothing was.
  std::string wrong() const;

  Paths paths;
  freeze::Freeze freeze {};
  mirror::Mirror mirror {};
  offload::Offload offload {};
  Fixture fixture;
  Counts counts {};

private:
  friend class Connection;
  enum class What : std::uint8_t
  {
    to_host,
    to_server,
    server_timer,
    host_timer,
  };
  struct Event
  {
    Tick at {};
    std::uint64_t order = 0;
    What what = What::to_host;
    Connection* of = nullptr;
    Packet packet {};
    std::uint64_t asked = 0;
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  std::vector<Module*> all(std::vector<Module*> more);
  static chain::Chain::Options kept(Duration idle);
  void at(Tick when, What what, Connection& of, const Packet& packet = {}, std::uint64_t asked = 0)
  {
    events_.push({ when, order_++, what, &of, packet, asked });
  }
  void down(const Packet& packet, Connection& to);
  void up(Link by, const Packet& packet, std::uint64_t asked, Connection& from);
  void happen(const Event& event);
  void take_injected();
  void complain(const std::string& what);

  std::priority_queue<Event> events_ {};
  std::vector<std::unique_ptr<Connection>> connections_ {};
  std::mt19937 random_ { 1 };
  std::uint64_t order_ = 0;
  std::uint16_t port_ = 40'000;
  Tick free_down_ {}, free_up_ {}, free_cell_ {};
  bool up_ = true;
  std::string wrong_ {};
};

} // namespace tandem::test::days
