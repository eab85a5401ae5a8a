// What ModemManager may say, and what anybody in its place may; the service itself is played in
// tests/lab/test_money.py.
#include "src/links/modem_objects.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tandem::links
{
namespace
{

using Port = sdbus::Struct<std::string, std::uint32_t>;

void add(ModemObjects& objects, const std::string& port, Properties gpp)
{
  const std::string path = "/org/freedesktop/ModemManager1/Modem/" + std::to_string(objects.size());
  auto& modem = objects[sdbus::ObjectPath { path }];
  modem[modem_interface]["Ports"] = sdbus::Variant { std::vector<Port> { Port { "cdc-wdm0", 6u }, Port { port, 2u } } };
  modem[gpp_interface] = std::move(gpp);
}

Properties registered(const std::string& where, unsigned state = 1)
{
  return { { "OperatorCode", sdbus::Variant { where } }, { "RegistrationState", sdbus::Variant { state } } };
}

TEST(ModemObjects, RoamingIsEveryKindOfRoaming)
{
  for (const unsigned away : { 5u, 7u, 10u })
    EXPECT_EQ(roaming(away), true) << away;
  for (const unsigned home : { 1u, 6u, 9u })
    EXPECT_EQ(roaming(home), false) << home;
  for (const unsigned nowhere : { 0u, 2u, 3u, 4u, 8u, 99u })
    EXPECT_EQ(roaming(nowhere), std::nullopt) << nowhere;
}

TEST(ModemObjects, WhetherAnInterfaceRoamsItsOwnModemSays)
{
  ModemObjects objects {};
  EXPECT_EQ(roaming_of(objects, "wwan0"), std::nullopt);
  add(objects, "wwan1", registered("26201", 5));
  EXPECT_EQ(roaming_of(objects, "wwan0"), true) << "when none says so, any modem's counts";
  add(objects, "wwan0", registered("26201", 1));
  EXPECT_EQ(roaming_of(objects, "wwan0"), false);
}

TEST(ModemObjects, AnOperatorCodeIsFiveOrSixDigits)
{
  EXPECT_EQ(operator_code("26201"), "26201");
  EXPECT_EQ(operator_code("310260"), "310260");
  for (const std::string& wrong :
       { std::string {}, std::string { "2620" }, std::string { "3102601" }, std::string { "26201 " },
         std::string { "26-01" }, std::string { "2620\n" }, std::string { "26201\0", 6 },
         std::string { "\xd9\xa1\xd9\xa2\xd9\xa3" }, std::string(100'000, '1') })
    EXPECT_EQ(operator_code(wrong), "") << wrong.substr(0, 20);
}

TEST(ModemObjects, TheOperatorIsThatOfTheInterfacesModem)
{
  ModemObjects objects {};
  EXPECT_EQ(operator_of(objects, "wwan0"), "");
  add(objects, "wwan1", registered("26202"));
  EXPECT_EQ(operator_of(objects, "wwan0"), "") << "another modem's says nothing";
  add(objects, "wwan0", registered("26201"));
  EXPECT_EQ(operator_of(objects, "wwan0"), "26201");
  EXPECT_EQ(operator_of(objects, "wwan1"), "26202");
  EXPECT_EQ(operator_of(objects, ""), "");
}

TEST(ModemObjects, WhatIsNoOperatorIsNone)
{
  for (Properties& gpp :
       std::vector<Properties> { {},
                                 registered(""), // registered nowhere
                                 registered("../../etc"),
                                 { { "OperatorCode", sdbus::Variant { 26201u } } },
                                 { { "OperatorCode", sdbus::Variant { std::vector<std::string> { "26201" } } } } })
  {
    ModemObjects objects {};
    add(objects, "wwan0", gpp);
    EXPECT_EQ(operator_of(objects, "wwan0"), "");
    objects.begin()->second[modem_interface]["Ports"] = sdbus::Variant { std::string { "wwan0" } };
    objects.begin()->second[gpp_interface] = registered("26201");
    EXPECT_EQ(operator_of(objects, "wwan0"), "") << "ports of another type are none";
  }
}

} // namespace
} // namespace tandem::links
