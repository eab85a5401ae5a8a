#include "src/daemon/saved_aps.h"
#include "src/daemon/saved_file.h"
#include "src/daemon/setting_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace tandem::daemon
{
namespace
{

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const SettingName offload { "offload" }, mirror { "mirror" }, mss { "offload", "window_mss" };

SavedSettings some()
{
  return { { offload, { "off", 1'700'000'000 } }, { mss, { "40 \"MSS\"\n", 1'700'000'001 } } };
}

TEST(SavedSettings, AreTheSameAfterBeingWritten)
{
  SavedSettings again {};
  EXPECT_EQ(read_saved(saved_text(some()), again), "");
  EXPECT_EQ(again, some());
  EXPECT_EQ(saved_text(again), saved_text(some()));
}

TEST(SavedSettings, NothingOfADamagedTextIsUsed)
{
  std::string whole = saved_text(some());
  whole.pop_back(); // without the last line break it is still whole
  SavedSettings none {};
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(read_saved(whole.substr(0, length), none), "") << length;
  const auto text = [](const std::string& settings) { return R"({"tandem-saved": 1, "settings": )" + settings + "}"; };
  ASSERT_EQ(read_saved(text("{}"), none), "");
  for (const std::string& wrong :
       { std::string { "[]" }, std::string { "{}" }, std::string { R"({"tandem-saved": 1})" },
         std::string { R"({"tandem-saved": 1, "settings": {}, "more": 1})" }, text("[]"), text(R"({"off load": {}})"),
         text(R"({"offload": {"value": "maybe", "at_s": 1}})"), text(R"({"offload": {"value": true, "at_s": 1}})"),
         text(R"({"offload.": {"value": "1", "at_s": 1}})"), text(R"({"a.b.c": {"value": "1", "at_s": 1}})"),
         text(R"({"a.b": {"value": "1", "at_s": 1.5}})"), text(R"({"a.b": {"value": "1", "at_s": 1, "more": 1}})"),
         text(R"({"a.b": {"value": ")" + std::string(201, 'x') + R"(", "at_s": 1}})"),
         // The first one is fine, the second one is not.
         text(R"({"a": {"value": "on", "at_s": 1}, "b": {"value": "on"}})") })
    EXPECT_NE(read_saved(wrong, none), "") << wrong;
  EXPECT_TRUE(none.empty());
  EXPECT_THAT(read_saved(R"({"tandem-saved": 2, "settings": {}})", none),
              HasSubstr("is of version 2; this Tandem reads version 1"));
}

class SavedOnDisk : public testing::Test
{
protected:
  SavedOnDisk()
  {
    std::string name = testing::TempDir() + "saved-XXXXXX";
    top = ::mkdtemp(name.data());
    directory = top / "state" / "saved";
  }
  ~SavedOnDisk() override { std::filesystem::remove_all(top); }

  std::string read(const std::string& name) const
  {
    std::ifstream in { directory / name };
    return { std::istreambuf_iterator<char> { in }, {} };
  }

  std::filesystem::path top, directory;
};

unsigned mode(const std::filesystem::path& path)
{
  struct stat info
  {
  };
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777u : 0;
}

TEST_F(SavedOnDisk, AreThereAfterARestartAndForNobodyElse)
{
  {
    SavedFile file { directory };
    EXPECT_TRUE(file.load().empty());
    EXPECT_TRUE(file.save(some())) << file.problem();
  }
  EXPECT_EQ(mode(directory), 0700u);
  EXPECT_EQ(mode(directory / "settings"), 0600u);
  SavedFile file { directory };
  EXPECT_EQ(file.load(), some());
  EXPECT_EQ(file.problem(), "");
}

TEST_F(SavedOnDisk, WhatIsTornOrOfAnotherVersionIsPutAsideAndSaid)
{
  SavedFile first { directory };
  for (const std::string& bytes : { saved_text(some()).substr(0, 50), std::string { R"({"tandem-saved": 2})" } })
  {
    std::ofstream { directory / "settings" } << bytes;
    SavedFile file { directory };
    EXPECT_TRUE(file.load().empty());
    EXPECT_THAT(file.problem(), HasSubstr("put aside as settings.aside"));
    EXPECT_THAT(file.problem(), HasSubstr("Tandem runs without saved settings"));
    EXPECT_TRUE(file.save(some())) << "and anew";
  }
  EXPECT_EQ(read("settings.aside1"), saved_text(some()).substr(0, 50)) << "nothing is lost";
  EXPECT_EQ(read("settings.aside2"), R"({"tandem-saved": 2})");
}

TEST_F(SavedOnDisk, AFailureLeavesWhatWasThere)
{
  SavedFile file { directory };
  ASSERT_TRUE(file.save(some()));
  std::filesystem::create_directory(directory / "settings.part"); // as good as a full disk
  EXPECT_FALSE(file.save({}));
  EXPECT_THAT(file.problem(), HasSubstr("the setting is not saved"));
  EXPECT_EQ(SavedFile { directory }.load(), some());
}

TEST_F(SavedOnDisk, WhoeverHoldsWhatIsInTheWayReadsNothing)
{
  SavedFile file { directory };
  ASSERT_TRUE(file.save({}));
  std::ofstream { directory / "settings.part" } << "somebody's";
  std::ifstream held { directory / "settings.part" };
  ASSERT_TRUE(file.save(some())) << file.problem();
  EXPECT_EQ(std::string(std::istreambuf_iterator<char> { held }, {}), "somebody's");
  EXPECT_EQ(SavedFile { directory }.load(), some());
  EXPECT_EQ(mode(directory / "settings"), 0600u);
}

// -- what counts

// offload and mirror are loaded; offload has the knob window_mss, 1 to 100, 20 when nobody says otherwise.
KnownSettings known()
{
  return { .check = [](const KnobSetting& one) -> std::optional<KnobRemark>
           {
             if (one.module != "offload" && one.module != "mirror") return KnobRemark { "no such module is loaded" };
             if (one.knob.empty()) return std::nullopt;
             if (one.module != "offload" || one.knob != "window_mss") return KnobRemark { "no such knob" };
             if (std::stoi(one.text) > 100) return KnobRemark { "at most 100" };
             return std::nullopt;
           },
           .canonical = [](const SettingName&, const std::string& text)
           { return text.empty() ? "20" : std::to_string(std::stoi(text)); } };
}

Config file(const std::string& text)
{
  ConfigResult read = parse_config(text, "t.toml");
  EXPECT_TRUE(read.complaints.empty());
  return read.config;
}

const std::string says_30 = "[modules.offload]\nwindow_mss = 30\n";

std::string said(const SettingLayers::Value& value)
{
  return value.text + " " + value.where.text();
}

std::vector<std::string> said(const std::vector<SettingLayers::Remark>& remarks)
{
  std::vector<std::string> all {};
  for (const SettingLayers::Remark& one : remarks)
  {
    EXPECT_TRUE(one.text.starts_with(one.module)) << one.module;
    all.push_back(one.text);
  }
  return all;
}

// What the daemon would do with it.
std::string in_force(const SettingLayers& layers)
{
  const Config config = layers.merged();
  std::string knobs {};
  for (const KnobSetting& one : config.knobs)
    knobs += " " + one.module + "." + one.knob + "=" + one.text;
  return std::string { config.module_enabled("offload") ? "offload" : "-" }
         + (config.module_enabled("mirror") ? " mirror" : " -") + knobs;
}

TEST(SettingLayers, EachIsAboveTheOneBefore)
{
  SettingLayers layers { Config {}, {}, known() };
  EXPECT_EQ(said(layers.value(mss)), "20 built-in");
  EXPECT_EQ(said(layers.value(offload)), "off built-in");
  EXPECT_EQ(in_force(layers), "- -");

  layers.rest_on(file(says_30));
  EXPECT_EQ(said(layers.value(mss)), "30 t.toml:2");
  EXPECT_EQ(said(layers.value(offload)), "on t.toml:1");

  layers.save(mss, "40", 1);
  layers.save(offload, "off", 1);
  layers.save(mirror, "on", 1);
  EXPECT_EQ(said(layers.value(mss)), "40 saved");
  EXPECT_EQ(said(layers.value(offload)), "off saved");
  EXPECT_EQ(in_force(layers), "- mirror offload.window_mss=40");

  Config with_command_line = file(says_30);
  ASSERT_FALSE(override_setting(with_command_line, "modules.offload.window_mss", "50"));
  ASSERT_FALSE(override_setting(with_command_line, "modules.offload.enabled", "true"));
  layers.rest_on(with_command_line);
  EXPECT_EQ(said(layers.value(mss)), "50 command line");
  EXPECT_EQ(in_force(layers), "offload mirror offload.window_mss=50");

  layers.set(mss, "60");
  layers.set(offload, "off");
  EXPECT_EQ(said(layers.value(mss)), "60 this run");
  EXPECT_EQ(in_force(layers), "- mirror offload.window_mss=60");

  // And what was set for this run is above a file that is read anew.
  layers.rest_on(file(says_30));
  EXPECT_EQ(said(layers.value(mss)), "60 this run");
}

TEST(SettingLayers, AKnobOfTheCommandLineSaysNothingOfTheSwitch)
{
  Config config {};
  ASSERT_FALSE(override_setting(config, "modules.offload.window_mss", "50"));
  const SettingLayers layers { config, { { offload, { "on", 1 } } }, known() };
  EXPECT_EQ(in_force(layers), "offload - offload.window_mss=50");
  const SettingLayers knob { Config {}, { { mss, { "40", 1 } } }, known() };
  EXPECT_EQ(in_force(knob), "- - offload.window_mss=40") << "nor does a saved one";
}

TEST(SettingLayers, WhatIsSetBackIsNoChangeOfThisRun)
{
  SettingLayers layers { file(says_30), {}, known() };
  layers.set(mss, "40");
  layers.set(offload, "off");
  EXPECT_EQ(layers.tell_set().size(), 2u);
  layers.set(mss, "030"); // the same value in other words
  layers.set(offload, "on");
  EXPECT_THAT(layers.tell_set(), IsEmpty());
  layers.rest_on(file("[modules.offload]\nenabled = false\nwindow_mss = 35\n"));
  EXPECT_EQ(in_force(layers), "- - offload.window_mss=35") << "the file counts again";
}

TEST(SettingLayers, SavingTakesThePlaceOfThisRunsValueAlsoAboveTheCommandLine)
{
  Config config {};
  ASSERT_FALSE(override_setting(config, "modules.offload.window_mss", "50"));
  SettingLayers layers { config, {}, known() };
  layers.set(mss, "60");
  layers.save(mss, "40", 7);
  EXPECT_EQ(said(layers.value(mss)), "40 this run") << "the command line is of this run, too, and came before";
  EXPECT_EQ(layers.saved().at(mss).at_s, 7);
  layers.rest_on(file(says_30));
  layers.set(mss, "40");
  EXPECT_EQ(said(layers.value(mss)), "40 saved");
}

TEST(SettingLayers, WhatModulesRefuseIsToldIgnoredAndKept)
{
  SettingLayers layers { file(says_30),
                         { { { "gone" }, { "on", 1 } },
                           { { "offload", "old_knob" }, { "1", 1 } },
                           { mirror, { "on", 1 } },
                           { mss, { "999", 1 } } },
                         known() };
  EXPECT_EQ(in_force(layers), "offload mirror offload.window_mss=30");
  EXPECT_THAT(check_modules(layers.merged(), known().check), IsEmpty());
  EXPECT_THAT(said(layers.remarks()),
              ElementsAre(HasSubstr("gone = \"on\", which is saved, is ignored: no such module is loaded; "
                                    "`tandem saved --forget gone` forgets it"),
                          HasSubstr("offload.old_knob = \"1\", which is saved, is ignored: no such knob"),
                          HasSubstr("offload.window_mss = \"999\", which is saved, is ignored: at most 100")));
  EXPECT_EQ(layers.saved().size(), 4u) << "a version that knows them may come back";
  EXPECT_EQ(layers.tell_saved().at(3).ignored, "at most 100");
  EXPECT_EQ(said(layers.tell_saved().at(3).in_force), "30 t.toml:2");
}

TEST(SettingLayers, AFileThatSaysOtherwiseIsTold)
{
  const SavedSettings forty { { mss, { "40", 1 } }, { offload, { "on", 1 } } };
  SettingLayers layers { file(says_30), forty, known() };
  EXPECT_THAT(said(layers.remarks()),
              ElementsAre("offload.window_mss = \"40\", which is saved, is in force, not the \"30\" of "
                          "t.toml:2; `tandem saved --forget offload.window_mss` changes that"));
  layers.rest_on(file("[modules.offload]\nwindow_mss = 40\n"));
  EXPECT_THAT(said(layers.remarks()), IsEmpty());
  layers.rest_on(Config {});
  EXPECT_THAT(said(layers.remarks()), IsEmpty()) << "a file that says nothing is not contradicted";
}

TEST(SettingLayers, WhatIsForgottenLeavesWhatIsBelow)
{
  SettingLayers layers { file(says_30), { { mss, { "40", 1 } }, { offload, { "off", 1 } } }, known() };
  EXPECT_EQ(said(layers.tell_saved().at(1).without), "30 t.toml:2");
  EXPECT_EQ(layers.forget(mss)->value, "40");
  EXPECT_EQ(said(layers.value(mss)), "30 t.toml:2");
  EXPECT_TRUE(layers.forget(offload).has_value());
  EXPECT_EQ(in_force(layers), "offload - offload.window_mss=30");
  EXPECT_FALSE(layers.forget(offload).has_value());
}

TEST(SavedAps, AreReadAsTheyAreWritten)
{
  for (const SavedAps& one : { SavedAps {}, SavedAps { 2, 1700000000 }, SavedAps { 8, 1 }, SavedAps { 2, 1, true } })
  {
    SavedAps read { 5, 5 };
    EXPECT_EQ(read_saved_aps(saved_aps_text(one), read), "");
    EXPECT_EQ(read, one);
  }
}

TEST(SavedAps, WhatCannotBeMeantChangesNothing)
{
  const auto text = [](const std::string& body)
  { return R"({"tandem-access-points": 1, "access_points": )" + body + "}"; };
  for (const std::string& wrong :
       { std::string {}, std::string { "{" }, text("[]"), text(R"({"keep": 2})"), text(R"({"keep": 1, "at_s": 1})"),
         text(R"({"keep": 9, "at_s": 1})"), text(R"({"keep": -2, "at_s": 1})"), text(R"({"keep": "2", "at_s": 1})"),
         text(R"({"keep": 2, "at_s": 1, "more": 1})"), text(R"({"keep": 2, "at_s": 1, "several_channels": 1})"),
         text(R"({"keep": 2, "several_channels": true})"),
         std::string { R"({"tandem-access-points": 2, "access_points": {}})" } })
  {
    SavedAps read { 5, 5 };
    EXPECT_NE(read_saved_aps(wrong, read), "") << wrong;
    EXPECT_EQ(read, (SavedAps { 5, 5 }));
  }
}

} // namespace
} // namespace tandem::daemon
