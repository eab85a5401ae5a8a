// The client with the daemon's decisions: packets that arrive and leave are shown to a chain::Chain with the very
// modules that the daemon loads, and what comes of it is done to them.
#pragma once

#include "src/chain/chain.h"
#include "tools/lab/medium/random.h"
#include "tools/sim/packet.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tandem::sim
{

// Carried out: edits of acknowledgements (ACK number to whole segments, window, timestamps, ECN), drops, routes by the
// cellular link, injected ACKs, CE rates of interfaces, MP_PRIO. Not simulated, and answered "not sent": ICMP, fills,
// fetches, endpoint requests (counted). A flow's segments all have the size of a full one, connections are not closed.
class ClientHost final
{
public:
  struct Stats
  {
    std::uint64_t dropped = 0;  // acknowledgements left out
    std::uint64_t edited = 0;   // packets with changed bytes
    std::uint64_t rerouted = 0; // acknowledgements by the cellular link
    std::uint64_t injected = 0;
    std::uint64_t not_injected = 0; // asked for and not simulated
    std::uint64_t requests = 0;     // ce_rate, mptcp_backup
    std::uint64_t other_requests = 0;
  };

  // `modules` must outlive the client; none: only interfaces that mark.
  ClientHost(World& world, const std::vector<Module*>& modules);
  ~ClientHost();

  // Interfaces are numbered from 0; each plays the role of a link. ce_rate requests for a link reach all of its
  // interfaces.
  std::uint16_t add_interface(Link role);
  Link role(std::uint16_t interface) const { return interfaces_[interface].role; }
  // Share of the ECN-capable packets arriving by the interface that get Congestion Experienced.
  void set_ce_rate(std::uint16_t interface, double rate) { interfaces_[interface].ce_rate = rate; }
  double ce_rate(std::uint16_t interface) const { return interfaces_[interface].ce_rate; }
  bool backup(std::uint16_t interface) const { return interfaces_[interface].backup; }
  std::uint64_t marked(std::uint16_t interface) const { return interfaces_[interface].marked; }
  // As the feeder tells the daemon.
  void radio(Link link, const RadioState& state);
  void set_up(Link link, bool up);
  // It has Wi-Fi links that are Link::other to the modules.
  void more_than_seen();
  bool up(Link link) const { return links_[static_cast<std::size_t>(link)].up; }

  // What the client is to know of a subflow.
  struct Connect
  {
    std::uint16_t interface = 0;
    std::uint32_t mss = 0;
    bool mptcp = false, ecn = false;
    std::uint8_t version = 1; // of MPTCP
    std::uint8_t subflow = 0; // the first opens the connection, the others join
    std::uint64_t key = 0;    // the server's
    Route* up = nullptr;
    const Route* by_cell = nullptr; // null: no such way
    std::function<void(bool backup)> prioritize {};
  };

  // One subflow at this client.
  class Port
  {
  public:
    Port(ClientHost& client, const Connect& with, std::uint16_t number);
    Stage& ingress() { return ingress_; }
    Stage& egress() { return egress_; }

  private:
    friend class ClientHost;
    struct Ingress final : Stage
    {
      explicit Ingress(Port& owner) : port(owner) {}
      void accept(Handle handle) override { port.client_.arrive(port, handle); }
      Port& port;
    };
    struct Egress final : Stage
    {
      explicit Egress(Port& owner) : port(owner) {}
      void accept(Handle handle) override { port.client_.leave(port, handle); }
      Port& port;
    };
    Segment segment(const Packet& packet, Direction direction) const;
    Seq server(std::uint64_t segments) const
    {
      return server_isn_ + 1u + static_cast<std::uint32_t>(segments * with_.mss);
    }
    // Whole segments before a sequence number of the server, near `close`.
    std::uint64_t segments(Seq seq, std::uint64_t close) const;

    ClientHost& client_;
    Connect with_;
    FlowKey key_ {};
    Seq client_isn_ {}, server_isn_ {};
    std::uint64_t acked_ = 0; // segments, of the newest acknowledgement that left
    std::uint64_t data_ack_ = 0;
    Ingress ingress_;
    Egress egress_;
  };

  Port& connect(const Connect& with);

  // Shows the modules a segment as the daemon would (tandem/admission.h). Outcome::flow is null for one that no module
  // is to see. Only with modules.
  chain::Outcome show(const Segment& segment);

  chain::Chain* chain() { return chain_.get(); } // null without modules
  const Stats& stats() const { return stats_; }

private:
  struct Interface
  {
    Link role = Link::wifi;
    double ce_rate = 0;
    bool backup = false;
    std::uint64_t marked = 0;
    medium::Random random { 0 };
  };

  void arrive(Port& port, Handle handle);
  void leave(Port& port, Handle handle);
  void carry_out();
  std::size_t inject(const FlowKey& key, const InjectedSegment& injected);
  void steer(const LinkRequest& request);
  void later();
  void send_injected();

  World& world_;
  std::vector<Interface> interfaces_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::unique_ptr<chain::Chain> chain_;
  LinkStates links_ {};
  Timer timer_;
  std::vector<Handle> injected_; // leave when the chain has returned: it must not be called back
  Timer injected_timer_;
  Stats stats_ {};
};

} // namespace tandem::sim
