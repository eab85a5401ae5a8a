#include "src/kernel/pacing/interface_shaping.h"

#include "src/kernel/clock.h"
#include "src/kernel/pacing/pacing_plan.h"
#include "src/kernel/rtnetlink.h"
#include "src/kernel/socket_address.h"
#include "src/kernel/tcp_sockets.h"

#include <ifaddrs.h>
#include <linux/pkt_sched.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netlink/route/cls/u32.h>
#include <netlink/route/qdisc/htb.h>
#include <netlink/route/tc.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace tandem::kernel
{

namespace
{

constexpr std::uint32_t ours = TC_H_MAKE(0x7a4du << 16, 0); // of the discipline: by this number it is known as Tandem's
constexpr std::uint32_t unshaped = 1'250'000'000;           // bytes per second: a class that is about to go
constexpr std::uint32_t quantum = 20'000;      // bytes; by HTB's own reckoning the kernel complains about fast classes
constexpr double with_headers = 1514.0 / 1448; // HTB counts Ethernet frames, the socket's option what they carry
constexpr auto patience = std::chrono::milliseconds { 300 };

using Discipline = Owned<rtnl_qdisc>;
using Class = Owned<rtnl_class>;
using Filter = Owned<rtnl_cls>;

template <class Object>
Owned<Object> make(Object* (*allocate)(), int interface, std::uint32_t parent, std::uint32_t handle, const char* kind)
{
  Owned<Object> one { allocate() };
  if (!one) throw std::bad_alloc {};
  rtnl_tc_set_ifindex(TC_CAST(one.get()), interface);
  rtnl_tc_set_parent(TC_CAST(one.get()), parent);
  rtnl_tc_set_handle(TC_CAST(one.get()), handle);
  check_netlink("name a kind of tc", rtnl_tc_set_kind(TC_CAST(one.get()), kind));
  return one;
}

std::string name_of(int interface)
{
  std::array<char, IF_NAMESIZE> name {};
  return ::if_indextoname(static_cast<unsigned>(interface), name.data()) == nullptr
             ? "interface " + std::to_string(interface)
             : name.data();
}

// The interface that has the address; 0: none.
int interface_of(const Address& address)
{
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return 0;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all { list, ::freeifaddrs };
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next)
    if (read_address(one->ifa_addr) == address) return static_cast<int>(::if_nametoindex(one->ifa_name));
  return 0;
}

// Those of `cookies` that may still send.
std::map<std::uint64_t, FlowKey> senders(const std::set<std::uint64_t>& cookies)
{
  std::map<std::uint64_t, FlowKey> found {};
  each_tcp_socket(sending_states,
                  [&](const TcpSocket& one)
                  {
                    if (cookies.contains(one.cookie)) found.emplace(one.cookie, one.key);
                  });
  return found;
}

// The root discipline of an interface as the kernel tells it now.
struct Root
{
  std::uint32_t handle = 0; // 0: the kernel's own choice, or none
  std::string kind {};
  std::uint64_t waiting = 0; // packets
};

class Tc
{
public:
  // Of each interface that has a root discipline.
  void each_root(const std::function<void(int, const Root&)>& each) const
  {
    nl_cache* made = nullptr;
    check_netlink("list queueing disciplines", rtnl_qdisc_alloc_cache(socket_.get(), &made));
    const Owned<nl_cache> all { made };
    for (nl_object* object = nl_cache_get_first(made); object != nullptr; object = nl_cache_get_next(object))
    {
      auto* const tc = TC_CAST(reinterpret_cast<rtnl_qdisc*>(object));
      if (rtnl_tc_get_parent(tc) != TC_H_ROOT) continue;
      const char* kind = rtnl_tc_get_kind(tc);
      each(rtnl_tc_get_ifindex(tc), { .handle = rtnl_tc_get_handle(tc),
                                      .kind = kind == nullptr ? "" : kind,
                                      .waiting = rtnl_tc_get_stat(tc, RTNL_TC_QLEN) });
    }
  }

  Root root(int interface) const
  {
    Root found {};
    each_root(
        [&](int index, const Root& one)
        {
          if (index == interface) found = one;
        });
    return found;
  }

  void add_root(int interface) const
  {
    const Discipline one = make(rtnl_qdisc_alloc, interface, TC_H_ROOT, ours, "htb");
    check_netlink("HTB (sch_htb)", rtnl_qdisc_add(socket_.get(), one.get(), NLM_F_CREATE | NLM_F_EXCL));
  }

  void delete_root(int interface) const
  {
    const Discipline one = make(rtnl_qdisc_alloc, interface, TC_H_ROOT, ours, "htb");
    check_netlink("take HTB away", rtnl_qdisc_delete(socket_.get(), one.get()));
  }

  // Makes or changes it.
  void set_class(int interface, std::uint16_t number, std::uint32_t rate) const
  {
    const Class one = make(rtnl_class_alloc, interface, ours, ours | number, "htb");
    rtnl_htb_set_rate(one.get(), rate);
    rtnl_htb_set_ceil(one.get(), rate);
    rtnl_htb_set_quantum(one.get(), quantum);
    check_netlink("a class of HTB", rtnl_class_add(socket_.get(), one.get(), NLM_F_CREATE | NLM_F_REPLACE));
  }

  void delete_class(int interface, std::uint16_t number) const
  {
    const Class one = make(rtnl_class_alloc, interface, ours, ours | number, "htb");
    check_netlink("take a class of HTB away", rtnl_class_delete(socket_.get(), one.get()));
  }

  // Packets of the flow go to the class. Headers as Linux' TCP sends them: no options of IPv4, no extensions of IPv6.
  void add_filter(int interface, std::uint16_t number, const FlowKey& flow) const
  {
    const Filter one = filter(interface, number, flow);
    const auto key32 = [&](const Address& address, std::size_t word, int offset)
    {
      std::uint32_t value = 0;
      std::memcpy(&value, address.bytes.data() + 4 * word, sizeof value);
      check_netlink("a filter", rtnl_u32_add_key(one.get(), value, 0xffffffff, offset, 0));
    };
    const std::size_t words = flow.local.v6 ? 4 : 1;
    const int source = flow.local.v6 ? 8 : 12, ports = flow.local.v6 ? 40 : 20;
    for (std::size_t word = 0; word < words; ++word)
    {
      key32(flow.local, word, source + static_cast<int>(4 * word));
      key32(flow.remote, word, source + static_cast<int>(4 * (words + word)));
    }
    if (!flow.local.v6) check_netlink("a filter", rtnl_u32_add_key_uint8(one.get(), 0x45, 0xff, 0, 0));
    check_netlink("a filter", rtnl_u32_add_key_uint8(one.get(), IPPROTO_TCP, 0xff, flow.local.v6 ? 6 : 9, 0));
    check_netlink("a filter",
                  rtnl_u32_add_key_uint32(one.get(), std::uint32_t { flow.local_port } << 16 | flow.remote_port,
                                          0xffffffff, ports, 0));
    rtnl_u32_set_classid(one.get(), ours | number);
    rtnl_u32_set_cls_terminal(one.get());
    check_netlink("a filter (cls_u32)", rtnl_cls_add(socket_.get(), one.get(), NLM_F_CREATE | NLM_F_EXCL));
  }

  void delete_filter(int interface, std::uint16_t number, const FlowKey& flow) const
  {
    const Filter one = filter(interface, number, flow);
    check_netlink("take a filter away", rtnl_cls_delete(socket_.get(), one.get(), 0));
  }

  std::uint64_t waiting(int interface, std::uint16_t number) const
  {
    nl_cache* made = nullptr;
    check_netlink("list classes", rtnl_class_alloc_cache(socket_.get(), interface, &made));
    const Owned<nl_cache> all { made };
    const Class one { rtnl_class_get(made, interface, ours | number) };
    return one ? rtnl_tc_get_stat(TC_CAST(one.get()), RTNL_TC_QLEN) : 0;
  }

private:
  // The priority is the class's number, so that it names this filter alone.
  static Filter filter(int interface, std::uint16_t number, const FlowKey& flow)
  {
    Filter one = make(rtnl_cls_alloc, interface, ours, 0, "u32");
    rtnl_cls_set_prio(one.get(), number);
    rtnl_cls_set_protocol(one.get(), flow.local.v6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP);
    return one;
  }

  Owned<nl_sock> socket_ = routing_socket();
};

// False after `patience`.
template <class Condition>
bool soon(const Condition& condition)
{
  for (const Tick until = now() + patience; !condition(); ::poll(nullptr, 0, 5))
    if (now() >= until) return false;
  return true;
}

class Shaping final : public SocketPacing
{
public:
  ~Shaping() override
  {
    // clang 14 captures no structured binding (C++20 allows it).
    for (const auto& one : classes_)
      attempt([&] { take_away(one.second); });
    for (const int interface : interfaces_)
      attempt([&] { tc_.delete_root(interface); });
  }
  Shaping() = default;
  Shaping(const Shaping&) = delete;
  Shaping& operator=(const Shaping&) = delete;

  std::string why() const override { return {}; }
  std::string how() const override { return "HTB"; }
  bool leaves_traces() const override { return false; } // they are known by their handle
  std::string recovered() const override { return recovered_; }
  bool untidy() const override
  {
    return std::any_of(interfaces_.begin(), interfaces_.end(), [this](int one) { return !used(one); });
  }

  void apply(std::span<SocketPace> sockets) override
  {
    std::set<std::uint64_t> cookies {};
    for (const SocketPace& one : sockets)
      cookies.insert(one.cookie);
    const auto there = senders(cookies);
    for (SocketPace& one : sockets)
    {
      const auto flow = there.find(one.cookie);
      const auto known = classes_.find(one.cookie);
      one.found = flow != there.end();
      one.before = one.found && known != classes_.end() ? known->second.rate : pacing_unlimited;
      try
      {
        if (!one.found || (one.set == pacing_unlimited && one.only_if == one.before))
          forget(one.cookie);
        else if (one.set != 0 && one.only_if == one.before)
          bound(one.cookie, flow->second, one.set);
      }
      catch (const std::runtime_error& error)
      {
        one.error = error.what();
      }
    }
    tidy();
  }

private:
  struct Shaped
  {
    int interface = 0;
    std::uint16_t number = 0; // of its class
    std::uint32_t rate = 0;   // as asked for
    FlowKey flow {};
  };

  template <class Step>
  static void attempt(const Step& step) noexcept
  {
    try
    {
      step();
    }
    catch (const std::exception&)
    {
      // The interface has gone, or somebody else has taken it away.
    }
  }

  static std::uint32_t on_the_wire(std::uint32_t rate)
  {
    return static_cast<std::uint32_t>(std::min<double>(rate * with_headers, unshaped));
  }

  void bound(std::uint64_t cookie, const FlowKey& flow, std::uint32_t rate)
  {
    if (const auto known = classes_.find(cookie); known != classes_.end())
    {
      tc_.set_class(known->second.interface, known->second.number, on_the_wire(rate));
      known->second.rate = rate;
      return;
    }
    const int interface = interface_of(flow.local);
    if (interface == 0) throw std::runtime_error { "no interface has its address" };
    prepare(interface);
    const Shaped one { .interface = interface, .number = free_number(), .rate = rate, .flow = flow };
    tc_.set_class(interface, one.number, on_the_wire(rate));
    try
    {
      tc_.add_filter(interface, one.number, flow);
    }
    catch (const std::runtime_error&)
    {
      attempt([&] { tc_.delete_class(interface, one.number); });
      throw;
    }
    classes_.emplace(cookie, one);
  }

  // HTB in place of what the kernel chose by itself. What waits in a discipline that is replaced is lost.
  void prepare(int interface)
  {
    const Root now = tc_.root(interface);
    if (now.handle == ours) return;
    if (now.handle != 0)
      throw std::runtime_error { name_of(interface) + " has a queueing discipline that somebody has chosen (" + now.kind
                                 + "), which stays" };
    if (now.waiting > 0)
      throw std::runtime_error { std::to_string(now.waiting) + " packets wait at " + name_of(interface)
                                 + ", which would be lost" };
    tc_.add_root(interface);
    interfaces_.insert(interface);
  }

  std::uint16_t free_number() const
  {
    std::uint16_t number = 1;
    for (bool taken = true; taken;)
    {
      taken =
          std::any_of(classes_.begin(), classes_.end(), [&](const auto& one) { return one.second.number == number; });
      if (taken) ++number;
    }
    return number;
  }

  void forget(std::uint64_t cookie)
  {
    const auto known = classes_.find(cookie);
    if (known == classes_.end()) return;
    const Shaped one = known->second;
    classes_.erase(known);
    attempt([&] { take_away(one); });
  }

  // What waits leaves first, so that nothing overtakes it.
  void take_away(const Shaped& one) const
  {
    tc_.set_class(one.interface, one.number, unshaped);
    static_cast<void>(soon([&] { return tc_.waiting(one.interface, one.number) == 0; }));
    tc_.delete_filter(one.interface, one.number, one.flow);
    tc_.delete_class(one.interface, one.number);
  }

  bool used(int interface) const
  {
    return std::any_of(classes_.begin(), classes_.end(),
                       [&](const auto& one) { return one.second.interface == interface; });
  }

  // An interface without a class has its own discipline again; if packets always wait there, at the next look.
  void tidy()
  {
    for (auto at = interfaces_.begin(); at != interfaces_.end();)
    {
      const int interface = *at;
      bool gone = false;
      if (!used(interface))
        attempt(
            [&]
            {
              const auto empty = [&]
              {
                const Root now = tc_.root(interface);
                gone = now.handle != ours;
                return gone || now.waiting == 0;
              };
              if (!soon(empty) || gone) return;
              tc_.delete_root(interface);
              gone = true;
            });
      at = gone ? interfaces_.erase(at) : std::next(at);
    }
  }

  std::string recovered_ = clear_shaping();
  Tc tc_ {};
  std::map<std::uint64_t, Shaped> classes_ {}; // by cookie
  std::set<int> interfaces_ {};                // that have Tandem's discipline
};

} // namespace

