// Netlink messages as the kernel sent them, and as no kernel would.
#include "src/feeder/sources/nl80211_decode.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <linux/nl80211.h>

#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <vector>

namespace tandem::feeder::nl80211
{
namespace
{

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;
using Kind = WifiChange::Kind;

constexpr Mac ap1 { 2, 0, 0, 0, 0, 0 };
constexpr Mac ap2 { 2, 0, 0, 0, 1, 0 };
constexpr Mac own { 2, 0, 0, 0, 2, 0 };

std::map<std::string, Bytes> recorded()
{
  std::map<std::string, Bytes> all {};
  std::ifstream file { NL80211_MESSAGES };
  for (std::string line {}; std::getline(file, line);)
  {
    if (line.starts_with('#')) continue;
    std::istringstream words { line };
    std::string name {}, hex {};
    words >> name >> hex;
    Bytes& bytes = all[name];
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
      bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return all;
}

const Bytes& message(const std::string& name)
{
  static const auto all = recorded();
  return all.at(name);
}

template <typename T>
std::optional<T> said(const Bytes& bytes)
{
  const auto decoded = decode(bytes);
  if (!decoded || !std::holds_alternative<T>(decoded->what)) return {};
  return std::get<T>(decoded->what);
}

// Builds a message that the recorded ones lack.
class Build
{
public:
  explicit Build(std::uint8_t command)
  {
    bytes_.resize(NLMSG_HDRLEN);
    for (const std::uint8_t b : { command, std::uint8_t { 1 }, std::uint8_t { 0 }, std::uint8_t { 0 } })
      bytes_.push_back(static_cast<std::byte>(b));
  }
  template <typename T>
  Build& put(int type, const T& value)
  {
    return add(type, &value, sizeof value);
  }
  Build& flag(int type) { return add(type, nullptr, 0); }
  Build& nest(int type, const Build& inner)
  {
    return add(type, inner.bytes_.data() + NLMSG_HDRLEN + 4, inner.bytes_.size() - NLMSG_HDRLEN - 4);
  }
  Bytes done() const
  {
    Bytes out = bytes_;
    nlmsghdr head {};
    head.nlmsg_len = static_cast<std::uint32_t>(out.size());
    std::memcpy(out.data(), &head, sizeof head);
    return out;
  }

private:
  Build& add(int type, const void* data, std::size_t length)
  {
    const std::array<std::uint16_t, 2> head { static_cast<std::uint16_t>(4 + length),
                                              static_cast<std::uint16_t>(type) };
    const std::size_t at = bytes_.size();
    bytes_.resize(at + NLMSG_ALIGN(4 + length));
    std::memcpy(bytes_.data() + at, head.data(), 4);
    if (length > 0) std::memcpy(bytes_.data() + at + 4, data, length);
    return *this;
  }
  Bytes bytes_ {};
};

TEST(Nl80211Decode, StationCounters)
{
  const auto s = said<StationStats>(message("station"));
  ASSERT_TRUE(s);
  EXPECT_EQ(s->ap, ap2);
  EXPECT_EQ(s->signal, -30.0f);
  EXPECT_EQ(s->signal_average, -30.0f);
  EXPECT_EQ(s->tx_failed, 0u);
  EXPECT_EQ(s->beacon_loss, 0u);
  EXPECT_GT(s->beacons.value_or(0), 0u);
  EXPECT_GT(s->rx_packets.value_or(0), 0u);
  EXPECT_GT(s->tx_mbps.value_or(0), 1.0);
  EXPECT_TRUE(s->tx_mcs);  // 802.11n
  EXPECT_FALSE(s->rx_mcs); // the latest frames were of 802.11b
  EXPECT_EQ(s->beacon_interval, 102400us);
  EXPECT_LT(s->inactive.value_or(1h), 1min);
}

// Drivers that have measured nothing, or give a percentage.
TEST(Nl80211Decode, ASignalThatCannotBeIsNone)
{
  const auto heard_at = [](std::int32_t mbm)
  {
    const Build bss = Build { 0 }
                          .put(NL80211_BSS_BSSID, ap1)
                          .put(NL80211_BSS_FREQUENCY, std::uint32_t { 2412 })
                          .put(NL80211_BSS_SIGNAL_MBM, mbm);
    return said<Candidate>(Build { NL80211_CMD_NEW_SCAN_RESULTS }.nest(NL80211_ATTR_BSS, bss).done())->signal;
  };
  EXPECT_EQ(heard_at(-6050), -60.5f);
  EXPECT_FALSE(heard_at(0));
  EXPECT_FALSE(heard_at(7000));
  const auto counted = [](std::int8_t dbm)
  {
    const Build info = Build { 0 }.put(NL80211_STA_INFO_SIGNAL, dbm).put(NL80211_STA_INFO_SIGNAL_AVG, dbm);
    return said<StationStats>(
        Build { NL80211_CMD_NEW_STATION }.put(NL80211_ATTR_MAC, ap1).nest(NL80211_ATTR_STA_INFO, info).done());
  };
  EXPECT_EQ(counted(-1)->signal, -1.0f);
  for (const std::int8_t dbm : { std::int8_t { 0 }, std::int8_t { 70 } })
  {
    EXPECT_FALSE(counted(dbm)->signal);
    EXPECT_FALSE(counted(dbm)->signal_average);
  }
}

TEST(Nl80211Decode, AnEventWithoutCountersHasNone)
{
  const auto s = said<StationStats>(message("station_event"));
  ASSERT_TRUE(s);
  EXPECT_EQ(*s, StationStats { .ap = ap2 });
}

TEST(Nl80211Decode, APeerOfADirectLinkIsNoAccessPoint)
{
  constexpr std::uint32_t tdls = 1u << NL80211_STA_FLAG_TDLS_PEER, associated = 1u << NL80211_STA_FLAG_ASSOCIATED;
  const auto with = [](std::uint32_t mask, std::uint32_t set)
  {
    const Build info = Build { 0 }.put(NL80211_STA_INFO_STA_FLAGS, nl80211_sta_flag_update { mask, set });
    return said<StationStats>(
        Build { NL80211_CMD_NEW_STATION }.put(NL80211_ATTR_MAC, ap1).nest(NL80211_ATTR_STA_INFO, info).done());
  };
  EXPECT_FALSE(with(tdls | associated, tdls | associated));
  EXPECT_TRUE(with(tdls | associated, associated));
  EXPECT_TRUE(with(associated, tdls)) << "a flag that is not told";
}

TEST(Nl80211Decode, Survey)
{
  const auto s = said<Survey>(message("survey"));
  ASSERT_TRUE(s);
  EXPECT_EQ(s->frequency, 2412u);
  EXPECT_EQ(s->noise, -92.0f);
  EXPECT_GT(s->active.value_or(0ns), 0ns);
  EXPECT_GT(s->busy.value_or(0ns), 0ns);
  EXPECT_FALSE(s->receiving); // this driver does not count it
  EXPECT_FALSE(s->sending);
}

TEST(Nl80211Decode, CandidatesWithNameAndWhichIsOurs)
{
  const auto first = said<Candidate>(message("candidate_1")), second = said<Candidate>(message("candidate_2"));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->ssid, "tandem-vm");
  EXPECT_EQ(second->ssid, "tandem-vm");
  EXPECT_NE(first->associated, second->associated);
  EXPECT_EQ(first->ap, ap2);
  EXPECT_EQ(first->frequency, 2412u);
  EXPECT_EQ(second->ap, ap1);
  EXPECT_EQ(second->frequency, 2437u);
  EXPECT_EQ(first->signal, -30.0f);
  EXPECT_LT(second->age.value_or(1h), 1min);
}

TEST(Nl80211Decode, ThatAScanIsDoneNamesNoCandidate)
{
  const auto decoded = decode(message("new_scan_results"));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->command, NL80211_CMD_NEW_SCAN_RESULTS);
  EXPECT_TRUE(decoded->ifindex);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(decoded->what));
}

