#include "src/feeder/sources/nl80211_decode.h"

#include <linux/nl80211.h>
#include <netlink/attr.h>
#include <netlink/genl/genl.h>
#include <netlink/msg.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace tandem::feeder::nl80211
{

namespace
{

constexpr std::size_t longest_ssid = 32; // 9.4.2.2

// Attributes by type. Lengths are checked where a value is taken, so that one bad field costs that field alone.
class Attributes
{
public:
  Attributes(int most, nlattr* head, int length) : table_(static_cast<std::size_t>(most) + 1)
  {
    nla_parse(table_.data(), most, head, length, nullptr);
  }
  Attributes(int most, nlattr* nest)
      : Attributes { most, nest == nullptr ? nullptr : static_cast<nlattr*>(nla_data(nest)),
                     nest == nullptr ? 0 : nla_len(nest) }
  {
  }

  nlattr* raw(int type) const { return table_[static_cast<std::size_t>(type)]; }
  bool flag(int type) const { return raw(type) != nullptr; }
  std::span<const std::byte> bytes(int type) const
  {
    if (raw(type) == nullptr) return {};
    return { static_cast<const std::byte*>(nla_data(raw(type))), static_cast<std::size_t>(nla_len(raw(type))) };
  }
  template <typename T>
  std::optional<T> number(int type) const
  {
    T value {};
    const auto all = bytes(type);
    if (all.size() < sizeof value) return {};
    std::memcpy(&value, all.data(), sizeof value);
    return value;
  }
  std::optional<Mac> mac(int type) const { return number<Mac>(type); }
  Attributes nest(int type, int most) const { return { most, raw(type) }; }

private:
  std::vector<nlattr*> table_;
};

struct Parsed
{
  std::uint8_t command;
  Attributes attributes;
};

std::optional<Parsed> parse(std::span<const std::byte> bytes)
{
  if (bytes.size() < static_cast<std::size_t>(NLMSG_HDRLEN + GENL_HDRLEN)) return {};
  // libnl's functions take what they only read as not constant.
  auto* head = reinterpret_cast<nlmsghdr*>(const_cast<std::byte*>(bytes.data()));
  if (head->nlmsg_len > bytes.size() || genlmsg_valid_hdr(head, 0) == 0) return {};
  auto* generic = static_cast<genlmsghdr*>(nlmsg_data(head));
  return Parsed { generic->cmd,
                  Attributes { NL80211_ATTR_MAX, genlmsg_attrdata(generic, 0), genlmsg_attrlen(generic, 0) } };
}

template <typename T>
std::optional<Duration> in(std::optional<T> count, Duration unit)
{
  // Nobody waits for three centuries; a driver's garbage must not overflow.
  const auto most = static_cast<std::uint64_t>(Duration::max() / unit);
  if (!count || *count > most) return {};
  return static_cast<std::int64_t>(*count) * unit;
}

// A driver that has measured nothing says zero. A milliwatt at the antenna is nothing that is received.
std::optional<float> dbm(std::optional<std::int8_t> value)
{
  if (!value || *value >= 0) return {};
  return static_cast<float>(*value);
}

struct Rate
{
  std::optional<double> mbps {};
  std::optional<std::uint8_t> mcs {};
  std::optional<std::uint8_t> streams {};
};

Rate rate(const Attributes& all)
{
  Rate rate {};
  std::optional<std::uint32_t> tenths = all.number<std::uint32_t>(NL80211_RATE_INFO_BITRATE32);
  if (!tenths) tenths = all.number<std::uint16_t>(NL80211_RATE_INFO_BITRATE);
  if (tenths && *tenths > 0) rate.mbps = *tenths / 10.0; // zero: the driver does not know
  for (const int type :
       { NL80211_RATE_INFO_MCS, NL80211_RATE_INFO_VHT_MCS, NL80211_RATE_INFO_HE_MCS, NL80211_RATE_INFO_EHT_MCS })
    if (const auto index = all.number<std::uint8_t>(type)) rate.mcs = index;
  for (const int type : { NL80211_RATE_INFO_VHT_NSS, NL80211_RATE_INFO_HE_NSS, NL80211_RATE_INFO_EHT_NSS })
    if (const auto streams = all.number<std::uint8_t>(type)) rate.streams = streams;
  return rate;
}

// A peer of a direct link (IEEE 802.11-2016, 11.23) is listed beside the access point.
bool is_tdls_peer(const Attributes& info)
{
  const auto flags = info.number<nl80211_sta_flag_update>(NL80211_STA_INFO_STA_FLAGS);
  return flags && (flags->mask & flags->set & 1u << NL80211_STA_FLAG_TDLS_PEER) != 0;
}

std::optional<StationStats> station(const Attributes& message)
{
  const auto ap = message.mac(NL80211_ATTR_MAC);
  if (!ap || !message.flag(NL80211_ATTR_STA_INFO)) return {};
  const Attributes info = message.nest(NL80211_ATTR_STA_INFO, NL80211_STA_INFO_MAX);
  if (is_tdls_peer(info)) return {};
  StationStats s { .ap = *ap };
  s.signal = dbm(info.number<std::int8_t>(NL80211_STA_INFO_SIGNAL));
  s.signal_average = dbm(info.number<std::int8_t>(NL80211_STA_INFO_SIGNAL_AVG));
  s.inactive = in(info.number<std::uint32_t>(NL80211_STA_INFO_INACTIVE_TIME), std::chrono::milliseconds { 1 });
  const Rate rx = rate(info.nest(NL80211_STA_INFO_RX_BITRATE, NL80211_RATE_INFO_MAX));
  const Rate tx = rate(info.nest(NL80211_STA_INFO_TX_BITRATE, NL80211_RATE_INFO_MAX));
  s.rx_mbps = rx.mbps;
  s.rx_mcs = rx.mcs;
  s.rx_streams = rx.streams;
  s.tx_mbps = tx.mbps;
  s.tx_mcs = tx.mcs;
  s.rx_bytes = info.number<std::uint64_t>(NL80211_STA_INFO_RX_BYTES64);
  if (!s.rx_bytes) s.rx_bytes = info.number<std::uint32_t>(NL80211_STA_INFO_RX_BYTES);
  s.tx_bytes = info.number<std::uint64_t>(NL80211_STA_INFO_TX_BYTES64);
  if (!s.tx_bytes) s.tx_bytes = info.number<std::uint32_t>(NL80211_STA_INFO_TX_BYTES);
  s.rx_packets = info.number<std::uint32_t>(NL80211_STA_INFO_RX_PACKETS);
  s.tx_packets = info.number<std::uint32_t>(NL80211_STA_INFO_TX_PACKETS);
  s.tx_retries = info.number<std::uint32_t>(NL80211_STA_INFO_TX_RETRIES);
  s.tx_failed = info.number<std::uint32_t>(NL80211_STA_INFO_TX_FAILED);
  s.beacon_loss = info.number<std::uint32_t>(NL80211_STA_INFO_BEACON_LOSS);
  s.beacons = info.number<std::uint64_t>(NL80211_STA_INFO_BEACON_RX);
  s.rx_duration = in(info.number<std::uint64_t>(NL80211_STA_INFO_RX_DURATION), std::chrono::microseconds { 1 });
  const Attributes bss = info.nest(NL80211_STA_INFO_BSS_PARAM, NL80211_STA_BSS_PARAM_MAX);
  constexpr std::chrono::microseconds time_unit { 1024 };
  s.beacon_interval = in(bss.number<std::uint16_t>(NL80211_STA_BSS_PARAM_BEACON_INTERVAL), time_unit);
  return s;
}

std::optional<Survey> survey(const Attributes& message)
{
  const Attributes info = message.nest(NL80211_ATTR_SURVEY_INFO, NL80211_SURVEY_INFO_MAX);
  const auto frequency = info.number<std::uint32_t>(NL80211_SURVEY_INFO_FREQUENCY);
  if (!frequency) return {};
  const auto time = [&info](int type) { return in(info.number<std::uint64_t>(type), std::chrono::milliseconds { 1 }); };
  return Survey { .frequency = *frequency,
                  .in_use = info.flag(NL80211_SURVEY_INFO_IN_USE),
                  .noise = dbm(info.number<std::int8_t>(NL80211_SURVEY_INFO_NOISE)),
                  .active = time(NL80211_SURVEY_INFO_TIME),
                  .busy = time(NL80211_SURVEY_INFO_TIME_BUSY),
                  .receiving = time(NL80211_SURVEY_INFO_TIME_RX),
                  .sending = time(NL80211_SURVEY_INFO_TIME_TX) };
}

// The name in a beacon's elements (IEEE 802.11-2016, 9.4.2): number, length, content, one after the other.
std::string ssid(std::span<const std::byte> elements)
{
  while (elements.size() >= 2)
  {
    const auto length = std::to_integer<std::size_t>(elements[1]);
    if (elements.size() < 2 + length) return {};
    const auto content = elements.subspan(2, length);
    if (elements[0] == std::byte { 0 })
    {
      // A hidden name is left out, or each of its bytes is zero.
      const bool hidden = std::all_of(content.begin(), content.end(), [](std::byte b) { return b == std::byte { 0 }; });
      if (hidden || length > longest_ssid) return {};
      return { reinterpret_cast<const char*>(content.data()), content.size() };
    }
    elements = elements.subspan(2 + length);
  }
  return {};
}

std::optional<Candidate> candidate(const Attributes& message)
{
  const Attributes bss = message.nest(NL80211_ATTR_BSS, NL80211_BSS_MAX);
  const auto ap = bss.mac(NL80211_BSS_BSSID);
  const auto frequency = bss.number<std::uint32_t>(NL80211_BSS_FREQUENCY);
  if (!ap || !frequency) return {};
  Candidate c { .ap = *ap, .ssid = ssid(bss.bytes(NL80211_BSS_INFORMATION_ELEMENTS)), .frequency = *frequency };
  // The elements of a probe response know the name that beacons hide.
  if (c.ssid.empty()) c.ssid = ssid(bss.bytes(NL80211_BSS_BEACON_IES));
  if (const auto mbm = bss.number<std::int32_t>(NL80211_BSS_SIGNAL_MBM); mbm && *mbm < 0) // as dbm()
    c.signal = static_cast<float>(*mbm) / 100.0f;
  c.age = in(bss.number<std::uint32_t>(NL80211_BSS_SEEN_MS_AGO), std::chrono::milliseconds { 1 });
  c.associated = bss.number<std::uint32_t>(NL80211_BSS_STATUS) == std::uint32_t { NL80211_BSS_STATUS_ASSOCIATED };
  return c;
}

// A deauthentication or disassociation comes as the frame itself, which may also be our own.
std::optional<WifiChange> goodbye(std::span<const std::byte> frame)
{
  constexpr std::size_t header = 24, reason = 2; // 9.3.3.2, 9.4.1.7
  if (frame.size() < header + reason) return {};
  WifiChange change {}; // disconnected
  Mac transmitter {}, bssid {};
  std::memcpy(transmitter.data(), frame.data() + 10, transmitter.size());
  std::memcpy(bssid.data(), frame.data() + 16, bssid.size());
  change.ap = bssid;
  change.by_ap = transmitter == bssid;
  change.reason = static_cast<std::uint16_t>(std::to_integer<unsigned>(frame[header])
                                             | std::to_integer<unsigned>(frame[header + 1]) << 8);
  return change;
}

std::optional<WifiChange> quality(const Attributes& message)
{
  const Attributes cqm = message.nest(NL80211_ATTR_CQM, NL80211_ATTR_CQM_MAX);
  WifiChange change {};
  change.ap = message.mac(NL80211_ATTR_MAC);
  if (const auto event = cqm.number<std::uint32_t>(NL80211_ATTR_CQM_RSSI_THRESHOLD_EVENT))
  {
    if (*event == NL80211_CQM_RSSI_THRESHOLD_EVENT_LOW)
      change.kind = WifiChange::Kind::signal_low;
    else if (*event == NL80211_CQM_RSSI_THRESHOLD_EVENT_HIGH)
      change.kind = WifiChange::Kind::signal_high;
    else if (*event == NL80211_CQM_RSSI_BEACON_LOSS_EVENT)
      change.kind = WifiChange::Kind::beacon_loss;
    else
      return {};
    if (const auto level = cqm.number<std::int32_t>(NL80211_ATTR_CQM_RSSI_LEVEL); level && *level != 0)
      change.signal = static_cast<float>(*level); // zero: not known
    return change;
  }
  if (cqm.flag(NL80211_ATTR_CQM_BEACON_LOSS_EVENT))
  {
    change.kind = WifiChange::Kind::beacon_loss;
    return change;
  }
  if (const auto packets = cqm.number<std::uint32_t>(NL80211_ATTR_CQM_PKT_LOSS_EVENT))
  {
    change.kind = WifiChange::Kind::packet_loss;
    change.packets = *packets;
    return change;
  }
  return {};
}

std::optional<WifiChange> change(std::uint8_t command, const Attributes& message)
{
  if (command == NL80211_CMD_DEAUTHENTICATE || command == NL80211_CMD_DISASSOCIATE)
    return goodbye(message.bytes(NL80211_ATTR_FRAME));
  if (command == NL80211_CMD_NOTIFY_CQM) return quality(message);
  WifiChange change {};
  change.ap = message.mac(NL80211_ATTR_MAC);
  if (command == NL80211_CMD_CONNECT)
  {
    const auto status = message.number<std::uint16_t>(NL80211_ATTR_STATUS_CODE);
    if (status.value_or(0) != 0 || message.flag(NL80211_ATTR_TIMED_OUT)) return {};
    change.kind = WifiChange::Kind::connected;
  }
  else if (command == NL80211_CMD_ROAM)
    change.kind = WifiChange::Kind::roamed;
  else if (command == NL80211_CMD_DISCONNECT)
  {
    change.reason = message.number<std::uint16_t>(NL80211_ATTR_REASON_CODE);
    change.by_ap = message.flag(NL80211_ATTR_DISCONNECTED_BY_AP);
  }
  else
    return {};
  return change;
}

std::string text(std::span<const std::byte> bytes)
{
  const char* begin = reinterpret_cast<const char*>(bytes.data());
  return { begin, bytes.empty() ? 0 : strnlen(begin, bytes.size()) };
}

} // namespace

std::optional<Message> decode(std::span<const std::byte> bytes)
{
  const auto parsed = parse(bytes);
  if (!parsed) return {};
  const auto& [command, attributes] = *parsed;
  Message message { .command = command, .ifindex = attributes.number<std::uint32_t>(NL80211_ATTR_IFINDEX) };
  const auto say = [&message](auto&& what)
  {
    if (what) message.what = std::forward<decltype(what)>(what).value();
  };
  if (command == NL80211_CMD_NEW_STATION)
    say(station(attributes));
  else if (command == NL80211_CMD_NEW_SURVEY_RESULTS)
    say(survey(attributes));
  else if (command == NL80211_CMD_NEW_SCAN_RESULTS)
    say(candidate(attributes));
  else
    say(change(command, attributes));
  return message;
}

bool Interface::is_client() const
{
  return type == NL80211_IFTYPE_STATION || type == NL80211_IFTYPE_P2P_CLIENT;
}

std::optional<Interface> decode_interface(std::span<const std::byte> bytes)
{
  const auto parsed = parse(bytes);
  if (!parsed || parsed->command != NL80211_CMD_NEW_INTERFACE) return {};
  const Attributes& all = parsed->attributes;
  const auto ifindex = all.number<std::uint32_t>(NL80211_ATTR_IFINDEX);
  const auto wiphy = all.number<std::uint32_t>(NL80211_ATTR_WIPHY);
  const auto type = all.number<std::uint32_t>(NL80211_ATTR_IFTYPE);
  if (!ifindex || !wiphy || !type) return {};
  const auto ssid = all.bytes(NL80211_ATTR_SSID);
  return Interface { .name = text(all.bytes(NL80211_ATTR_IFNAME)),
                     .ifindex = *ifindex,
                     .wiphy = *wiphy,
                     .type = *type,
                     .mac = all.mac(NL80211_ATTR_MAC),
                     .ssid = { reinterpret_cast<const char*>(ssid.data()), std::min(ssid.size(), longest_ssid) } };
}

namespace
{

// Of one combination of interfaces (linux/nl80211.h, enum nl80211_if_combination_attrs): how many stations.
std::uint32_t stations_of(const Attributes& combination)
{
  std::uint32_t stations = 0;
  nlattr* limits = combination.raw(NL80211_IFACE_COMB_LIMITS);
  if (limits == nullptr) return 0;
  int left = nla_len(limits);
  for (nlattr* one = static_cast<nlattr*>(nla_data(limits)); nla_ok(one, left) != 0; one = nla_next(one, &left))
  {
    const Attributes limit { MAX_NL80211_IFACE_LIMIT, one };
    if (!Attributes { NL80211_IFTYPE_MAX, limit.raw(NL80211_IFACE_LIMIT_TYPES) }.flag(NL80211_IFTYPE_STATION)) continue;
    stations = std::max(stations, limit.number<std::uint32_t>(NL80211_IFACE_LIMIT_MAX).value_or(0));
  }
  return std::min(stations, combination.number<std::uint32_t>(NL80211_IFACE_COMB_MAXNUM).value_or(0));
}

// The combination with more stations is kept; of two with as many, the one with more channels.
void keep_better(std::optional<std::uint32_t>& stations, std::optional<std::uint32_t>& channels, std::uint32_t count,
                 std::uint32_t apart)
{
  if (count < stations.value_or(0) || (count == stations && apart <= channels.value_or(0))) return;
  stations = count;
  channels = apart;
}

} // namespace

void Wiphy::take(std::span<const std::byte> bytes)
{
  const auto parsed = parse(bytes);
  if (!parsed || parsed->command != NL80211_CMD_NEW_WIPHY) return;
  const Attributes& all = parsed->attributes;
  if (all.flag(NL80211_ATTR_WIPHY_NAME)) name = text(all.bytes(NL80211_ATTR_WIPHY_NAME));
  const auto has_monitor = [&all](int list) {
    return Attributes { NL80211_IFTYPE_MAX, all.raw(list) }.flag(NL80211_IFTYPE_MONITOR);
  };
  if (all.flag(NL80211_ATTR_SUPPORTED_IFTYPES)) monitor = has_monitor(NL80211_ATTR_SUPPORTED_IFTYPES);
  if (all.flag(NL80211_ATTR_SOFTWARE_IFTYPES)) software_monitor = has_monitor(NL80211_ATTR_SOFTWARE_IFTYPES);
  if (nlattr* list = all.raw(NL80211_ATTR_INTERFACE_COMBINATIONS))
  {
    int left = nla_len(list);
    for (nlattr* one = static_cast<nlattr*>(nla_data(list)); nla_ok(one, left) != 0; one = nla_next(one, &left))
    {
      const Attributes combination { MAX_NL80211_IFACE_COMB, one };
      const std::uint32_t count = stations_of(combination);
      const std::uint32_t apart = combination.number<std::uint32_t>(NL80211_IFACE_COMB_NUM_CHANNELS).value_or(1);
      keep_better(stations, channels, count, apart);
      if (count >= 2 && apart >= 2) keep_better(stations_apart, channels_apart, count, apart);
    }
  }
  if (all.flag(NL80211_ATTR_EXT_FEATURES))
  {
    const auto features = all.bytes(NL80211_ATTR_EXT_FEATURES); // a bit each
    constexpr std::size_t bit = NL80211_EXT_FEATURE_CQM_RSSI_LIST;
    cqm_list = bit / 8 < features.size() && (std::to_integer<unsigned>(features[bit / 8]) >> bit % 8 & 1) != 0;
  }
}

} // namespace tandem::feeder::nl80211
