#include "src/trace/file_bytes.h"
#include "src/trace/formats.h"
#include "src/trace/pcapng.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

namespace tandem::trace
{
namespace
{

// Larger than any packet with its comment; a file that claims more is damaged, not rich.
constexpr std::uint32_t largest_block = 16u << 20;

struct Interface
{
  std::uint16_t link_type = 0;
  std::string name {};
  Link link = Link::other; // by its name
  std::string description {};
  std::uint64_t units_per_second = 1'000'000;
  std::int64_t offset_seconds = 0;
};

Link link_of(std::string_view interface)
{
  for (const Link link : all_links)
    if (interface == name(link)) return link;
  return Link::other;
}

std::optional<std::uint64_t> to_number(std::string_view text)
{
  std::uint64_t value = 0;
  if (text.empty()) return {};
  for (const char c : text)
  {
    if (c < '0' || c > '9' || value > (std::numeric_limits<std::uint64_t>::max() - 9) / 10) return {};
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

std::optional<Heading> heading_from(std::string_view text)
{
  constexpr std::string_view first_line = "tandem trace\n";
  if (!text.starts_with(first_line)) return {};
  text.remove_prefix(first_line.size());
  Heading heading;
  while (!text.empty())
  {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    const std::string_view value = line.substr(colon + 2);
    if (key == "version") heading.version = value;
    if (key == "commit") heading.commit = value;
    if (key == "command") heading.command = value;
    if (key == "kernel") heading.kernel = value;
    if (key == "knobs") heading.knobs = value;
    if (key == "seed") heading.seed = to_number(value).value_or(0);
  }
  return heading;
}

class Pcapng : public Format
{
public:
  explicit Pcapng(const std::filesystem::path& file) : file_ { file }, in_ { file }
  {
    if (!read_block()) throw BadFile { file_, 0, "empty file" };
    if (type_ != pcapng::section_header) fail("does not begin with a pcapng section header");
    read_section();
  }

  bool next(Recorded& packet) override
  {
    if (std::exchange(edited_, false))
    {
      std::swap(packet, after_);
      return true;
    }
    while (read_block())
      switch (type_)
      {
      case pcapng::section_header:
        read_section();
        break;
      case pcapng::interface_description:
        read_interface();
        break;
      case pcapng::enhanced_packet:
        read_enhanced(packet);
        return true;
      case pcapng::simple_packet:
        read_simple(packet);
        return true;
      case pcapng::chain_input:
        if (!heading_) break;
        read_input(packet);
        return true;
      case pcapng::packet_obsolete:
        fail("obsolete packet block (type 2); rewrite the file with editcap -F pcapng");
      default:
        break; // name resolution, statistics and what may come: allowed, of no use here
      }
    return false;
  }

  const std::optional<Heading>& heading() const override { return heading_; }

private:
  [[noreturn]] void fail(const std::string& reason) const { throw BadFile { file_, block_offset_, reason }; }

  // Shows the next block in body_ (without type and lengths). False at the end of the file.
  bool read_block()
  {
    in_.skip(block_length_);
    block_offset_ += block_length_;
    block_length_ = 0;
    auto head = in_.look(12);
    if (head.empty()) return false;
    if (head.size() < 8) fail("ends inside the head of a block");
    std::memcpy(&type_, head.data(), 4);
    const bool section = type_ == pcapng::section_header; // a palindrome
    if (section)
    {
      // Its byte order is inside it, and holds for its own length already.
      std::uint32_t magic = 0;
      if (head.size() >= 12) std::memcpy(&magic, head.data() + 8, 4);
      if (magic != pcapng::byte_order_magic && magic != pcapng::byte_order_swapped)
        fail("section header without a byte-order magic");
      swapped_ = magic == pcapng::byte_order_swapped;
    }
    else
      type_ = order32(type_);
    std::uint32_t length = 0;
    std::memcpy(&length, head.data() + 4, 4);
    length = order32(length);
    const std::uint32_t least = section ? 16 : 12;
    if (length % 4 != 0 || length < least || length > largest_block)
      fail("block length " + std::to_string(length) + "; allowed is a multiple of 4 from " + std::to_string(least)
           + " to " + std::to_string(largest_block));
    const auto block = in_.look(length);
    if (block.size() < length)
      fail("block of " + std::to_string(length) + " bytes, but the file ends " + std::to_string(length - block.size())
           + " bytes before its end");
    body_ = block.subspan(8, length - 8);
    const std::uint32_t trailer = get32(body_.size() - 4);
    if (trailer != length)
      fail("block length " + std::to_string(length) + " at its head and " + std::to_string(trailer) + " at its end");
    body_ = body_.first(body_.size() - 4);
    block_length_ = length;
    return true;
  }

  void read_section()
  {
    need(16, "section header");
    if (const std::uint16_t major = get16(4); major != pcapng::major_version)
      fail("pcapng version " + std::to_string(major) + "; version 1 is understood");
    interfaces_.clear();
    heading_.reset();
    options(16,
            [&](std::uint16_t code, std::size_t at, std::size_t length)
            {
              if (code == pcapng::option::comment && !heading_) heading_ = heading_from(text(at, length));
            });
  }

  void read_interface()
  {
    need(8, "interface description");
    Interface interface {
      .link_type = get16(0)
    };
    options(8,
            [&](std::uint16_t code, std::size_t at, std::size_t length)
            {
              if (code == pcapng::option::interface_name) interface.name = text(at, length);
              if (code == pcapng::option::interface_description) interface.description = text(at, length);
              if (code == pcapng::option::interface_resolution && length == 1)
                interface.units_per_second = units_per_second(std::to_integer<std::uint8_t>(body_[at]));
              if (code == pcapng::option::interface_offset && length == 8)
                interface.offset_seconds = static_cast<std::int64_t>(get64(at));
            });
    interface.link = link_of(interface.name);
    if (heading_ && interface.link == Link::wifi) heading_->wifi_device = interface.description;
    if (heading_ && interface.link == Link::cell) heading_->cell_device = interface.description;
    interfaces_.push_back(std::move(interface));
  }

  // if_tsresol: the top bit chooses between powers of 10 and of 2.
  std::uint64_t units_per_second(std::uint8_t resolution) const
  {
    const unsigned exponent = resolution & 0x7f;
    const bool binary = (resolution & 0x80) != 0;
    if (exponent > (binary ? 32 : 9))
      fail("time resolution " + std::string { binary ? "2^-" : "10^-" } + std::to_string(exponent)
           + "; understood are 10^-9 and 2^-32 and coarser");
    std::uint64_t units = 1;
    for (unsigned i = 0; i < exponent; ++i)
      units *= binary ? 2 : 10;
    return units;
  }

  const Interface& interface(std::uint32_t id) const
  {
    if (id >= interfaces_.size())
      fail("packet of interface " + std::to_string(id) + ", but " + std::to_string(interfaces_.size())
           + " interfaces were described before it");
    return interfaces_[id];
  }

  void read_enhanced(Recorded& packet)
  {
    need(20, "packet");
    const Interface& from = interface(get32(0));
    const std::uint64_t time = std::uint64_t { get32(4) } << 32 | get32(8);
    const std::uint32_t kept = get32(12);
    if (kept > body_.size() - 20)
      fail("packet of " + std::to_string(kept) + " bytes in a block with room for "
           + std::to_string(body_.size() - 20));
    take(from, 20, kept, get32(16), packet);
    packet.time_ns = nanoseconds(from, time);
    options(20 + pcapng::padded(kept),
            [&](std::uint16_t code, std::size_t at, std::size_t length)
            {
              if (code == pcapng::option::comment) take_comment(text(at, length), packet);
              if (code == pcapng::option::packet_id && length == 8) packet.packet_id = get64(at);
              if (code == pcapng::option::asked && length == 24 && heading_)
                packet.asked = Asked { .at = tick(get64(at)),
                                       .received = tick(get64(at + 8)),
                                       .seen = static_cast<std::uint32_t>(get64(at + 16) >> 1),
                                       .checksum_not_ready = (get64(at + 16) & 1) != 0 };
              if (code != pcapng::option::packet_flags || length != 4) return;
              const std::uint32_t direction = get32(at) & pcapng::direction_mask;
              if (direction == pcapng::inbound) packet.direction = Direction::ingress;
              if (direction == pcapng::outbound) packet.direction = Direction::egress;
            });
    if (!packet.comment.empty()) packet.decision = from_text(packet.comment);
    if (packet.original && packet.decision && packet.decision->disposition == Disposition::edited)
      tell_as_it_came(packet);
  }

  // The first comment that is not about the original counts: whoever adds one in Wireshark may do so in front.
  static void take_comment(std::string_view text, Recorded& packet)
  {
    if (auto original = original_from(text, packet.bytes); original && !packet.original)
      packet.original = std::move(original);
    else if (packet.comment.empty())
      packet.comment = text;
  }

  // An edited packet stands once in the file, as it left; here it is told as two, like in older recordings.
  void tell_as_it_came(Recorded& packet)
  {
    Original original = std::move(*packet.original);
    packet.original.reset();
    after_ = packet;
    after_.decision->part = Part::after;
    after_.same_frame = true;
    edited_ = true;
    packet.bytes.swap(original.bytes);
    packet.link = original.link;
    packet.interface = name(packet.link);
    packet.decision->part = Part::before;
  }

  // Another program's block of the same number is not read as one of ours: its section has no heading.
  void read_input(Recorded& input)
  {
    need(12, "chain input");
    const std::uint32_t size = get32(8);
    if (size == 0 || size > body_.size() - 12)
      fail("chain input of " + std::to_string(size) + " bytes in a block with room for "
           + std::to_string(body_.size() - 12));
    input.clear();
    input.asked = Asked { .at = tick(get64(0)) };
    const auto from = body_.begin() + 12;
    input.input.assign(from, from + size);
  }

  static Tick tick(std::uint64_t count) { return Tick { Duration { static_cast<Duration::rep>(count) } }; }

  void read_simple(Recorded& packet)
  {
    need(4, "simple packet");
    const std::uint32_t length = get32(0);
    const auto kept = static_cast<std::uint32_t>(std::min<std::size_t>(length, body_.size() - 4));
    take(interface(0), 4, kept, length, packet);
  }

  void take(const Interface& from, std::size_t at, std::uint32_t kept, std::uint32_t length, Recorded& packet) const
  {
    packet.clear();
    packet.interface = from.name;
    packet.link = from.link;
    packet.link_type = from.link_type;
    take_ip(body_.subspan(at, kept), length, packet);
  }

  static std::int64_t nanoseconds(const Interface& from, std::uint64_t time)
  {
    constexpr std::uint64_t billion = 1'000'000'000;
    const std::uint64_t whole = time / from.units_per_second + static_cast<std::uint64_t>(from.offset_seconds);
    // At most 2^32 units a second: the product fits.
    const std::uint64_t part = time % from.units_per_second * billion / from.units_per_second;
    return static_cast<std::int64_t>(whole * billion + part);
  }

  template <typename Visitor>
  void options(std::size_t at, Visitor&& visitor) const
  {
    while (at + 4 <= body_.size())
    {
      const std::uint16_t code = get16(at);
      const std::size_t length = get16(at + 2);
      at += 4;
      if (code == pcapng::option::end) return;
      if (at + length > body_.size())
        fail("option " + std::to_string(code) + " of " + std::to_string(length) + " bytes in a block with room for "
             + std::to_string(body_.size() - at));
      visitor(code, at, length);
      at += pcapng::padded(length);
    }
  }

  void need(std::size_t bytes, const char* what) const
  {
    if (body_.size() < bytes)
      fail(std::string { what } + " block of " + std::to_string(body_.size() + 12) + " bytes; at least "
           + std::to_string(bytes + 12) + " are needed");
  }

  std::uint16_t get16(std::size_t at) const
  {
    std::uint16_t value = 0;
    std::memcpy(&value, body_.data() + at, sizeof value);
    return swapped_ ? __builtin_bswap16(value) : value;
  }

  std::uint32_t order32(std::uint32_t value) const { return swapped_ ? __builtin_bswap32(value) : value; }

  std::uint32_t get32(std::size_t at) const
  {
    std::uint32_t value = 0;
    std::memcpy(&value, body_.data() + at, sizeof value);
    return order32(value);
  }

  std::uint64_t get64(std::size_t at) const
  {
    std::uint64_t value = 0;
    std::memcpy(&value, body_.data() + at, sizeof value);
    return swapped_ ? __builtin_bswap64(value) : value;
  }

  std::string_view text(std::size_t at, std::size_t length) const
  {
    return { reinterpret_cast<const char*>(body_.data()) + at, length };
  }

  std::filesystem::path file_;
  FileBytes in_;
  bool swapped_ = false;
  std::uint32_t type_ = 0;
  std::uint64_t block_offset_ = 0;
  std::uint64_t block_length_ = 0;
  std::span<const std::byte> body_ {}; // in the room of `in_`
  std::vector<Interface> interfaces_;
  std::optional<Heading> heading_;
  bool edited_ = false; // the packet that was told last
  Recorded after_ {};   // as it left; told next
};

} // namespace

std::unique_ptr<Format> open_pcapng(const std::filesystem::path& file)
{
  return std::make_unique<Pcapng>(file);
}

} // namespace tandem::trace