TEST(Nl80211Decode, HiddenNamesAndElementsThatLie)
{
  const auto with = [](const std::vector<std::uint8_t>& elements)
  {
    Build bss { 0 }, inner { 0 };
    inner.put(NL80211_BSS_BSSID, ap1).put(NL80211_BSS_FREQUENCY, std::uint32_t { 5180 });
    std::array<std::uint8_t, 64> padded {};
    std::copy(elements.begin(), elements.end(), padded.begin());
    inner.put(NL80211_BSS_INFORMATION_ELEMENTS, padded);
    return said<Candidate>(Build { NL80211_CMD_NEW_SCAN_RESULTS }.nest(NL80211_ATTR_BSS, inner).done());
  };
  EXPECT_EQ(with({ 0, 2, 'a', 'b' })->ssid, "ab");
  EXPECT_EQ(with({ 1, 1, 9, 0, 2, 'a', 'b' })->ssid, "ab"); // behind another element
  EXPECT_EQ(with({ 0, 2, 0xff, '\n' })->ssid, "\xff\n");    // any bytes
  EXPECT_EQ(with({ 0, 0 })->ssid, "");
  EXPECT_EQ(with({ 0, 4, 0, 0, 0, 0 })->ssid, "");
  EXPECT_EQ(with({ 0, 200, 'a' })->ssid, "");          // longer than all
  EXPECT_EQ(with({ 0, 40, 'a', 'b', 'c' })->ssid, ""); // longer than a name can be
  EXPECT_FALSE(with({ 0, 2, 'a', 'b' })->signal);
  EXPECT_FALSE(with({ 0, 2, 'a', 'b' })->associated);
}