std::string clear_shaping() noexcept
try
{
  const Tc tc {};
  std::set<int> left {};
  tc.each_root(
      [&](int interface, const Root& one)
      {
        if (one.handle == ours && one.kind == "htb") left.insert(interface);
      });
  std::string names {};
  for (const int interface : left)
  {
    tc.delete_root(interface);
    names += (names.empty() ? "" : ", ") + name_of(interface);
  }
  return names.empty() ? names : "uploads were still shaped at " + names + " by a killed run; put back";
}
catch (const std::exception&)
{
  return {}; // without the right to, nothing was made either
}

std::string probe_shaping()
{
  std::string why {};
  // A network namespace is a thread's, and goes with it.
  std::thread {
    [&why]
    {
      try
      {
        const int refused = ::unshare(CLONE_NEWNET) == 0 ? 0 : errno;
        if (refused == EPERM) return; // a service: its own confinement is no fault of the kernel's
        if (refused != 0)
          throw std::system_error { refused, std::generic_category(), "a network namespace to try it in" };
        constexpr int loopback = 1;
        const Tc tc {};
        tc.add_root(loopback);
        tc.set_class(loopback, 1, 1'000'000);
        tc.add_filter(loopback, 1, {});
      }
      catch (const std::exception& error)
      {
        why = error.what();
      }
    }
  }.join();
  return why;
}

std::unique_ptr<SocketPacing> make_interface_shaping()
{
  return std::make_unique<Shaping>();
}

} // namespace tandem::kernel
