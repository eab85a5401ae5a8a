// What wpa_supplicant and udhcpc say: networks whose names are anybody's bytes, values, a lease.
// Input: any bytes, as each of them.
#include "src/association/dhcp.h"
#include "src/association/supplicant.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

using namespace tandem;
using tandem::fuzz::check;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  const std::string_view text { reinterpret_cast<const char*>(data), size };
  check(association::unescaped(text).size() <= size, "no name is longer than what it was written as");
  const auto networks = association::parse_networks(text);
  check(networks.size() <= static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1,
        "one network a line");
  for (const association::KnownNetwork& one : networks)
    check(!one.ssid.empty(), "a network has a name");
  const std::string value = association::value_of(text, "wpa_state");
  check(value.find('\n') == std::string::npos, "a value is of one line");
  if (const auto lease = association::parse_lease(text))
  {
    // They become arguments of netlink requests: addresses and nothing else.
    const auto is_address = [](const std::string& word)
    { return word.size() <= 15 && word.find_first_not_of("0123456789.") == std::string::npos; };
    check(is_address(lease->address) && !lease->address.empty() && is_address(lease->gateway), "addresses");
    check(lease->prefix <= 32, "a length of an IPv4 prefix");
    check(lease->lifetime >= Duration {}, "a lease ends later");
  }
  return 0;
}
