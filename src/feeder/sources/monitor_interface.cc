#include "src/feeder/sources/monitor_source.h"
#include "src/feeder/sources/nl80211_decode.h"
#include "src/feeder/sources/nl80211_socket.h"
#include "src/kernel/fd.h"

#include <linux/nl80211.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

namespace tandem::feeder
{

namespace
{

ifreq named(const std::string& name)
{
  ifreq request {};
  std::strncpy(request.ifr_name, name.c_str(), sizeof request.ifr_name - 1);
  return request;
}

int bring_up(const std::string& name)
{
  const kernel::Fd socket { ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
  ifreq request = named(name);
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return errno;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0 ? 0 : errno;
}

std::optional<nl80211::Interface> find(nl80211::Socket& socket, const std::string& name, int& error)
{
  std::optional<nl80211::Interface> found {};
  const std::uint32_t ifindex = if_nametoindex(name.c_str());
  error = ENODEV;
  if (ifindex == 0) return {};
  error = socket.ask(
      NL80211_CMD_GET_INTERFACE, false, [ifindex](nl_msg* m) { nla_put_u32(m, NL80211_ATTR_IFINDEX, ifindex); },
      [&](std::span<const std::byte> bytes) { found = nl80211::decode_interface(bytes); });
  return found;
}

int remove_by(nl80211::Socket& socket, std::uint32_t ifindex)
{
  return socket.ask(
      NL80211_CMD_DEL_INTERFACE, false, [ifindex](nl_msg* m) { nla_put_u32(m, NL80211_ATTR_IFINDEX, ifindex); },
      nullptr);
}

int create(nl80211::Socket& socket, std::uint32_t wiphy, const std::string& name, std::initializer_list<int> flags)
{
  return socket.ask(
      NL80211_CMD_NEW_INTERFACE, false,
      [&](nl_msg* m)
      {
        nla_put_u32(m, NL80211_ATTR_WIPHY, wiphy);
        nla_put_string(m, NL80211_ATTR_IFNAME, name.c_str());
        nla_put_u32(m, NL80211_ATTR_IFTYPE, NL80211_IFTYPE_MONITOR);
        nlattr* nest = nla_nest_start(m, NL80211_ATTR_MNTR_FLAGS);
        for (const int flag : flags)
          nla_put_flag(m, flag);
        nla_nest_end(m, nest);
      },
      nullptr);
}

std::mutex names_mutex {};
std::set<std::string>& names()
{
  static std::set<std::string> taken {};
  return taken;
}

// Ours by its name, a number behind the prefix, and no object's of this process.
bool is_left_behind(const nl80211::Interface& one)
{
  if (one.type != NL80211_IFTYPE_MONITOR || !one.name.starts_with(MonitorName::prefix)) return false;
  const std::string_view number = std::string_view { one.name }.substr(std::strlen(MonitorName::prefix));
  if (number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos) return false;
  const std::lock_guard guard { names_mutex };
  return !names().contains(one.name);
}

} // namespace

void remove_left_monitors()
{
  nl80211::Socket socket {};
  if (socket.open() != 0) return; // no Wi-Fi here
  std::vector<std::uint32_t> left {};
  static_cast<void>(socket.ask(
      NL80211_CMD_GET_INTERFACE, true, [](nl_msg*) {},
      [&left](std::span<const std::byte> bytes)
      {
        if (const auto one = nl80211::decode_interface(bytes); one && is_left_behind(*one))
          left.push_back(one->ifindex);
      }));
  for (const std::uint32_t ifindex : left)
    static_cast<void>(remove_by(socket, ifindex));
}

MonitorName::MonitorName()
{
  const std::lock_guard guard { names_mutex };
  unsigned number = 0;
  do
    text_ = prefix + std::to_string(number++);
  while (!names().insert(text_).second);
}

MonitorName::~MonitorName()
{
  const std::lock_guard guard { names_mutex };
  names().erase(text_);
}

bool interface_is_up(const std::string& name)
{
  const kernel::Fd socket { ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
  ifreq request = named(name);
  return ::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0;
}

bool MonitorInterface::fails(const std::string& what, int error)
{
  problem_ = nl80211::Socket::explain(what, error);
  if (error == ERFKILL) problem_ += "; the radio is switched off, see `rfkill`";
  return false;
}

bool MonitorInterface::make(const std::string& wifi)
{
  remove();
  problem_.clear();
  note_.clear();
  if (!name_) name_.emplace();
  const std::string& own_name = name_->text();
  nl80211::Socket socket {};
  if (const int error = socket.open(); error != 0) return fails("monitor interface", error);
  int error = 0;
  const auto beside = find(socket, wifi, error);
  if (!beside) return fails("monitor interface beside " + wifi, error != 0 ? error : ENODEV);
  if (if_nametoindex(own_name.c_str()) != 0)
  {
    const auto old = find(socket, own_name, error);
    if (!old || old->type != NL80211_IFTYPE_MONITOR)
    {
      problem_ = own_name + " is there already, and is no monitor interface; remove or rename it";
      return false;
    }
    if (error = remove_by(socket, old->ifindex); error != 0)
      return fails("removing the " + own_name + " of an earlier run", error);
  }
  error = create(socket, beside->wiphy, own_name,
                 { NL80211_MNTR_FLAG_FCSFAIL, NL80211_MNTR_FLAG_OTHER_BSS, NL80211_MNTR_FLAG_CONTROL });
  if (error != 0 && error != EPERM)
  {
    const int with_damaged = error;
    error = create(socket, beside->wiphy, own_name, { NL80211_MNTR_FLAG_OTHER_BSS, NL80211_MNTR_FLAG_CONTROL });
    if (error != 0 && error != EPERM) error = create(socket, beside->wiphy, own_name, {});
    if (error == 0) note_ = nl80211::Socket::explain("damaged frames are not delivered: asking for them", with_damaged);
  }
  if (error != 0) return fails("making the monitor interface " + own_name, error);
  made_ = true;
  if (error = bring_up(own_name); error != 0)
  {
    remove();
    return fails("bringing " + own_name + " up", error);
  }
  return true;
}

void MonitorInterface::remove()
{
  if (!made_) return;
  made_ = false;
  nl80211::Socket socket {};
  int error = socket.open();
  if (error != 0) return; // the next start finds it
  const auto mine = find(socket, name_->text(), error);
  if (mine && mine->type == NL80211_IFTYPE_MONITOR) remove_by(socket, mine->ifindex);
}

} // namespace tandem::feeder