TEST(Nl80211Decode, Changes)
{
  const auto connected = said<WifiChange>(message("connect"));
  ASSERT_TRUE(connected);
  EXPECT_EQ(connected->kind, Kind::connected);
  EXPECT_EQ(connected->ap, ap2);

  const auto by_ap = said<WifiChange>(message("deauthenticate_ap"));
  ASSERT_TRUE(by_ap);
  EXPECT_EQ(by_ap->kind, Kind::disconnected);
  EXPECT_EQ(by_ap->ap, ap1);
  EXPECT_EQ(by_ap->by_ap, true);
  EXPECT_EQ(by_ap->reason, 2);
  const auto own_request = said<WifiChange>(message("deauthenticate_own"));
  ASSERT_TRUE(own_request);
  EXPECT_EQ(own_request->by_ap, false);
  EXPECT_EQ(own_request->ap, ap2);

  const auto end = said<WifiChange>(message("disconnect_ap"));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->kind, Kind::disconnected);
  EXPECT_EQ(end->by_ap, true);
  EXPECT_EQ(end->reason, 2);
  EXPECT_EQ(said<WifiChange>(message("disconnect_own"))->by_ap, false);

  const auto high = said<WifiChange>(message("signal_high"));
  ASSERT_TRUE(high);
  EXPECT_EQ(high->kind, Kind::signal_high);
  EXPECT_EQ(high->signal, -30.0f);
  EXPECT_EQ(said<WifiChange>(message("beacon_loss"))->kind, Kind::beacon_loss);
}

TEST(Nl80211Decode, ChangesThatTheMachineDidNotMake)
{
  const auto quality = [](const Build& inner)
  { return said<WifiChange>(Build { NL80211_CMD_NOTIFY_CQM }.nest(NL80211_ATTR_CQM, inner).done()); };
  const auto lost = quality(Build { 0 }.put(NL80211_ATTR_CQM_PKT_LOSS_EVENT, std::uint32_t { 50 }));
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->kind, Kind::packet_loss);
  EXPECT_EQ(lost->packets, 50u);
  const auto low = quality(Build { 0 }.put(NL80211_ATTR_CQM_RSSI_THRESHOLD_EVENT, std::uint32_t { 0 }));
  ASSERT_TRUE(low);
  EXPECT_EQ(low->kind, Kind::signal_low);
  EXPECT_FALSE(low->signal); // an old kernel does not say
  EXPECT_FALSE(quality(Build { 0 }.put(NL80211_ATTR_CQM_RSSI_THRESHOLD_EVENT, std::uint32_t { 77 })));
  EXPECT_FALSE(quality(Build { 0 }));

  // A refused association is no connection.
  EXPECT_FALSE(said<WifiChange>(Build { NL80211_CMD_CONNECT }
                                    .put(NL80211_ATTR_MAC, ap1)
                                    .put(NL80211_ATTR_STATUS_CODE, std::uint16_t { 17 })
                                    .done()));
  const auto roamed = said<WifiChange>(Build { NL80211_CMD_ROAM }.put(NL80211_ATTR_MAC, ap1).done());
  ASSERT_TRUE(roamed);
  EXPECT_EQ(roamed->kind, Kind::roamed);
  EXPECT_EQ(roamed->ap, ap1);
}

