// What the interfaces in the roles "wifi", "cell", "wifi2" .. are now, merged from kernel messages. Pure: no socket, no
// clock.
#pragma once

#include "src/kernel/interface_notification.h"
#include "src/links/network.h"

#include <tandem/link.h>
#include <tandem/module.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tandem::links
{

using kernel::InterfaceNotification;

// RTM_NEWADDR / RTM_DELADDR.
struct AddressNotification
{
  int ifindex = 0;
  Address address {};
  bool gone = false;
  bool global = true; // scope global or site
  bool usable = true; // not tentative, not failed duplicate detection
  Network on_link {}; // reachable without a gateway because of it; no prefix: nothing
  // Of IPv6 alone: RFC 4862, 5.5.4, and RFC 8981.
  bool deprecated = false;
  bool temporary = false;
};

// RTM_NEWROUTE / RTM_DELROUTE of a default route in the main table.
struct DefaultRouteNotification
{
  int ifindex = 0;
  bool v6 = false;
  bool gone = false;
  std::optional<Address> gateway {}; // none: on-link
  std::uint32_t metric = 0;
};

// One role, now.
struct LinkInfo
{
  std::string interface; // as configured
  int ifindex = 0;       // 0: does not exist
  bool up = false;       // administratively up, with carrier
  bool point_to_point = false;
  std::uint32_t mtu = 1500;
  std::vector<Address> addresses {}; // global and usable, IPv4 first
  // Of these, what new connections leave from: without deprecated ones, and without the stable address of a /64 that
  // has a preferred temporary one, which would tell who this host is (RFC 6724, 5, rules 3 and 7).
  std::vector<Address> sources {};
  std::vector<Address> deprecated {}; // of the addresses: what only connections of before leave from
  std::vector<Network> on_link {};    // of these addresses
  std::optional<Address> gateway_v4 {};
  std::optional<Address> gateway_v6 {};
  bool default_v4 = false; // a default route by this interface exists
  bool default_v6 = false;
  Tick changed {}; // when `up` last changed
  bool operator==(const LinkInfo&) const = default;
  bool present() const { return ifindex != 0 && !addresses.empty(); }
};

// What connections of Tandem's own to servers of the Internet leave from by the link, the best of each IP version
// first: its sources, then what is deprecated (RFC 6724, 5, rule 3), but unique local ones of IPv6, which no such
// server can answer, behind all others (rule 6).
std::vector<Address> sources_to_internet(const LinkInfo& link);

// The interfaces by which the packets of a role leave in the end where the role's own is a tunnel; an empty name: it is
// none.
struct LowerInterfaces
{
  std::string wifi {};
  std::string cell {};
  bool operator==(const LowerInterfaces&) const = default;
};

// An interface of this machine, whether it has a role or not.
struct PresentInterface
{
  std::string name;
  bool useful = false; // up, with a default route
  Tick since {};       // when `useful` last changed
  bool operator==(const PresentInterface&) const = default;
};

class LinkTable
{
public:
  LinkTable() = default; // no role is filled
  // As assign().
  LinkTable(std::string wifi, std::string cell, const std::vector<std::string>& more_wifi = {});

  // Gives the roles to interfaces of these names; an empty name: the role is not filled. `more_wifi`: those of
  // wifi_link(1) and so on, at most most_wifi - 1; throws std::length_error when there are more. True when a role
  // changed. A role whose interface is a tunnel is up while the one in `lower` is, too, and has a default route for
  // each IP version of which it has an address; cell while the one in `lower` leads anywhere.
  bool assign(std::string wifi, std::string cell, const std::vector<std::string>& more_wifi, Tick now,
              LowerInterfaces lower = {});
  // All there are, by ifindex.
  std::vector<PresentInterface> present() const;

  // Each returns whether a role changed. Of an interface that is known, a message without an MTU is ignored.
  bool apply(const InterfaceNotification& notification, Tick now);
  bool apply(const AddressNotification& notification, Tick now);
  bool apply(const DefaultRouteNotification& notification, Tick now);
  // Before a complete new dump: forgets everything without a trace of it in `changed`, finish() compares.
  void begin_dump();
  bool finish_dump(Tick now);

  const LinkInfo& operator[](Link link) const;
  // The interface below the role's tunnel; the role's own where that is none.
  const LinkInfo& lower(Link link) const;
  // The interface without a role, and below none of wifi and cell, by which the best default route of the main table
  // leads, of either IP version; empty: none has it. What tunnels pack their packets into leaves by it. A further Wi-Fi
  // interface counts as one. Told only while the role wifi has a tunnel.
  const std::string& other_default() const { return other_default_; }
  // The role that owns a local address; Link::other when none does. Cheap: called for every new flow.
  Link owner(const Address& local) const;
  Link of_ifindex(int ifindex) const;
  // With the networks that this host is on by the link.
  bool is_local_peer(Link link, const Address& peer) const;
  // For modules. `at_risk` and `bytes_out` are not known here and not touched.
  void fill(LinkStates& states) const;

private:
  struct Held
  {
    Address address {};
    Network on_link {};
    bool deprecated = false;
    bool temporary = false;
  };
  struct Known
  {
    InterfaceNotification interface {
    };
    std::vector<Held> addresses {};
    std::vector<DefaultRouteNotification> routes {};
    bool useful() const { return interface.admin_up && interface.running && !routes.empty(); }
    bool is_source(const Held& held) const;
  };
  bool refresh(Tick now);
  bool refresh(LinkInfo& info, LinkInfo fresh, Tick now);
  LinkInfo derive(const std::string& name) const;
  std::string find_other_default() const;

  std::map<int, Known> known_ {};
  std::map<int, PresentInterface> present_ {}; // of the same; outlives a dump
  std::array<LinkInfo, link_count> roles_ {};
  std::array<LinkInfo, link_count> lower_ {}; // without a name: the role's own interface
  std::string other_default_ {};
  bool dumping_ = false;
};

} // namespace tandem::links
