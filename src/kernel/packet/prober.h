// Asks the gateway of an interface whether it is there: ARP for IPv4, neighbour solicitation for IPv6, ICMP echo where
// an interface has neither. Never blocks; needs CAP_NET_RAW.
#pragma once

#include "src/kernel/fd.h"
#include "src/kernel/packet/probe_answer.h"

#include <tandem/segment.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::kernel
{

// The interface's hardware address; nothing when it has none or does not exist.
std::optional<std::array<std::uint8_t, 6>> hardware_address(const std::string& interface);

class Prober
{
public:
  struct Target
  {
    std::string interface;
    int ifindex = 0;
    bool point_to_point = false;
    std::optional<Address> source_v4 {};
    std::optional<Address> gateway_v4 {};
    std::optional<Address> gateway_v6 {};
    bool operator==(const Target&) const = default;
  };

  // Whom to ask from now on; IPv4 is preferred. False when nobody can be asked (no gateway, or no permission: see
  // why()).
  bool aim(const Target& target);
  const Target& target() const { return target_; }
  std::string_view way() const; // "arp", "neighbour solicitation", "echo", "none"
  const std::string& why() const { return why_; }

  int fd() const { return socket_.get(); } // -1 while there is nobody to ask
  // False when the kernel did not take it (interface down, queue full).
  bool send() noexcept;
  // Takes in what has come; returns how many answers of the gateway were among it.
  int receive() noexcept;

private:
  void find_neighbour() noexcept;

  Target target_ {};
  ProbeWay way_ = ProbeWay::none;
  Fd socket_ {};
  std::string why_;
  std::array<std::uint8_t, 6> own_ {};
  std::optional<std::array<std::uint8_t, 6>>
      neighbour_ {}; // unicast is acknowledged by the access point, and disturbs nobody
  std::uint32_t unanswered_ = 0;
  std::uint16_t sequence_ = 0;
};

} // namespace tandem::kernel