TEST(Nl80211Decode, RatesOfEveryGeneration)
{
  const auto with = [](const Build& rate)
  {
    Build info { 0 };
    info.nest(NL80211_STA_INFO_TX_BITRATE, rate).nest(NL80211_STA_INFO_RX_BITRATE, rate);
    return said<StationStats>(
               Build { NL80211_CMD_NEW_STATION }.put(NL80211_ATTR_MAC, ap1).nest(NL80211_ATTR_STA_INFO, info).done())
        .value();
  };
  const auto old = with(Build { 0 }.put(NL80211_RATE_INFO_BITRATE, std::uint16_t { 55 }));
  EXPECT_EQ(old.tx_mbps, 5.5);
  EXPECT_FALSE(old.tx_mcs);
  const auto vht = with(Build { 0 }
                            .put(NL80211_RATE_INFO_BITRATE32, std::uint32_t { 8667 })
                            .put(NL80211_RATE_INFO_BITRATE, std::uint16_t { 1 })
                            .put(NL80211_RATE_INFO_VHT_MCS, std::uint8_t { 9 })
                            .put(NL80211_RATE_INFO_VHT_NSS, std::uint8_t { 2 }));
  EXPECT_EQ(vht.rx_mbps, 866.7);
  EXPECT_EQ(vht.rx_mcs, 9);
  EXPECT_EQ(vht.rx_streams, 2);
  const auto none = with(Build { 0 }.put(NL80211_RATE_INFO_BITRATE, std::uint16_t { 0 }));
  EXPECT_FALSE(none.tx_mbps);
}

TEST(Nl80211Decode, AFieldTooShortIsAbsentAndTheOthersStay)
{
  Build info { 0 };
  info.put(NL80211_STA_INFO_SIGNAL, std::int8_t { -61 })
      .put(NL80211_STA_INFO_TX_FAILED, std::uint16_t { 3 }) // two bytes of four
      .flag(NL80211_STA_INFO_BEACON_RX)
      .put(NL80211_STA_INFO_RX_DURATION, ~std::uint64_t { 0 }) // half a million years
      .put(NL80211_STA_INFO_TX_RETRIES, std::uint32_t { 7 });
  const auto s = said<StationStats>(
      Build { NL80211_CMD_NEW_STATION }.put(NL80211_ATTR_MAC, ap1).nest(NL80211_ATTR_STA_INFO, info).done());
  ASSERT_TRUE(s);
  EXPECT_EQ(s->signal, -61.0f);
  EXPECT_FALSE(s->tx_failed);
  EXPECT_FALSE(s->beacons);
  EXPECT_FALSE(s->rx_duration);
  EXPECT_EQ(s->tx_retries, 7u);
}

TEST(Nl80211Decode, InterfaceAndRadio)
{
  const auto interface = decode_interface(message("interface"));
  ASSERT_TRUE(interface);
  EXPECT_EQ(interface->name, "wlan2");
  EXPECT_EQ(interface->type, std::uint32_t { NL80211_IFTYPE_STATION });
  EXPECT_EQ(interface->mac, own);
  EXPECT_FALSE(decode_interface(message("station")));

  Wiphy wiphy {};
  EXPECT_FALSE(wiphy.monitor);
  for (const char* part : { "wiphy_kinds", "wiphy_software", "wiphy_features", "station" })
    wiphy.take(message(part));
  EXPECT_EQ(wiphy.monitor, true);
  EXPECT_EQ(wiphy.software_monitor, true);
  EXPECT_EQ(wiphy.cqm_list, true);
  EXPECT_EQ(wiphy.name, "phy2");
}

// `limits`: as many interfaces of type `iftype` each.
Build combination(std::uint32_t most, std::uint32_t channels,
                  const std::vector<std::pair<std::uint32_t, nl80211_iftype>>& limits)
{
  Build list { 0 };
  int number = 1;
  for (const auto& [count, type] : limits)
    list.nest(number++,
              Build { 0 }.put(NL80211_IFACE_LIMIT_MAX, count).nest(NL80211_IFACE_LIMIT_TYPES, Build { 0 }.flag(type)));
  return Build { 0 }
      .nest(NL80211_IFACE_COMB_LIMITS, list)
      .put(NL80211_IFACE_COMB_MAXNUM, most)
      .put(NL80211_IFACE_COMB_NUM_CHANNELS, channels);
}

