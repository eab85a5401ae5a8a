#include "src/kernel/rules/rules.h"

#include "src/kernel/json_fields.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>

namespace tandem::kernel
{

namespace
{

void check_cidr(const std::string& field, const std::string& text, bool prefix_allowed)
{
  const char* allowed = prefix_allowed ? "an IPv4 or IPv6 address, with or without /PREFIX" : "an IPv4 or IPv6 address";
  std::size_t slash = text.find('/');
  std::string address = text.substr(0, slash);
  std::array<unsigned char, 16> bytes;
  int bits = inet_pton(AF_INET, address.c_str(), bytes.data()) == 1    ? 32
             : inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1 ? 128
                                                                       : 0;
  if (bits == 0) refuse(field, text, allowed);
  if (slash == std::string::npos) return;
  std::string prefix = text.substr(slash + 1);
  if (!prefix_allowed || prefix.empty() || prefix.size() > 3
      || !std::all_of(prefix.begin(), prefix.end(), [](unsigned char c) { return std::isdigit(c); })
      || std::stoi(prefix) > bits)
    refuse(field, text, allowed);
}

void check_bits(const std::string& field, const MarkBits& bits)
{
  if (bits.value == 0 || (bits.value & ~bits.mask) != 0)
    refuse(field, std::to_string(bits.value) + "/" + std::to_string(bits.mask),
           "a value that is not zero and within its mask");
}

} // namespace

void refuse(const std::string& field, const std::string& value, const std::string& allowed)
{
  throw std::invalid_argument { field + ": \"" + value + "\" is not allowed: " + allowed };
}

void check_interface(const std::string& field, const std::string& name)
{
  auto fine = [](unsigned char c)
  { return std::isalnum(c) || c == '_' || c == '.' || c == '-' || c == ':' || c == '@'; };
  if (name.empty() || name.size() > 15 || !std::all_of(name.begin(), name.end(), fine) || name == "." || name == "..")
    refuse(field, name, "an interface name has 1 to 15 letters, digits or any of _ . - : @");
}

void check_address(const std::string& field, const std::string& text)
{
  check_cidr(field, text, false);
}

void check_network(const std::string& field, const std::string& text)
{
  check_cidr(field, text, true);
}

void validate(const RulePlan& plan)
{
  if (plan.traffic != 0 || !plan.wifi.empty()) check_interface("wifi", plan.wifi);
  if (!plan.cell.empty()) check_interface("cell", plan.cell);
  for (const auto& address : plan.wifi_addresses)
    check_cidr("wifi_addresses", address, false);
  for (const auto& cidr : plan.exempt_local)
    check_cidr("exempt_local", cidr, true);
  for (const auto& cidr : plan.exempt_remote)
    check_cidr("exempt_remote", cidr, true);
  check_bits("marks.by_cell", plan.marks.by_cell);
  check_bits("marks.injected", plan.marks.injected);
  check_bits("marks.release", plan.marks.release);
  const std::uint32_t a = plan.marks.by_cell.mask, b = plan.marks.injected.mask, c = plan.marks.release.mask;
  if ((a & b) || (a & c) || (b & c)) refuse("marks", std::to_string(a | b | c), "three masks without common bits");
}

TANDEM_JSON_FIELDS(RulePlan, queue, traffic, marks, wifi, cell, wifi_addresses, exempt_local, exempt_remote,
                   exempt_ports, exempt_users, release_by_connmark, placed_mask)

} // namespace tandem::kernel
