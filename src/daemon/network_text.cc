#include "src/daemon/network_text.h"

#include <arpa/inet.h>

#include <array>
#include <charconv>
#include <system_error>

namespace tandem::daemon
{

std::optional<links::Network> as_network(std::string_view text)
{
  const std::size_t slash = text.find('/');
  const std::string address { text.substr(0, slash) };
  links::Network network;
  network.address.v6 = address.find(':') != std::string::npos;
  const unsigned longest = network.address.v6 ? 128 : 32;
  network.prefix = longest;
  if (inet_pton(network.address.v6 ? AF_INET6 : AF_INET, address.c_str(), network.address.bytes.data()) != 1) return {};
  if (slash != std::string_view::npos)
  {
    const std::string_view digits = text.substr(slash + 1);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), network.prefix);
    if (result.ec != std::errc {} || result.ptr != digits.data() + digits.size() || network.prefix > longest) return {};
  }
  for (unsigned bit = network.prefix; bit < longest; ++bit)
    network.address.bytes[bit / 8] = static_cast<std::uint8_t>(network.address.bytes[bit / 8] & ~(0x80u >> (bit % 8)));
  return network;
}

std::string network_text(const links::Network& network)
{
  const unsigned whole = network.address.v6 ? 128 : 32;
  std::string text = prefix_text(network);
  return network.prefix == whole ? text.substr(0, text.find('/')) : text;
}

std::string prefix_text(const links::Network& network)
{
  std::array<char, INET6_ADDRSTRLEN> text {};
  inet_ntop(network.address.v6 ? AF_INET6 : AF_INET, network.address.bytes.data(), text.data(), text.size());
  return text.data() + ("/" + std::to_string(network.prefix));
}

} // namespace tandem::daemon
