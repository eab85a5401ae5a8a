#include "src/association/dhcp.h"

#include "src/kernel/command.h"

#include <arpa/inet.h>
#include <ifaddrs.h>

#include <array>
#include <bit>
#include <charconv>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::association
{
namespace
{

// The word behind `key` in "lease ip=192.0.2.7 mask=24 ...".
std::string_view word(std::string_view line, std::string_view key)
{
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + key.size());
  return line.substr(0, line.find_first_of(" \n"));
}

template <class Number>
std::optional<Number> number(std::string_view text)
{
  Number value {};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc {} || end != text.data() + text.size()) return {};
  return value;
}

// Of a host.
bool is_address(const std::string& text)
{
  in_addr parsed {};
  if (text.find('\0') != std::string::npos) return false; // inet_pton ends there, whoever takes the text does not
  if (::inet_pton(AF_INET, text.c_str(), &parsed) != 1) return false;
  // RFC 1122, 3.2.1.3: "this network" and loopback; RFC 1112, section 4: from 224 on, no hosts.
  const unsigned first = ntohl(parsed.s_addr) >> 24;
  return first != 0 && first != 127 && first < 224;
}

// Whoever runs an access point answers by DHCP. The route to its network is more specific than the default one, and no
// network is larger: half of the Internet is not let in by it.
constexpr unsigned largest_network = 8;

// The end of what a program said, for a sentence.
std::string last_line(std::string text)
{
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

DhcpExchange::Result exchange(const std::string& interface, const std::string& script, const std::string& before)
{
  // Without a network udhcpc asks without a pause, so that it needs an end from outside.
  std::vector<std::string> words { "timeout", "-s", "KILL", "12" };
  std::vector<std::string> its { "-i", interface, "-f", "-n", "-q", "-t", "4", "-T", "2", "-s", script };
  if (!before.empty()) its.insert(its.end(), { "-r", before });
  kernel::CommandResult told {};
  for (const std::vector<std::string>& name : { std::vector<std::string> { "busybox", "udhcpc" }, { "udhcpc" } })
  {
    std::vector<std::string> all = words;
    all.insert(all.end(), name.begin(), name.end());
    all.insert(all.end(), its.begin(), its.end());
    told = kernel::run(all);
    // 127: not there; 1 without a word of its own: a BusyBox without udhcpc says "applet not found".
    if (!told.missing() && told.errors.find("applet not found") == std::string::npos) break;
  }
  if (told.missing() || told.errors.find("applet not found") != std::string::npos)
    return { {}, "udhcpc is not installed (apt-get install udhcpc)" };
  if (auto lease = parse_lease(told.output)) return { std::move(lease), {} };
  if (told.ok()) return { {}, "the DHCP server's answer cannot be used" };
  return { {}, "no DHCP server answered (" + last_line(told.errors).substr(0, 100) + ")" };
}

} // namespace

std::optional<kernel::InterfaceAddress> parse_lease(std::string_view output)
{
  const std::size_t at = output.find("lease ip=");
  if (at == std::string_view::npos) return {};
  const std::string_view line = output.substr(at, output.find('\n', at) - at);
  kernel::InterfaceAddress one { .address = std::string { word(line, " ip=") },
                                 .gateway = std::string { word(line, " router=") } };
  const auto prefix = number<unsigned>(word(line, " mask="));
  const auto life = number<std::uint32_t>(word(line, " lease="));
  if (!is_address(one.address) || !prefix || *prefix < largest_network || *prefix > 32) return {};
  if (!one.gateway.empty() && !is_address(one.gateway)) return {};
  if (life == 0u) return {}; // as InterfaceAddress has it that would be for ever
  one.prefix = *prefix;
  if (life && *life != UINT32_MAX) one.lifetime = std::chrono::seconds { *life };
  return one;
}

std::vector<Neighbour> neighbours(const std::string& interface)
{
  std::vector<Neighbour> all {};
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next)
  {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || one->ifa_netmask == nullptr) continue;
    if (interface == one->ifa_name) continue;
    std::array<char, INET_ADDRSTRLEN> text {};
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text.data(), text.size());
    const auto mask = reinterpret_cast<const sockaddr_in*>(one->ifa_netmask)->sin_addr.s_addr;
    all.push_back({ one->ifa_name, text.data(), static_cast<unsigned>(std::popcount(mask)) });
  }
  ::freeifaddrs(list);
  return all;
}

std::string objection(const kernel::InterfaceAddress& lease, const std::vector<Neighbour>& others)
{
  const Neighbour* around = nullptr; // the smallest network that the lease's is in
  for (const Neighbour& one : others)
  {
    if (one.address == lease.address) return "it is that of " + one.interface + ", too";
    if (one.prefix > lease.prefix) continue;
    if (kernel::network_of(lease.address, one.prefix) != kernel::network_of(one.address, one.prefix)) continue;
    if (around == nullptr || one.prefix > around->prefix) around = &one;
  }
  if (around == nullptr || around->prefix == lease.prefix) return {};
  return "its network (/" + std::to_string(lease.prefix) + ") is a part of that of " + around->interface + " (/"
         + std::to_string(around->prefix) + "), which would be cut off";
}

struct DhcpExchange::Shared
{
  std::mutex mutex {};
  std::optional<Result> result {};
};

DhcpExchange::DhcpExchange(const std::string& interface, const std::string& script, const std::string& before)
    : shared_ { std::make_shared<Shared>() }
{
  try
  {
    std::thread {
      [shared = shared_, interface, script, before]
      {
        Result result = exchange(interface, script, before);
        const std::lock_guard guard { shared->mutex };
        shared->result = std::move(result);
      }
    }.detach();
  }
  catch (const std::system_error& fault) // whoever limits the daemon's threads must not end it
  {
    shared_->result = Result { {}, std::string { "no thread to ask for an address: " } + fault.what() };
  }
}

std::optional<DhcpExchange::Result> DhcpExchange::result() const
{
  const std::lock_guard guard { shared_->mutex };
  return shared_->result;
}

} // namespace tandem::association
