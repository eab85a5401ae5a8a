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

} // namespace
} // namespace tandem::links
