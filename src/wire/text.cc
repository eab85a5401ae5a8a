#include "src/wire/text.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tandem::wire
{
namespace
{

std::string_view name(MptcpSubtype subtype)
{
  switch (subtype)
  {
  case MptcpSubtype::mp_capable:
    return "mp_capable";
  case MptcpSubtype::mp_join:
    return "mp_join";
  case MptcpSubtype::dss:
    return "dss";
  case MptcpSubtype::add_addr:
    return "add_addr";
  case MptcpSubtype::remove_addr:
    return "remove_addr";
  case MptcpSubtype::mp_prio:
    return "mp_prio";
  case MptcpSubtype::mp_fail:
    return "mp_fail";
  case MptcpSubtype::mp_fastclose:
    return "mp_fastclose";
  case MptcpSubtype::mp_tcprst:
    return "mp_tcprst";
  case MptcpSubtype::none:
    break;
  }
  return "?";
}

std::string options_text(const Segment& segment)
{
  std::string text;
  auto add = [&](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
  if (segment.mss) add("mss " + std::to_string(*segment.mss));
  if (segment.window_scale) add("wscale " + std::to_string(*segment.window_scale));
  if (segment.has_option(option::sack_permitted)) add("sackOK");
  if (segment.has_option(option::sack))
  {
    std::string blocks = "sack";
    for (const SackBlock& block : segment.sacks())
      blocks += " " + std::to_string(block.left.raw) + ".." + std::to_string(block.right.raw);
    add(blocks);
  }
  if (segment.timestamps)
    add("ts " + std::to_string(segment.timestamps->value.raw) + " " + std::to_string(segment.timestamps->echo.raw));
  if (segment.has_option(option::mptcp)) add("mptcp " + std::string { name(segment.mptcp) });
  constexpr std::array<std::pair<std::uint32_t, const char*>, 6> plain { { { option::md5, "md5" },
                                                                           { option::ao, "ao" },
                                                                           { option::fast_open, "tfo" },
                                                                           { option::user_timeout, "uto" },
                                                                           { option::acc_ecn, "accecn" },
                                                                           { option::unknown, "unknown" } } };
  for (const auto& [bit, word] : plain)
    if (segment.has_option(bit)) add(word);
  return text;
}

} // namespace

std::string to_string(const Address& address)
{
  std::array<char, INET6_ADDRSTRLEN> text {};
  inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.bytes.data(), text.data(), text.size());
  return text.data();
}

std::string to_string(const Address& address, std::uint16_t port)
{
  const std::string host = to_string(address);
  return (address.v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string flags_text(std::uint16_t flags)
{
  constexpr std::array<std::pair<std::uint16_t, char>, 9> letters { { { tcp_flag::fin, 'F' },
                                                                      { tcp_flag::syn, 'S' },
                                                                      { tcp_flag::rst, 'R' },
                                                                      { tcp_flag::psh, 'P' },
                                                                      { tcp_flag::ack, '.' },
                                                                      { tcp_flag::urg, 'U' },
                                                                      { tcp_flag::ece, 'E' },
                                                                      { tcp_flag::cwr, 'W' },
                                                                      { tcp_flag::ae, 'e' } } };
  std::string text;
  for (const auto& [bit, letter] : letters)
    if ((flags & bit) != 0) text += letter;
  return text.empty() ? "none" : text;
}

std::string describe(const Segment& segment)
{
  const std::string local = to_string(segment.key.local, segment.key.local_port);
  const std::string remote = to_string(segment.key.remote, segment.key.remote_port);
  const bool leaving = segment.direction == Direction::egress;
  std::string text = (leaving ? local : remote) + " > " + (leaving ? remote : local);
  text += " [" + flags_text(segment.flags) + "] seq " + std::to_string(segment.seq.raw);
  if (segment.has(tcp_flag::ack)) text += " ack " + std::to_string(segment.ack.raw);
  text += " win " + std::to_string(segment.window) + " len " + std::to_string(segment.payload_length);
  if (const std::string options = options_text(segment); !options.empty()) text += " <" + options + ">";
  switch (segment.ecn)
  {
  case Ecn::not_ect:
    break;
  case Ecn::ect0:
    text += " ect0";
    break;
  case Ecn::ect1:
    text += " ect1";
    break;
  case Ecn::ce:
    text += " ce";
    break;
  }
  if (segment.gso_size != 0) text += " gso " + std::to_string(segment.gso_size);
  return text;
}

std::string hex_line(std::span<const std::byte> bytes, std::size_t most)
{
  constexpr std::string_view digits = "0123456789abcdef";
  const std::size_t shown = std::min(most, bytes.size());
  std::string text;
  text.reserve(shown * 2 + shown / 4 + 24);
  for (std::size_t i = 0; i < shown; ++i)
  {
    if (i != 0 && i % 4 == 0) text += ' ';
    const auto value = std::to_integer<unsigned>(bytes[i]);
    text += digits[value >> 4];
    text += digits[value & 0x0f];
  }
  if (shown < bytes.size()) text += " ... (" + std::to_string(bytes.size()) + " bytes)";
  return text;
}

} // namespace tandem::wire
