#include "src/association/card.h"

#include "src/feeder/sources/nl80211_decode.h"

#include <linux/nl80211.h>
#include <net/if.h>
#include <netlink/attr.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

namespace tandem::association
{

namespace nl80211 = feeder::nl80211;

namespace
{

// Locally administered, and another one for each station (IEEE 802, 8.2): drivers tell their stations apart by it.
Mac address_of(Mac mac, unsigned number)
{
  mac[0] = static_cast<std::uint8_t>((mac[0] | 0x02u) ^ ((number + 1) << 2 & 0xfcu));
  return mac;
}

} // namespace

bool Card::open()
{
  if (socket_) return true;
  const int error = socket_.open();
  if (error != 0) problem_ = nl80211::Socket::explain("nl80211", error);
  return error == 0;
}

int Card::ask(std::uint8_t command, bool dump, std::uint32_t ifindex, const nl80211::Socket::Take& take)
{
  if (!open()) return ENOTCONN;
  return socket_.ask(
      command, dump,
      [&](nl_msg* m)
      {
        if (ifindex != 0) nla_put_u32(m, NL80211_ATTR_IFINDEX, ifindex);
        if (command == NL80211_CMD_GET_WIPHY) nla_put_flag(m, NL80211_ATTR_SPLIT_WIPHY_DUMP);
      },
      take);
}

std::optional<Card::View> Card::look(const std::string& interface)
{
  View view { .ifindex = if_nametoindex(interface.c_str()) };
  const auto fails = [&](const char* what, int error)
  {
    problem_ = nl80211::Socket::explain(what + (" " + interface), error);
    return std::nullopt;
  };
  if (view.ifindex == 0) return fails("looking for", ENODEV);
  if (!open()) return std::nullopt; // and problem_ says why: mostly that there is no Wi-Fi driver
  std::optional<nl80211::Interface> known {};
  int error = ask(NL80211_CMD_GET_INTERFACE, false, view.ifindex,
                  [&](std::span<const std::byte> bytes) { known = nl80211::decode_interface(bytes); });
  if (error != 0 || !known) return fails("asking for", error != 0 ? error : ENODEV);
  if (!known->is_client())
  {
    problem_ = interface + " is no station now, but an access point or a monitor; see `iw dev`";
    return std::nullopt;
  }
  view.wiphy = known->wiphy;
  view.mac = known->mac.value_or(Mac {});

  nl80211::Wiphy abilities {};
  error =
      ask(NL80211_CMD_GET_WIPHY, true, view.ifindex, [&](std::span<const std::byte> bytes) { abilities.take(bytes); });
  if (error != 0) return fails("asking for the abilities of", error);
  view.stations = std::max(1u, abilities.stations.value_or(1));
  view.channels = std::max(1u, abilities.channels.value_or(1));
  view.stations_apart = abilities.stations_apart.value_or(0);
  view.channels_apart = abilities.channels_apart.value_or(0);

  std::set<Mac> ours {}; // one, or a link each (802.11be)
  error = ask(NL80211_CMD_GET_SCAN, true, view.ifindex,
              [&](std::span<const std::byte> bytes)
              {
                const auto message = nl80211::decode(bytes);
                if (!message) return;
                const auto* one = std::get_if<feeder::Candidate>(&message->what);
                if (one == nullptr) return;
                view.heard.push_back({ one->ap, one->ssid, one->frequency, one->signal, one->age });
                if (one->associated) ours.insert(one->ap);
              });
  if (error != 0 && error != EAGAIN) return fails("reading what is heard by", error);
  view.heard = newest(view.heard);
  std::optional<Association> its {};
  error = ask_station(view.ifindex, its);
  // Not every driver tells; which is another thing than one that has no time.
  if (error == ETIMEDOUT || error == ENOBUFS) return fails("asking for the access point of", error);
  if (its)
    view.ap = its->ap;
  else if (error != 0 && !ours.empty())
    view.ap = *ours.begin();
  // By several links the kernel tells the address of the whole, which need not be one of theirs, and is never heard.
  if (view.ap && ours.size() >= 2 && heard_of(view.heard, *view.ap) == nullptr) view.ap = *ours.begin();
  // The other links of the same association are no other access points.
  if (view.ap && heard_of(view.heard, *view.ap) != nullptr)
    std::erase_if(view.heard, [&](const Heard& one) { return one.ap != *view.ap && ours.contains(one.ap); });
  // Asked one after the other: the card may have moved in between.
  if (view.ap && ours.contains(*view.ap)) view.links = std::move(ours);
  problem_.clear();
  return view;
}

std::optional<Card::Association> Card::association(const std::string& interface)
{
  const std::uint32_t ifindex = if_nametoindex(interface.c_str());
  std::optional<Association> found {};
  if (ifindex != 0) static_cast<void>(ask_station(ifindex, found));
  return found;
}

// The entry of the access point is there from the association on; hostapd's other stations are not ours.
int Card::ask_station(std::uint32_t ifindex, std::optional<Association>& found)
{
  return ask(NL80211_CMD_GET_STATION, true, ifindex,
             [&](std::span<const std::byte> bytes)
             {
               const auto message = nl80211::decode(bytes);
               if (!message) return;
               if (const auto* one = std::get_if<feeder::StationStats>(&message->what))
                 found = { one->ap, one->signal_average ? one->signal_average : one->signal };
             });
}

std::vector<std::string> Card::made()
{
  std::vector<std::string> names {};
  static_cast<void>(ask(NL80211_CMD_GET_INTERFACE, true, 0,
                        [&](std::span<const std::byte> bytes)
                        {
                          const auto one = nl80211::decode_interface(bytes);
                          if (one && one->name.starts_with(own_prefix) && one->type == NL80211_IFTYPE_STATION)
                            names.push_back(one->name);
                        }));
  return names;
}

std::string Card::make(const View& beside, unsigned number)
{
  const std::string name = own_prefix + std::to_string(number);
  if (const std::uint32_t there = if_nametoindex(name.c_str()); there != 0)
  {
    const auto left = left_.find(name);
    if (left == left_.end() || left->second != there)
      return name + " is there already, and is not Tandem's; remove or rename it";
    if (const int error = take_away(name); error != 0)
      return nl80211::Socket::explain("removing the virtual station " + name + " of before", error);
  }
  if (!open()) return problem_;
  const Mac mac = address_of(beside.mac, number);
  const int error = socket_.ask(
      NL80211_CMD_NEW_INTERFACE, false,
      [&](nl_msg* m)
      {
        nla_put_u32(m, NL80211_ATTR_WIPHY, beside.wiphy);
        nla_put_string(m, NL80211_ATTR_IFNAME, name.c_str());
        nla_put_u32(m, NL80211_ATTR_IFTYPE, NL80211_IFTYPE_STATION);
        nla_put(m, NL80211_ATTR_MAC, static_cast<int>(mac.size()), mac.data());
      },
      nullptr);
  return error == 0 ? std::string {} : nl80211::Socket::explain("making the virtual station " + name, error);
}

int Card::take_away(const std::string& name)
{
  left_.erase(name);
  const std::uint32_t ifindex = if_nametoindex(name.c_str());
  if (ifindex == 0) return 0;
  std::optional<nl80211::Interface> known {};
  int error = ask(NL80211_CMD_GET_INTERFACE, false, ifindex,
                  [&](std::span<const std::byte> bytes) { known = nl80211::decode_interface(bytes); });
  if (error == ENODEV || (error == 0 && !(known && known->type == NL80211_IFTYPE_STATION))) return 0;
  if (error == 0) error = ask(NL80211_CMD_DEL_INTERFACE, false, ifindex, nullptr);
  if (error != 0) left_[name] = ifindex;
  return error;
}

} // namespace tandem::association
