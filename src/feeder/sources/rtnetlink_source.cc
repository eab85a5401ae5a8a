#include "src/feeder/sources/rtnetlink_source.h"

#include "src/kernel/rtnetlink.h"

#include <linux/if.h>
#include <linux/rtnetlink.h>

#include <exception>
#include <map>

namespace tandem::feeder
{

struct RtnetlinkSource::Socket
{
  explicit Socket(const std::vector<std::string>& interfaces)
  {
    for (const std::string& interface : interfaces)
      state[interface] = { .interface = interface, .gone = true };
    // Listening starts before the dump: a change in between is seen twice rather than never.
    listening = kernel::listening_socket({ RTNLGRP_LINK }, taker);
    asking = kernel::routing_socket();
    read_all();
    changes.clear(); // each once, those that are not there, too
    for (const auto& [name, change] : state)
      changes.push_back(change);
  }

  void take(nl_object* object)
  {
    const int type = nl_object_get_msgtype(object);
    if (type != RTM_NEWLINK && type != RTM_DELLINK) return;
    auto* link = reinterpret_cast<rtnl_link*>(object);
    // Bridges and wireless drivers report in families of their own; those do not describe the interface.
    if (rtnl_link_get_family(link) == AF_UNSPEC) apply(link, type == RTM_DELLINK);
  }

  void apply(rtnl_link* link, bool gone)
  {
    const kernel::InterfaceNotification notification = kernel::read_link(link, gone);
    // Renamed: what had the name before is no longer there.
    for (auto& [name, known] : state)
      if (known.ifindex == notification.ifindex && !known.gone && name != notification.name)
        set({ .interface = name, .gone = true });
    if (!state.contains(notification.name)) return;
    // An interface that has taken the name of one that went is not gone with that one.
    if (gone && state[notification.name].ifindex != notification.ifindex) return;
    set(gone ? InterfaceChange { .interface = notification.name, .gone = true }
             : InterfaceChange { .interface = notification.name,
                                 .ifindex = notification.ifindex,
                                 .up = notification.admin_up,
                                 .carrier = (rtnl_link_get_flags(link) & IFF_LOWER_UP) != 0 });
  }

  void set(const InterfaceChange& now)
  {
    InterfaceChange& known = state[now.interface];
    if (known == now) return;
    known = now;
    changes.push_back(now);
  }

  // Throws std::runtime_error.
  void read_all()
  {
    nl_cache* raw = nullptr;
    kernel::check_netlink("read the interfaces", rtnl_link_alloc_cache(asking.get(), AF_UNSPEC, &raw));
    const kernel::Owned<nl_cache> cache { raw };
    std::map<std::string, InterfaceChange> before = state;
    for (nl_object* object = nl_cache_get_first(raw); object; object = nl_cache_get_next(object))
    {
      auto* link = reinterpret_cast<rtnl_link*>(object);
      apply(link, false);
      if (const char* name = rtnl_link_get_name(link)) before.erase(name);
    }
    for (const auto& [name, known] : before)
      set({ .interface = name, .gone = true });
  }

  std::map<std::string, InterfaceChange> state {};
  std::vector<InterfaceChange> changes {}; // not told yet
  std::function<void(nl_object*)> taker = [this](nl_object* object) { take(object); };
  kernel::Owned<nl_sock> asking {}, listening {};
};

RtnetlinkSource::RtnetlinkSource(std::vector<std::string> interfaces) : interfaces_ { std::move(interfaces) } {}

RtnetlinkSource::~RtnetlinkSource() = default;

int RtnetlinkSource::fd() const
{
  return socket_ ? nl_socket_get_fd(socket_->listening.get()) : -1;
}

Tick RtnetlinkSource::due() const
{
  return socket_ && !socket_->changes.empty() ? Tick {} : Tick::max();
}

bool RtnetlinkSource::receive(Tick now, std::vector<Report>& reports)
{
  if (!socket_) return false;
  try
  {
    int failure = 0;
    if (kernel::receive_all(socket_->listening.get(), &failure))
    {
      ++overruns_;
      socket_->read_all();
    }
    kernel::check_netlink("receive link changes", failure);
  }
  catch (const std::exception& error)
  {
    problem_ = std::string { error.what() } + "; it is tried again";
  }
  for (const InterfaceChange& change : socket_->changes)
    reports.push_back({ now, change });
  socket_->changes.clear();
  if (!problem_.empty()) socket_.reset();
  return problem_.empty();
}

void RtnetlinkSource::set_interfaces(const std::vector<std::string>& interfaces)
{
  if (interfaces == interfaces_) return;
  interfaces_ = interfaces;
  if (socket_) reopen({});
}

bool RtnetlinkSource::reopen(Tick)
{
  problem_.clear();
  try
  {
    socket_ = std::make_unique<Socket>(interfaces_);
  }
  catch (const std::exception& error)
  {
    socket_.reset();
    problem_ = std::string { error.what() } + "; it is tried again";
  }
  return problem_.empty();
}

} // namespace tandem::feeder
