#include "src/links/link_table.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::links
{
namespace
{

using namespace tandem::literals;

Address v4(std::uint8_t last)
{
  return { .bytes = { 192, 0, 2, last } };
}

Address v6(std::uint8_t last)
{
  return { .bytes = { 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last }, .v6 = true };
}

Tick at(Duration d)
{
  return Tick { d };
}

InterfaceNotification device(int ifindex, const std::string& name, bool running = true)
{
  return { .ifindex = ifindex, .name = name, .admin_up = true, .running = running };
}

class Links : public testing::Test
{
protected:
  LinkTable table { "wlan0", "wwan0" };
  const LinkInfo& wifi() { return table[Link::wifi]; }
};

TEST_F(Links, StartAbsent)
{
  EXPECT_FALSE(wifi().present());
  EXPECT_EQ(table.owner(v4(1)), Link::other);
  EXPECT_EQ(table.of_ifindex(0), Link::other);
}

TEST_F(Links, ComeAndGo)
{
  EXPECT_TRUE(table.apply(device(3, "wlan0"), at(1s)));
  EXPECT_TRUE(wifi().up);
  EXPECT_FALSE(wifi().present());
  EXPECT_TRUE(table.apply(AddressNotification { .ifindex = 3, .address = v4(1) }, at(2s)));
  EXPECT_TRUE(wifi().present());
  EXPECT_EQ(wifi().changed, at(1s)); // when up changed, not the address
  EXPECT_EQ(table.owner(v4(1)), Link::wifi);
  EXPECT_EQ(table.of_ifindex(3), Link::wifi);
  EXPECT_TRUE(table.apply(InterfaceNotification { .ifindex = 3, .name = "wlan0", .gone = true }, at(3s)));
  EXPECT_FALSE(wifi().up);
  EXPECT_EQ(wifi().changed, at(3s));
  EXPECT_EQ(table.owner(v4(1)), Link::other);
  EXPECT_TRUE(table.apply(device(9, "wlan0"), at(4s)));
  EXPECT_EQ(wifi().ifindex, 9);
  EXPECT_TRUE(wifi().addresses.empty()); // those of the old device died with it
}

TEST_F(Links, OthersAreNoNews)
{
  EXPECT_FALSE(table.apply(device(1, "lo"), at(1s)));
  EXPECT_FALSE(table.apply(AddressNotification { .ifindex = 1, .address = v4(9) }, at(1s)));
  EXPECT_EQ(table.owner(v4(9)), Link::other);
}

TEST_F(Links, CarrierLossIsDown)
{
  table.apply(device(3, "wlan0"), at(1s));
  EXPECT_TRUE(table.apply(device(3, "wlan0", false), at(2s)));
  EXPECT_FALSE(wifi().up);
  EXPECT_FALSE(table.apply(device(3, "wlan0", false), at(3s)));
  EXPECT_EQ(wifi().changed, at(2s));
}

TEST_F(Links, RenamedAwayAndBack)
{
  table.apply(device(3, "wlan0"), at(1s));
  table.apply(AddressNotification { .ifindex = 3, .address = v4(1) }, at(1s));
  EXPECT_TRUE(table.apply(device(3, "wlp3s0"), at(2s)));
  EXPECT_FALSE(wifi().present());
  EXPECT_TRUE(table.apply(device(3, "wlan0"), at(3s)));
  EXPECT_EQ(table.owner(v4(1)), Link::wifi);
}

TEST_F(Links, OnlyGlobalUsableAddresses)
{
  table.apply(device(3, "wlan0"), at(1s));
  EXPECT_FALSE(table.apply(AddressNotification { .ifindex = 3, .address = v6(1), .global = false }, at(1s)));
  EXPECT_FALSE(table.apply(AddressNotification { .ifindex = 3, .address = v6(2), .usable = false }, at(1s)));
  EXPECT_TRUE(table.apply(AddressNotification { .ifindex = 3, .address = v6(2) }, at(1s)));
  EXPECT_TRUE(table.apply(AddressNotification { .ifindex = 3, .address = v4(1) }, at(1s)));
  EXPECT_EQ(wifi().addresses, (std::vector<Address> { v4(1), v6(2) })); // IPv4 first
  EXPECT_TRUE(table.apply(AddressNotification { .ifindex = 3, .address = v6(2), .gone = true }, at(2s)));
  EXPECT_EQ(wifi().addresses, (std::vector<Address> { v4(1) }));
  EXPECT_FALSE(table.apply(AddressNotification { .ifindex = 3, .address = v4(1) }, at(2s))); // told twice
}

TEST_F(Links, AnAddressToldAgainIsNoNewsAndKeepsItsPlace)
{
  const auto told = [&](std::uint8_t last, unsigned prefix)
  {
    return table.apply(
        AddressNotification { .ifindex = 3, .address = v6(last), .on_link = network_of(v6(last), prefix) }, at(1s));
  };
  table.apply(device(3, "wlan0"), at(1s));
  told(1, 64);
  told(2, 64);
  EXPECT_FALSE(told(1, 64)) << "as every router advertisement does";
  EXPECT_EQ(wifi().addresses, (std::vector<Address> { v6(1), v6(2) }));
  EXPECT_TRUE(told(1, 96));
  EXPECT_EQ(wifi().addresses, (std::vector<Address> { v6(1), v6(2) }));
  EXPECT_EQ(wifi().on_link, (std::vector<Network> { network_of(v6(1), 96), network_of(v6(2), 64) }));
  EXPECT_TRUE(table.apply(AddressNotification { .ifindex = 3, .address = v6(1), .usable = false }, at(2s)));
  EXPECT_EQ(wifi().addresses, (std::vector<Address> { v6(2) }));
}

TEST_F(Links, ATemporaryAddressIsTheSourceInPlaceOfTheStableOneOfItsNetwork)
{
  Address elsewhere = v6(1);
  elsewhere.bytes[7] = 9; // another /64
  const auto told = [&](const Address& address, bool temporary, bool deprecated)
  {
    table.apply(
        AddressNotification { .ifindex = 3, .address = address, .deprecated = deprecated, .temporary = temporary },
        at(1s));
  };
  table.apply(device(3, "wlan0"), at(1s));
  told(v6(1), false, false);
  told(v6(2), true, false);
  told(elsewhere, false, false);
  told(v4(1), false, false);
  EXPECT_EQ(wifi().sources, (std::vector<Address> { v4(1), v6(2), elsewhere }));
  told(v6(2), true, true);
  EXPECT_EQ(wifi().sources, (std::vector<Address> { v4(1), v6(1), elsewhere })) << "better known than deprecated";
  EXPECT_EQ(wifi().deprecated, (std::vector<Address> { v6(2) }));
  EXPECT_EQ(wifi().addresses, (std::vector<Address> { v4(1), v6(1), v6(2), elsewhere })) << "all are this link's";
}

TEST_F(Links, ServersOfTheInternetAreAskedFromAnAddressThatTheyCanAnswer)
{
  Address local = v6(1);
  local.bytes[0] = 0xfd; // unique local, RFC 4193
  const auto told = [&](const Address& address, bool deprecated)
  { table.apply(AddressNotification { .ifindex = 3, .address = address, .deprecated = deprecated }, at(1s)); };
  table.apply(device(3, "wlan0"), at(1s));
  told(local, false);
  told(v6(2), true);
  told(v6(3), false);
  told(v4(1), false);
  ASSERT_EQ(wifi().addresses, (std::vector<Address> { v4(1), local, v6(2), v6(3) }));
  EXPECT_EQ(sources_to_internet(wifi()), (std::vector<Address> { v4(1), v6(3), v6(2), local }));
  told(v6(3), true);
  EXPECT_EQ(sources_to_internet(wifi()), (std::vector<Address> { v4(1), v6(2), v6(3), local }))
      << "better than none, as the kernel sees it";
}

TEST_F(Links, AScanOfTheWirelessExtensionsSaysNothingOfTheInterface)
{
  InterfaceNotification known = device(3, "wlan0");
  known.mtu = 1400;
  table.apply(known, at(1s));
  InterfaceNotification scan = device(3, "wlan0", false);
  scan.mtu = 0; // not told
  EXPECT_FALSE(table.apply(scan, at(2s)));
  EXPECT_EQ(wifi().mtu, 1400u);
  EXPECT_TRUE(wifi().up);
  scan.gone = true;
  EXPECT_TRUE(table.apply(scan, at(3s))) << "of one that goes nothing else matters";
}

TEST_F(Links, PeersOnTheSameNetworkAreLocal)
{
  const auto peer = [](std::uint8_t last) { return Address { .bytes = { 198, 51, 100, last } }; };
  Address global = v6(0);
  global.bytes[0] = 0x20, global.bytes[1] = 0x01, global.bytes[15] = 9;
  table.apply(device(3, "wlan0"), at(1s));
  EXPECT_FALSE(table.is_local_peer(Link::wifi, peer(20)));
  table.apply(AddressNotification { .ifindex = 3, .address = peer(10), .on_link = network_of(peer(10), 26) }, at(1s));
  table.apply(AddressNotification { .ifindex = 3, .address = global, .on_link = network_of(global, 64) }, at(1s));
  EXPECT_TRUE(table.is_local_peer(Link::wifi, peer(20)));
  EXPECT_FALSE(table.is_local_peer(Link::wifi, peer(70))) << "behind the router, /26";
  EXPECT_FALSE(table.is_local_peer(Link::cell, peer(20))) << "another link's network";
  Address neighbour = global;
  neighbour.bytes[15] = 77;
  EXPECT_TRUE(table.is_local_peer(Link::wifi, neighbour));
  neighbour.bytes[7] = 1;
  EXPECT_FALSE(table.is_local_peer(Link::wifi, neighbour));
  EXPECT_TRUE(table.is_local_peer(Link::wifi, { .bytes = { 192, 168, 7, 7 } })) << "private, wherever it is";
  table.apply(AddressNotification { .ifindex = 3, .address = peer(10), .gone = true }, at(2s));
  EXPECT_FALSE(table.is_local_peer(Link::wifi, peer(20)));
}

TEST(PrivateAddresses, AreThoseOfTheRfcsAndNoOthers)
{
  const auto v4 = [](std::uint8_t a, std::uint8_t b) { return Address { .bytes = { a, b, 1, 1 } }; };
  for (const Address& one :
       { v4(10, 0), v4(10, 255), v4(172, 16), v4(172, 31), v4(192, 168), v4(100, 64), v4(100, 127), v4(169, 254) })
    EXPECT_TRUE(is_private(one)) << +one.bytes[0] << '.' << +one.bytes[1];
  for (const Address& one : { v4(9, 255), v4(11, 0), v4(172, 15), v4(172, 32), v4(192, 167), v4(100, 63), v4(100, 128),
                              v4(169, 253), v4(203, 0) })
    EXPECT_FALSE(is_private(one)) << +one.bytes[0] << '.' << +one.bytes[1];
  const auto six = [](std::uint8_t a, std::uint8_t b) { return Address { .bytes = { a, b }, .v6 = true }; };
  for (const Address& one : { six(0xfc, 0), six(0xfd, 0x12), six(0xfe, 0x80), six(0xfe, 0xbf), six(0xfe, 0xc0) })
    EXPECT_TRUE(is_private(one)) << +one.bytes[0] << '.' << +one.bytes[1];
  for (const Address& one : { six(0x20, 1), six(0xfb, 0), six(0xfe, 0), six(0xff, 2), six(10, 0) })
    EXPECT_FALSE(is_private(one)) << +one.bytes[0] << '.' << +one.bytes[1];
}

// 64:ff9b::192.0.2.1 and the like: by another link there is another translator, or none.
TEST(PrivateAddresses, AreThoseOfATranslatorToo)
{
  const auto of = [](std::uint8_t third, std::uint8_t sixth, std::uint8_t twelfth) {
    return Address { .bytes = { 0, 0x64, 0xff, third, 0, sixth, 0, 0, 0, 0, 0, twelfth, 192, 0, 2, 1 }, .v6 = true };
  };
  EXPECT_TRUE(is_private(of(0x9b, 0, 0))) << "RFC 6052";
  EXPECT_TRUE(is_private(of(0x9b, 1, 7))) << "RFC 8215";
  EXPECT_FALSE(is_private(of(0x9b, 0, 1)));
  EXPECT_FALSE(is_private(of(0x9b, 2, 0)));
  EXPECT_FALSE(is_private(of(0x9c, 0, 0)));
  EXPECT_FALSE(is_private({ .bytes = { 0, 0x64, 0xff, 0x9b } })) << "of IPv4";
}

TEST(Networks, KeepTheirPrefixAlone)
{
  const Network odd = network_of({ .bytes = { 198, 51, 100, 0xff } }, 27);
  EXPECT_EQ(odd.address.bytes[3], 0xe0);
  EXPECT_TRUE(odd.contains({ .bytes = { 198, 51, 100, 0xe1 } }));
  EXPECT_FALSE(odd.contains({ .bytes = { 198, 51, 100, 0xdf } }));
  EXPECT_EQ(network_of({ .bytes = { 198, 51, 100, 1 } }, 99).prefix, 32u);
  EXPECT_EQ(network_of({ .bytes = { 198, 51, 100, 1 } }, 0).address, Address {});
}

TEST_F(Links, DefaultRouteOfLowestMetric)
{
  table.apply(device(3, "wlan0"), at(1s));
  EXPECT_TRUE(table.apply(DefaultRouteNotification { .ifindex = 3, .gateway = v4(254), .metric = 600 }, at(1s)));
  EXPECT_TRUE(table.apply(DefaultRouteNotification { .ifindex = 3, .gateway = v4(253), .metric = 100 }, at(1s)));
  EXPECT_EQ(wifi().gateway_v4, v4(253));
  EXPECT_FALSE(wifi().default_v6);
  EXPECT_TRUE(
      table.apply(DefaultRouteNotification { .ifindex = 3, .gone = true, .gateway = v4(253), .metric = 100 }, at(1s)));
  EXPECT_EQ(wifi().gateway_v4, v4(254));
  InterfaceNotification down = device(3, "wlan0");
  down.admin_up = false;
  EXPECT_TRUE(table.apply(down, at(2s)));
  EXPECT_FALSE(wifi().default_v4);
}

TEST_F(Links, ADumpThatSaysTheSameIsNoNews)
{
  table.apply(device(3, "wlan0"), at(1s));
  table.apply(AddressNotification { .ifindex = 3, .address = v4(1) }, at(1s));
  table.begin_dump();
  EXPECT_FALSE(table.apply(device(3, "wlan0"), at(5s)));
  EXPECT_EQ(table.owner(v4(1)), Link::wifi); // still answered from before the dump
  EXPECT_FALSE(table.apply(AddressNotification { .ifindex = 3, .address = v4(1) }, at(5s)));
  EXPECT_FALSE(table.finish_dump(at(5s)));
  EXPECT_EQ(wifi().changed, at(1s));
  table.begin_dump();
  EXPECT_TRUE(table.finish_dump(at(6s)));
  EXPECT_FALSE(wifi().up);
}

TEST_F(Links, FillForModules)
{
  table.apply(device(4, "wwan0"), at(1s));
  table.apply(AddressNotification { .ifindex = 4, .address = v4(1) }, at(1s));
  table.apply(DefaultRouteNotification { .ifindex = 4 }, at(1s));
  LinkStates states {};
  states[1].bytes_out = 77;
  table.fill(states);
  EXPECT_TRUE(states[1].present && states[1].up && states[1].route);
  EXPECT_FALSE(states[1].route_v6) << "each IP version has its own";
  EXPECT_EQ(states[1].bytes_out, 77u);
  EXPECT_FALSE(states[0].present || states[0].up || states[0].route);
}

TEST(SeveralWifi, EachHasItsRole)
{
  LinkTable table { "wlan0", "wwan0", { "wlan1", "wlan2" } };
  EXPECT_EQ(table[wifi_link(1)].interface, "wlan1");
  EXPECT_EQ(table[wifi_link(3)].interface, "");
  EXPECT_TRUE(table.apply(device(7, "wlan2"), at(1s)));
  EXPECT_TRUE(table.apply(AddressNotification { .ifindex = 7, .address = v4(7) }, at(1s)));
  EXPECT_TRUE(table.apply(device(3, "wlan0"), at(1s)));
  EXPECT_TRUE(table.apply(AddressNotification { .ifindex = 3, .address = v4(3) }, at(1s)));
  EXPECT_FALSE(table.apply(device(9, "wlan9"), at(1s))) << "nobody's";
  EXPECT_EQ(table.owner(v4(7)), wifi_link(2));
  EXPECT_EQ(table.owner(v4(3)), Link::wifi);
  EXPECT_EQ(table.of_ifindex(7), wifi_link(2));
  EXPECT_TRUE(table.apply(DefaultRouteNotification { .ifindex = 7, .metric = 600 }, at(2s)));

  LinkStates states {};
  table.fill(states);
  const auto state = [&](Link link) { return states[static_cast<std::size_t>(link)]; };
  EXPECT_TRUE(state(Link::wifi).present);
  EXPECT_FALSE(state(wifi_link(1)).present);
  EXPECT_TRUE(state(wifi_link(2)).present);
  EXPECT_TRUE(state(wifi_link(2)).up);
  EXPECT_TRUE(state(wifi_link(2)).route);
  EXPECT_FALSE(state(wifi_link(2)).route_v6);

  EXPECT_TRUE(table.apply(InterfaceNotification { .ifindex = 7, .name = "wlan2", .gone = true }, at(3s)));
  EXPECT_EQ(table.owner(v4(7)), Link::other);
  table.fill(states);
  EXPECT_FALSE(state(wifi_link(2)).present);
  EXPECT_FALSE(state(wifi_link(2)).up);
}

TEST(SeveralWifi, EightInAll)
{
  const std::vector<std::string> seven { "1", "2", "3", "4", "5", "6", "7" };
  EXPECT_EQ((LinkTable { "0", "", seven }[wifi_link(7)].interface), "7");
  std::vector<std::string> eight = seven;
  eight.push_back("8");
  EXPECT_THROW((LinkTable { "0", "", eight }), std::length_error);
}

TEST_F(Links, RolesGoToOtherInterfaces)
{
  table.apply(device(3, "wlan0"), at(1s));
  table.apply(AddressNotification { .ifindex = 3, .address = v4(1) }, at(1s));
  table.apply(device(5, "wlan1"), at(1s));
  EXPECT_FALSE(table.assign("wlan0", "wwan0", {}, at(2s)));
  EXPECT_TRUE(table.assign("wlan1", "wwan0", { "", "wlan0" }, at(2s)));
  EXPECT_EQ(wifi().ifindex, 5);
  EXPECT_TRUE(wifi().addresses.empty());
  EXPECT_EQ(table.owner(v4(1)), wifi_link(2));
  EXPECT_EQ(table.of_ifindex(0), Link::other) << "an empty place is no interface's";
  EXPECT_THROW(table.assign("a", "", std::vector<std::string>(most_wifi), at(3s)), std::length_error);
  EXPECT_EQ(wifi().interface, "wlan1") << "a refused call changes nothing";
}

TEST_F(Links, UsefulIsWithCarrierAndDefaultRoute)
{
  table.apply(device(7, "eth0"), at(1s)); // without a role
  ASSERT_EQ(table.present().size(), 1u);
  EXPECT_EQ(table.present()[0], (PresentInterface { "eth0", false, at(1s) }));
  table.apply(DefaultRouteNotification { .ifindex = 7, .metric = 1 }, at(2s));
  EXPECT_EQ(table.present()[0], (PresentInterface { "eth0", true, at(2s) }));
  table.apply(device(7, "eth0", false), at(3s));
  EXPECT_EQ(table.present()[0], (PresentInterface { "eth0", false, at(3s) }));
  // A dump that finds it as it was is no change.
  table.begin_dump();
  table.apply(device(7, "eth0", false), at(4s));
  table.finish_dump(at(4s));
  EXPECT_EQ(table.present()[0].since, at(3s));
  table.begin_dump();
  table.finish_dump(at(5s));
  EXPECT_TRUE(table.present().empty());
}

// Tunnels to a relay: their carrier is always there, that of what they leave by is not.
TEST_F(Links, TunnelsAreUpWithWhatIsBelow)
{
  EXPECT_TRUE(table.assign("tandem-wifi", "tandem-cell", {}, at(1s), { .wifi = "wlan0", .cell = "wwan0" }));
  table.apply(device(9, "tandem-wifi"), at(1s));
  table.apply(AddressNotification { .ifindex = 9, .address = v4(9) }, at(1s));
  EXPECT_FALSE(wifi().up);
  EXPECT_EQ(table.lower(Link::wifi).interface, "wlan0");
  EXPECT_TRUE(table.apply(device(3, "wlan0"), at(2s)));
  EXPECT_TRUE(wifi().up);
  EXPECT_EQ(wifi().changed, at(2s));
  EXPECT_TRUE(wifi().default_v4) << "wg-quick has its route in a table of its own";
  EXPECT_FALSE(wifi().default_v6);
  EXPECT_TRUE(table.apply(AddressNotification { .ifindex = 3, .address = v4(1) }, at(2s)));
  EXPECT_TRUE(table.lower(Link::wifi).present());
  EXPECT_EQ(table.owner(v4(9)), Link::wifi);
  EXPECT_EQ(table.owner(v4(1)), Link::other) << "what goes past the tunnel is no flow of ours";
  EXPECT_EQ(table.of_ifindex(9), Link::wifi);
  EXPECT_EQ(table.of_ifindex(3), Link::other);
  EXPECT_TRUE(table.apply(device(3, "wlan0", false), at(3s)));
  EXPECT_FALSE(wifi().up);
  EXPECT_EQ(wifi().changed, at(3s));
  EXPECT_TRUE(wifi().present());

  EXPECT_TRUE(table.assign("wlan0", "wwan0", {}, at(4s)));
  EXPECT_EQ(table.lower(Link::wifi).interface, "wlan0") << "without a tunnel the interface itself";
  EXPECT_FALSE(wifi().up);
  EXPECT_FALSE(wifi().default_v4);
}

TEST_F(Links, ATunnelByAModemThatLeadsNowhereDoesNotEither)
{
  table.assign("tandem-wifi", "tandem-cell", {}, at(1s), { .wifi = "wlan0", .cell = "wwan0" });
  table.apply(device(4, "wwan0"), at(1s));
  table.apply(device(8, "tandem-cell"), at(1s));
  table.apply(AddressNotification { .ifindex = 8, .address = v4(8) }, at(1s));
  const LinkInfo& cell = table[Link::cell];
  EXPECT_TRUE(cell.up);
  EXPECT_FALSE(cell.default_v4) << "what the tunnel packs it into would leave by Wi-Fi";
  EXPECT_TRUE(table.apply(DefaultRouteNotification { .ifindex = 4, .v6 = true, .metric = 700 }, at(2s)));
  EXPECT_TRUE(cell.default_v4) << "whatever the version around it";
  EXPECT_FALSE(cell.default_v6);
  EXPECT_TRUE(table.apply(DefaultRouteNotification { .ifindex = 4, .v6 = true, .gone = true, .metric = 700 }, at(3s)));
  EXPECT_FALSE(cell.default_v4);
  InterfaceNotification modem = device(4, "wwan0");
  modem.point_to_point = true;
  table.apply(modem, at(4s));
  EXPECT_FALSE(cell.default_v4) << "without an address";
  EXPECT_TRUE(table.apply(AddressNotification { .ifindex = 4, .address = v4(2) }, at(5s)));
  EXPECT_TRUE(cell.default_v4);
}

// What a tunnel packs its packets into goes by the best default route, whatever is named: by a cable, in a dock.
TEST_F(Links, ATunnelLeavesByTheBestDefaultRoute)
{
  const auto route = [](int ifindex, std::uint32_t metric, bool gone = false)
  { return DefaultRouteNotification { .ifindex = ifindex, .gone = gone, .metric = metric }; };
  table.assign("tandem-wifi", "tandem-cell", {}, at(1s), { .wifi = "wlan0", .cell = "wwan0" });
  table.apply(device(3, "wlan0"), at(1s));
  table.apply(device(4, "wwan0"), at(1s));
  table.apply(device(7, "eth0"), at(1s));
  table.apply(route(3, 600), at(1s));
  EXPECT_EQ(table.other_default(), "");
  EXPECT_TRUE(table.apply(route(7, 100), at(2s)));
  EXPECT_EQ(table.other_default(), "eth0");
  table.apply(route(3, 50), at(2s));
  EXPECT_EQ(table.other_default(), "") << "Wi-Fi is preferred";
  table.apply(route(3, 50, true), at(2s));
  table.apply(route(3, 600, true), at(2s));
  EXPECT_EQ(table.other_default(), "eth0") << "and is gone";
  table.apply(route(4, 50), at(3s));
  EXPECT_EQ(table.other_default(), "") << "the modem carries what Wi-Fi does not";
  EXPECT_TRUE(table.apply(route(4, 50, true), at(3s)));
  EXPECT_EQ(table.other_default(), "eth0");
  EXPECT_TRUE(table.apply(InterfaceNotification { .ifindex = 7, .name = "eth0", .gone = true }, at(4s)));
  EXPECT_EQ(table.other_default(), "");
  table.apply(device(7, "eth0"), at(4s));
  EXPECT_TRUE(table.apply(route(7, 100), at(4s)));
  EXPECT_TRUE(table.assign("wlan0", "wwan0", {}, at(5s)));
  EXPECT_EQ(table.other_default(), "") << "without a tunnel flows by the cable have its address";
}

} // namespace
} // namespace tandem::links
