// What the interfaces in the roles "wifi", "cell", "wifi2" .. are now, merged from kernel messages. Pure: no socket, no
// clock.
#pragma once

#include "src/kernel/interface_notification.h"

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
  std::optional<Address> gateway_v4 {};
  std::optional<Address> gateway_v6 {};
  bool default_v4 = false; // a default route by this interface exists
  bool default_v6 = false;
  Tick changed {}; // when `up` last changed
  bool operator==(const LinkInfo&) const = default;
  bool present() const { return ifindex != 0 && !addresses.empty(); }
};

class LinkTable
{
public:
  // Interface names; an empty name: the role is not filled. `more_wifi`: those of wifi_link(1) and so on, at most
  // most_wifi - 1. Throws std::length_error when there are more.
  LinkTable(std::string wifi, std::string cell, const std::vector<std::string>& more_wifi = {});

  // Each returns whether a role changed.
  bool apply(const InterfaceNotification& notification, Tick now);
  bool apply(const AddressNotification& notification, Tick now);
  bool apply(const DefaultRouteNotification& notification, Tick now);
  // Before a complete new dump: forgets everything without a trace of it in `changed`, finish() compares.
  void begin_dump();
  bool finish_dump(Tick now);

  const LinkInfo& operator[](Link link) const;
  // The role that owns a local address; Link::other when none does. Cheap: called for every new flow.
  Link owner(const Address& local) const;
  Link of_ifindex(int ifindex) const;
  // For modules. `at_risk` and `bytes_out` are not known here and not touched.
  void fill(LinkStates& states) const;

private:
  struct Known
  {
    InterfaceNotification interface {
    };
    std::vector<Address> addresses {};
    std::vector<DefaultRouteNotification> routes {};
  };
  bool refresh(Tick now);
  LinkInfo derive(const std::string& name) const;

  std::map<int, Known> known_ {};
  std::array<LinkInfo, link_count> roles_ {};
  bool dumping_ = false;
};

} // namespace tandem::links
