// Profiles: how they are read, what holds while one does, and in which network this host is.
#include "src/daemon/current_network.h"
#include "src/daemon/setting_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem::daemon
{
namespace
{

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* office = R"(
[modules.offload]
window_mss = 30
[modules.freeze]
[profile.office]
ssid = ["Office", "Office 5G"]
cell.use = "never"
budget.cell_day = "1MB"
modules.freeze.enabled = false
modules.offload.window_mss = 50
[profile.train]
ssid = ["WIFIonICE"]
[profile.train.budget]
cell_month = ""
[profile.train.modules.mirror]
enabled = true
)";

std::vector<std::string> complaints(const std::string& text, const KnobCheck& check = {})
{
  std::vector<std::string> all;
  for (const Complaint& one : parse_config(text, "t.toml", check).complaints)
    all.push_back(one.text());
  return all;
}

TEST(AProfile, SaysWhatHoldsInItsNetworks)
{
  const auto [config, wrong] = parse_config(office, "t.toml");
  ASSERT_THAT(wrong, IsEmpty());
  ASSERT_EQ(config.profiles.size(), 2u);
  const Profile& one = *find_profile(config.profiles, "office");
  EXPECT_THAT(one.ssids, ElementsAre("Office", "Office 5G"));
  EXPECT_THAT(one.texts(), ElementsAre("cell.use = \"never\"", "budget.cell_day = 1000000 bytes", "modules.freeze off",
                                       "modules.offload.window_mss = 50"));
  EXPECT_EQ(one.where.text(), "t.toml:5");
  EXPECT_EQ(profile_of_network(config.profiles, "Office 5G"), &one);
  EXPECT_EQ(profile_of_network(config.profiles, "office"), nullptr) << "names of networks are bytes";
  EXPECT_EQ(profile_of_network(config.profiles, ""), nullptr);

  const Config held = with_profile(config, &one);
  EXPECT_FALSE(held.cell.use);
  EXPECT_EQ(held.budget.cell_day, 1'000'000u);
  EXPECT_EQ(held.budget.cell_month, 50'000'000u) << "the profile says nothing of it";
  EXPECT_TRUE(held.module_enabled("offload")) << "a knob alone says nothing about the switch";
  EXPECT_FALSE(held.module_enabled("freeze"));
  ASSERT_EQ(held.knobs.size(), 1u);
  EXPECT_EQ(held.knobs[0].text, "50");

  const Config in_the_train = with_profile(config, find_profile(config.profiles, "train"));
  EXPECT_FALSE(in_the_train.budget.cell_month) << "no limit";
  EXPECT_TRUE(in_the_train.cell.use);
  EXPECT_TRUE(in_the_train.module_enabled("mirror"));
  EXPECT_TRUE(with_profile(config, nullptr).cell.use);
}

TEST(AProfile, DoesNotSwitchAModuleOnByAKnob)
{
  const auto [config, wrong] =
      parse_config("[profile.a]\nssid = [\"A\"]\n[profile.a.modules.offload]\nwindow_mss = 5\n", "t.toml");
  ASSERT_THAT(wrong, IsEmpty());
  EXPECT_FALSE(with_profile(config, &config.profiles[0]).module_enabled("offload"));
}

TEST(AProfile, IsBelowTheCommandLine)
{
  Config config = parse_config(office, "t.toml").config;
  for (const auto& [key, value] : { std::pair { "budget.cell_day", "7MB" },
                                    { "modules.freeze.enabled", "true" },
                                    { "modules.offload.window_mss", "7" } })
    ASSERT_EQ(override_setting(config, key, value), std::nullopt);
  const Config held = with_profile(config, find_profile(config.profiles, "office"));
  EXPECT_EQ(held.budget.cell_day, 7'000'000u);
  EXPECT_TRUE(held.module_enabled("freeze"));
  ASSERT_EQ(held.knobs.size(), 1u);
  EXPECT_EQ(held.knobs[0].text, "7");
}

TEST(AProfile, WithAMistakeIsNamedWithItsLineAndValue)
{
  const std::string fine = "[profile.a]\nssid = [\"A\"]\n";
  EXPECT_THAT(complaints(fine + "budget.cell_dya = \"1MB\""),
              ElementsAre("t.toml:3: profile.a.budget.cell_dya: no such setting of a profile; cell.use, "
                          "budget.cell_day, budget.cell_month, modules.NAME.enabled or modules.NAME.KNOB may be set, "
                          "and ssid"));
  EXPECT_THAT(complaints(fine + "links.wifi = \"wlan0\"")[0], HasSubstr("t.toml:3: profile.a.links: no such setting"));
  EXPECT_THAT(
      complaints(fine + "budget.cell_day = \"much\""),
      ElementsAre(
          "t.toml:3: profile.a.budget.cell_day = \"much\": a size with its unit such as \"10MB\", or \"\" for no "
          "limit, is needed"));
  EXPECT_THAT(complaints(fine + "cell.use = \"always\""),
              ElementsAre("t.toml:3: profile.a.cell.use = \"always\": \"never\" or \"budget\" is needed"));
  EXPECT_THAT(complaints(fine + "modules.freeze.enabled = 1"),
              ElementsAre("t.toml:3: profile.a.modules.freeze.enabled = 1: true or false is needed"));
  EXPECT_THAT(complaints(fine), ElementsAre(HasSubstr("t.toml:1: profile.a: sets nothing; ")));
  EXPECT_THAT(complaints("[profile.a]\ncell.use = \"never\""),
              ElementsAre("t.toml:1: profile.a: ssid = [\"NAME\"], the Wi-Fi networks in which it holds, is needed"));
  for (const char* ssid : { "[]", "[\"\"]", "\"A\"x", "7" })
    EXPECT_THAT(complaints(std::string { "[profile.a]\nssid = " } + ssid + "\ncell.use = \"never\"")[0],
                HasSubstr("t.toml:2: "))
        << ssid;
  EXPECT_THAT(complaints("profile = 3"), ElementsAre("t.toml:1: profile = 3: a section [profile] is needed"));
  EXPECT_THAT(complaints("[profile]\na = 3")[0], HasSubstr("t.toml:2: profile.a = 3: a table is needed"));
  EXPECT_THAT(complaints("[profile.\"a b\"]\nssid = [\"A\"]")[0], HasSubstr("t.toml:1: profile.a b: a profile's name"));
}

TEST(AProfile, SharesNoNetwork)
{
  EXPECT_THAT(complaints("[profile.b]\nssid = [\"X\", \"Home\"]\ncell.use = \"never\"\n"
                         "[profile.a]\nssid = [\"Home\"]\ncell.use = \"never\"\n"),
              ElementsAre("t.toml:5: profile.a.ssid: \"Home\" is in profile.b (t.toml:2) already; a network has one "
                          "profile at most"));
}

TEST(AProfile, HasItsModulesChecked)
{
  const KnobCheck check = [](const KnobSetting& one) -> std::optional<KnobRemark>
  {
    if (one.module != "offload") return "no such module is loaded";
    return one.knob == "window_mss" && one.text == "0" ? std::optional { KnobRemark { "1 is needed" } } : std::nullopt;
  };
  const std::string fine = "[profile.a]\nssid = [\"A\"]\n";
  EXPECT_THAT(complaints(fine + "modules.offload.window_mss = 0", check),
              ElementsAre("t.toml:3: profile.a.modules.offload.window_mss = 0: 1 is needed"));
  EXPECT_THAT(complaints(fine + "modules.rocket.enabled = true", check),
              ElementsAre("t.toml:3: profile.a.modules.rocket: no such module is loaded"));
}

TEST(AProfile, LiesBelowWhatIsSavedAndAboveTheFile)
{
  const SettingName freeze { "freeze" }, mss { "offload", "window_mss" };
  SettingLayers layers { parse_config(office, "t.toml").config, {} };
  EXPECT_EQ(layers.value(freeze), (SettingLayers::Value { "on", { "t.toml", 4 } }));
  layers.hold("office");
  EXPECT_EQ(layers.profile(), "office");
  EXPECT_EQ(layers.value(freeze), (SettingLayers::Value { "off", { "t.toml", 9 } }));
  EXPECT_EQ(layers.value(mss), (SettingLayers::Value { "50", { "t.toml", 10 } }));
  EXPECT_FALSE(layers.merged().cell.use);
  layers.save(mss, "40", 0);
  EXPECT_EQ(layers.value(mss).text, "40");
  layers.set(freeze, "on");
  EXPECT_EQ(layers.value(freeze).text, "on");
  EXPECT_TRUE(layers.merged().module_enabled("freeze"));
  layers.set(freeze, "off");
  EXPECT_THAT(layers.tell_set(), IsEmpty()) << "what the profile says already is no change of this run";

  std::vector<std::string> told {};
  layers.hold("");
  for (const SettingLayers::Remark& one : layers.remarks())
    told.push_back(one.text);
  EXPECT_THAT(told, ElementsAre(HasSubstr("not the \"30\" of t.toml:3"), HasSubstr("not the \"50\" of t.toml:10")))
      << "also of a profile that does not hold now";
  static_cast<void>(layers.forget(mss));
  EXPECT_EQ(layers.value(mss).text, "30");
  EXPECT_TRUE(layers.merged().module_enabled("freeze"));
  EXPECT_TRUE(layers.merged().cell.use);
}

TEST(AProfile, HoldsOnAfterAReloadIfItIsStillThere)
{
  SettingLayers layers { parse_config(office, "t.toml").config, {} };
  layers.hold("office");
  layers.rest_on(
      parse_config("[profile.office]\nssid = [\"Office\"]\nmodules.mirror.enabled = true\n", "t.toml").config);
  EXPECT_TRUE(layers.merged().module_enabled("mirror"));
  EXPECT_TRUE(layers.merged().cell.use);
  layers.rest_on(parse_config("", "t.toml").config);
  EXPECT_EQ(layers.profile(), "");
  EXPECT_FALSE(layers.merged().module_enabled("mirror"));
}

TEST(ABudget, IsKeptWhereAProfileLimitsIt)
{
  const auto limits = [](const std::string& day, const std::string& profile)
  {
    return parse_config("[budget]\ncell_day = \"\"\ncell_month = \"\"\n" + day
                            + "[profile.a]\nssid = [\"A\"]\ncell.use = \"budget\"\n" + profile,
                        "t.toml")
        .config.limits_spending();
  };
  EXPECT_FALSE(limits("", ""));
  EXPECT_FALSE(limits("", "budget.cell_day = \"\"\n"));
  EXPECT_TRUE(limits("", "budget.cell_day = \"1MB\"\n"));
  EXPECT_TRUE(limits("", "budget.cell_month = 0\n"));
}

TEST(TheNetwork, IsTheLastOneThatWasTold)
{
  CurrentNetwork network {};
  EXPECT_EQ(network.name(), "");
  network.told(3, {}, "Heard");
  EXPECT_EQ(network.name(), "Heard");
  EXPECT_FALSE(network.by_driver());
  network.told(3, {}, "");
  EXPECT_EQ(network.name(), "Heard") << "sources are closed";
  network.told(3, "Office", "Heard");
  EXPECT_EQ(network.name(), "Office");
  network.told(3, {}, "Heard");
  EXPECT_EQ(network.name(), "Office") << "down: its flows are still there";
  EXPECT_TRUE(network.by_driver());
  network.told(3, "Home", "");
  EXPECT_EQ(network.name(), "Home");
  network.told(4, {}, "");
  EXPECT_EQ(network.name(), "") << "another interface";
  EXPECT_FALSE(network.by_driver());
}

} // namespace
} // namespace tandem::daemon
