#include "src/feeder/radio/frame.h"

#include "src/feeder/radio/little_endian.h"
#include "src/feeder/radio/radiotap.h"

namespace tandem::feeder
{

namespace
{

// Types and subtypes of the frame control field (IEEE 802.11-2016, table 9-1).
enum Type : unsigned
{
  management = 0,
  control = 1,
  data = 2,
};
namespace subtype
{
constexpr unsigned beacon = 8, disassociation = 10, deauthentication = 12; // management
constexpr unsigned block_ack = 9, cts = 12, ack = 13;                      // control
constexpr unsigned null_bit = 4, qos_bit = 8;                              // data
} // namespace subtype

Mac mac_at(std::span<const std::byte> bytes, std::size_t at)
{
  Mac mac {};
  for (std::size_t i = 0; i < mac.size(); ++i)
    mac[i] = std::to_integer<std::uint8_t>(bytes[at + i]);
  return mac;
}

Frame::Kind kind_of(unsigned type, unsigned sub)
{
  if (type == data) return Frame::Kind::data;
  if (type == control && (sub == subtype::ack || sub == subtype::block_ack)) return Frame::Kind::acknowledgement;
  if (type == management && sub == subtype::beacon) return Frame::Kind::beacon;
  if (type == management && (sub == subtype::deauthentication || sub == subtype::disassociation))
    return Frame::Kind::goodbye;
  return Frame::Kind::other;
}

} // namespace

std::optional<Frame> parse_frame(std::span<const std::byte> record, std::size_t length)
{
  const auto radio = parse_radiotap(record);
  if (!radio) return {};
  const auto header = record.subspan(radio->length);
  constexpr std::size_t shortest = 10; // frame control, duration, receiver
  if (header.size() < shortest) return {};
  const auto word = little_endian(header.first(2));
  if ((word & 3) != 0) return {}; // a version of 802.11 that does not exist yet
  const auto type = static_cast<unsigned>(word >> 2 & 3);
  const auto sub = static_cast<unsigned>(word >> 4 & 15);

  Frame frame {};
  frame.kind = kind_of(type, sub);
  frame.receiver = mac_at(header, 4);
  frame.to_ap = (word & 0x0100) != 0;
  frame.from_ap = (word & 0x0200) != 0;
  frame.retry = type != control && (word & 0x0800) != 0;
  const bool with_transmitter =
      header.size() >= 16 && !(type == control && (sub == subtype::cts || sub == subtype::ack));
  if (with_transmitter) frame.transmitter = mac_at(header, 10);
  constexpr std::size_t with_sequence = 24;
  if (type != control && header.size() >= with_sequence)
    frame.sequence = static_cast<std::uint16_t>(little_endian(header.subspan(22, 2)) >> 4);
  if (type == data)
  {
    frame.payload = (sub & subtype::null_bit) == 0;
    // With both direction bits there is a fourth address (9.3.2.1).
    const std::size_t qos_at = with_sequence + (frame.to_ap && frame.from_ap ? 6 : 0);
    if ((sub & subtype::qos_bit) != 0 && header.size() >= qos_at + 2)
      frame.tid = static_cast<std::uint8_t>(little_endian(header.subspan(qos_at, 2)) & 15);
  }
  constexpr std::size_t beacon_interval_at = with_sequence + 8; // behind the time stamp
  if (frame.kind == Frame::Kind::beacon && !radio->bad_fcs && header.size() >= beacon_interval_at + 2)
    if (const auto units = little_endian(header.subspan(beacon_interval_at, 2)); units > 0)
      frame.beacon_interval = static_cast<unsigned>(units);

  frame.damaged = radio->bad_fcs;
  frame.signal = radio->signal;
  frame.noise = radio->noise;
  frame.frequency = radio->frequency;
  frame.mbps = radio->mbps;
  frame.mcs = radio->mcs;
  frame.streams = radio->streams;
  frame.aggregate = radio->aggregate;
  frame.sent = radio->tsft;
  constexpr std::size_t fcs = 4;
  const std::size_t whole = (length > record.size() ? length : record.size()) - radio->length;
  frame.bytes = static_cast<std::uint32_t>(whole - (radio->has_fcs && whole > fcs ? fcs : 0));
  return frame;
}

std::string text(const Mac& mac)
{
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : mac)
  {
    if (!out.empty()) out += ':';
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

std::optional<Mac> parse_mac(std::string_view text)
{
  constexpr std::size_t length = 17;
  if (text.size() != length) return {};
  Mac mac {};
  const auto digit = [](char c) -> int
  {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  for (std::size_t i = 0; i < mac.size(); ++i)
  {
    const int high = digit(text[3 * i]), low = digit(text[3 * i + 1]);
    if (high < 0 || low < 0 || (i > 0 && text[3 * i - 1] != ':')) return {};
    mac[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return mac;
}

} // namespace tandem::feeder
