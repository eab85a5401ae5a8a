// Any bytes as messages of the kernel's Wi-Fi stack, and as the information elements of an access point's beacon inside
// one that is well-formed: those are anybody's.
// Input: a byte (0: a whole message; else the command of a message whose elements the rest are), then the bytes.
#include "src/feeder/sources/nl80211_decode.h"
#include "tests/fuzz/check.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/nl80211.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

using namespace tandem;
using tandem::fuzz::check;

namespace
{

void put(std::vector<std::byte>& out, std::uint16_t type, std::span<const std::byte> content)
{
  const nlattr head { .nla_len = static_cast<std::uint16_t>(sizeof head + content.size()), .nla_type = type };
  const auto* raw = reinterpret_cast<const std::byte*>(&head);
  out.insert(out.end(), raw, raw + sizeof head);
  out.insert(out.end(), content.begin(), content.end());
  out.resize(NLA_ALIGN(out.size()));
}

template <class T>
void put_value(std::vector<std::byte>& out, std::uint16_t type, const T& value)
{
  put(out, type, std::as_bytes(std::span { &value, 1 }));
}

std::vector<std::byte> scanned(std::uint8_t command, std::span<const std::byte> elements)
{
  std::vector<std::byte> bss {}, all(sizeof(nlmsghdr) + sizeof(genlmsghdr));
  const std::uint8_t mac[6] { 2, 0, 0, 0, 1, 1 };
  put(bss, NL80211_BSS_BSSID, std::as_bytes(std::span { mac }));
  put_value(bss, NL80211_BSS_FREQUENCY, std::uint32_t { 2412 });
  put_value(bss, NL80211_BSS_SIGNAL_MBM, std::int32_t { -5000 });
  put(bss, NL80211_BSS_INFORMATION_ELEMENTS, elements);
  put_value(all, NL80211_ATTR_IFINDEX, std::uint32_t { 3 });
  put(all, NL80211_ATTR_BSS | NLA_F_NESTED, bss);
  put(all, NL80211_ATTR_IE, elements);
  const nlmsghdr head { .nlmsg_len = static_cast<std::uint32_t>(all.size()),
                        .nlmsg_type = 0x1c,
                        .nlmsg_flags = 0,
                        .nlmsg_seq = 1,
                        .nlmsg_pid = 0 };
  const genlmsghdr family { .cmd = command, .version = 1, .reserved = 0 };
  std::memcpy(all.data(), &head, sizeof head);
  std::memcpy(all.data() + sizeof head, &family, sizeof family);
  return all;
}

void look(std::span<const std::byte> bytes)
{
  using namespace feeder;
  if (const auto message = nl80211::decode(bytes))
  {
    if (const auto* found = std::get_if<Candidate>(&message->what))
      check(found->ssid.size() <= 32, "a name of at most 32 bytes");
    if (const auto* survey = std::get_if<Survey>(&message->what))
      check(!survey->noise || std::isfinite(*survey->noise), "a finite noise");
  }
  if (const auto interface = nl80211::decode_interface(bytes)) check(interface->name.size() < 64, "a short name");
  nl80211::Wiphy radio {};
  radio.take(bytes);
  radio.take(bytes);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  if (size < 1 || size > 16000) return 0;
  const auto rest = std::as_bytes(std::span { data + 1, size - 1 });
  if (data[0] != 0)
  {
    look(scanned(data[0], rest));
    return 0;
  }
  // Aligned, and exactly as large as what came.
  std::vector<std::uint32_t> room((rest.size() + 3) / 4);
  if (!rest.empty()) std::memcpy(room.data(), rest.data(), rest.size());
  look({ reinterpret_cast<const std::byte*>(room.data()), rest.size() });
  return 0;
}
