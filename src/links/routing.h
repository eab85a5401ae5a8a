// Where this host's own packets go by its routes and rules: out as they are, into a tunnel, or nowhere. Pure.
#pragma once

#include "src/kernel/interface_notification.h"
#include "src/links/network.h"

#include <tandem/segment.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tandem::links
{

// Whether what leaves by the interface is packed into something else, or goes nowhere: by the kind that the kernel
// names (IFLA_INFO_KIND), else by the hardware type. An unknown kind is taken for a tunnel: a new VPN is more likely
// than a new sort of Ethernet, and a mistake costs speed rather than secrecy. A dummy is one, because kill switches
// route into it.
bool is_tunnel(const kernel::InterfaceNotification& interface);

// A route of any table but the local one.
struct RouteEntry
{
  bool v6 = false;
  std::uint32_t table = 0;
  Network to {};
  std::uint32_t metric = 0;
  int ifindex = 0;      // of the next hop; 0: refused
  bool refused = false; // blackhole, unreachable, prohibit
  bool operator==(const RouteEntry&) const = default;
};

// An ip rule.
struct RuleEntry
{
  enum class Action : std::uint8_t
  {
    lookup,
    go_to,
    refuse, // blackhole, unreachable, prohibit
    nothing,
  };
  bool v6 = false;
  std::uint32_t priority = 0;
  Action action = Action::lookup;
  std::uint32_t table = 0;
  std::uint32_t target = 0; // of go_to: a priority
  std::optional<unsigned>
      suppress_below {}; // suppress_prefixlength: what is found with at most this prefix is not used
  bool invert = false;
  std::uint32_t mark = 0, mask = 0;
  Network from {}, to {};
  bool elsewhere = false; // by interface or VRF: not how an ordinary flow is routed, unless inverted
  bool some = false;      // for some users, ports or others: may be how a flow is routed
  bool operator==(const RuleEntry&) const = default;
};

class Routing
{
public:
  enum class Way : std::uint8_t
  {
    none,  // no default route
    clear, // by an interface that is no tunnel
    tunnel,
    refused, // the routes or rules let nothing out
  };
  struct Outlook
  {
    Way way = Way::none;
    std::string tunnel {}; // "wg0 (wireguard)"
    bool operator==(const Outlook&) const = default;
  };

  // Everything is read anew.
  void clear() { *this = {}; }
  void add(const kernel::InterfaceNotification& interface);
  void add(const RouteEntry& route) { routes_.push_back(route); }
  // In the kernel's order: ascending priority.
  void add(const RuleEntry& rule) { rules_.push_back(rule); }
  bool any_tunnel() const { return !tunnels_.empty(); }

  // Where the Internet is for unmarked packets of this host with one of the source addresses `own`. A tunnel that
  // leads to most of it counts as one that leads to all (0.0.0.0/1 and 128.0.0.0/1, or everything but private networks
  // in pieces). Interfaces named in `roles` are no tunnels, whatever they are.
  Outlook outlook(bool v6, const std::vector<Address>& own, const std::vector<std::string>& roles) const;

  // Where unmarked packets from `local` to `peer` go, of the same version.
  Outlook outlook(const Address& local, const Address& peer, const std::vector<std::string>& roles) const;

  // A part of the Internet, or a private network, whose route leads into a tunnel.
  struct Aside
  {
    std::string tunnel {}; // "wg0 (wireguard)"
    Network to {};
    bool operator==(const Aside&) const = default;
  };
  // Those of tables that this host's packets with one of the addresses `own` are looked up in, and what a rule sends to
  // a table whose default route leads into a tunnel.
  std::vector<Aside> aside(const std::vector<Address>& own, const std::vector<std::string>& roles) const;

  bool operator==(const Routing&) const = default;

private:
  Outlook default_in(const RuleEntry& rule, const std::vector<std::string>& roles) const;
  Outlook found_in(const RuleEntry& rule, const Address& peer, const std::vector<std::string>& roles) const;
  template <class Fits, class Look>
  Outlook walk(bool v6, Fits fits, Look look) const;
  bool better(const RouteEntry& one, const RouteEntry* than, const std::vector<std::string>& roles) const;
  const std::string* tunnel_of(int ifindex, const std::vector<std::string>& roles) const;

  struct Tunnel
  {
    std::string name;
    std::string text; // "wg0 (wireguard)"
    bool operator==(const Tunnel&) const = default;
  };
  std::map<int, Tunnel> tunnels_ {};
  std::vector<RouteEntry> routes_ {};
  std::vector<RuleEntry> rules_ {};
};

// Why Tandem must not act: empty when it may. "the default route leads into wg0 (wireguard)". A tunnel for one IP
// version is enough; that nothing is let out counts only when no version has a way.
std::string hands_off(const Routing& routing, const std::vector<Address>& own, const std::vector<std::string>& roles);

// Why Tandem must not act for a flow between these; empty when it may. "its route leads into wg0 (wireguard)".
std::string hands_off(const Routing& routing, const Address& local, const Address& peer,
                      const std::vector<std::string>& roles);

} // namespace tandem::links