Wiphy with(const std::vector<Build>& combinations)
{
  Build list { 0 };
  int number = 1;
  for (const Build& one : combinations)
    list.nest(number++, one);
  Wiphy wiphy {};
  wiphy.take(Build { NL80211_CMD_NEW_WIPHY }.nest(NL80211_ATTR_INTERFACE_COMBINATIONS, list).done());
  return wiphy;
}

TEST(Nl80211Decode, AtHowManyAccessPointsAndOnHowManyChannelsACardCanBe)
{
  constexpr auto sta = NL80211_IFTYPE_STATION, ap = NL80211_IFTYPE_AP;
  Wiphy wiphy = with({ combination(4, 1, { { 3, sta }, { 1, ap } }), combination(3, 2, { { 2, sta }, { 1, ap } }) });
  EXPECT_EQ(wiphy.stations, 3u);
  EXPECT_EQ(wiphy.channels, 1u);
  EXPECT_EQ(wiphy.stations_apart, 2u);
  EXPECT_EQ(wiphy.channels_apart, 2u);

  wiphy = with({ combination(3, 2, { { 1, sta }, { 1, ap } }) });
  EXPECT_EQ(wiphy.stations, 1u);
  EXPECT_FALSE(wiphy.stations_apart) << "the second channel is for an access point of its own";
  wiphy = with({ combination(2, 1, { { 2, sta } }) });
  EXPECT_EQ(wiphy.stations, 2u);
  EXPECT_FALSE(wiphy.stations_apart);
  EXPECT_FALSE(with({}).stations);
}

TEST(Nl80211Decode, CombinationsThatContradictThemselves)
{
  constexpr auto sta = NL80211_IFTYPE_STATION;
  Wiphy wiphy = with({ combination(1, 2, { { 7, sta } }) });
  EXPECT_EQ(wiphy.stations, 1u) << "at most one interface in all";
  EXPECT_FALSE(wiphy.stations_apart);
  wiphy = with({ combination(0, 0, { { 0, sta } }), combination(5, 0, { { 2, sta } }), combination(2, 2, {}) });
  EXPECT_EQ(wiphy.stations, 2u);
  EXPECT_EQ(wiphy.channels, 0u);
  EXPECT_FALSE(wiphy.stations_apart);
  // Without its limits, or with numbers too short to be any.
  wiphy = with({ Build { 0 }.put(NL80211_IFACE_COMB_MAXNUM, std::uint32_t { 9 }),
                 Build { 0 }
                     .put(NL80211_IFACE_COMB_MAXNUM, std::uint8_t { 9 })
                     .put(NL80211_IFACE_COMB_NUM_CHANNELS, std::uint16_t { 2 }) });
  EXPECT_FALSE(wiphy.stations_apart);
}

// Cut anywhere, with the length in the header as it was or as it is: nothing is read beyond the end (the sanitizers
// see it), and a message whose length does not hold says nothing.
TEST(Nl80211Decode, CutAnywhere)
{
  for (const auto& [name, whole] : recorded())
    for (std::size_t size = 0; size < whole.size(); ++size)
    {
      Bytes cut { whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size) };
      cut.shrink_to_fit();
      EXPECT_FALSE(decode(cut)) << name << " cut to " << size;
      if (size < sizeof(nlmsghdr)) continue;
      const auto length = static_cast<std::uint32_t>(size);
      std::memcpy(cut.data(), &length, sizeof length);
      decode(cut);
      decode_interface(cut);
      Wiphy {}.take(cut);
    }
}

TEST(Nl80211Decode, AnyByteChanged)
{
  std::mt19937 random { 5 };
  for (const auto& [name, whole] : recorded())
    for (int i = 0; i < 3000; ++i)
    {
      Bytes changed = whole;
      for (int n = 0; n < 3; ++n)
        changed[random() % changed.size()] = static_cast<std::byte>(random());
      decode(changed);
      decode_interface(changed);
      Wiphy {}.take(changed);
    }
}

} // namespace
} // namespace tandem::feeder::nl80211
