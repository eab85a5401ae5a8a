#include "src/daemon/trap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tandem::daemon
{
namespace
{

using testing::StartsWith;

Trap trap(const std::string& text)
{
  const auto parsed = parse_trap(text);
  const auto* wrong = std::get_if<std::string>(&parsed);
  EXPECT_EQ(wrong, nullptr) << text << ": " << *wrong;
  return wrong == nullptr ? std::get<Trap>(parsed) : Trap {};
}

std::string wrong(const std::string& text)
{
  const auto parsed = parse_trap(text);
  const auto* words = std::get_if<std::string>(&parsed);
  EXPECT_NE(words, nullptr) << text;
  return words != nullptr ? *words : "";
}

TEST(Traps, AreReadAsTheyAreWritten)
{
  EXPECT_EQ(trap("flow.gap > 500ms").text(), "flow.gap > 500 ms");
  EXPECT_EQ(trap("flow.gap>500ms").text(), "flow.gap > 500 ms");
  EXPECT_EQ(trap("  flow.rtt  >  1.5 s ").text(), "flow.rtt > 1.5 s");
  EXPECT_EQ(trap("flow.goodput < 2Mbit").text(), "flow.goodput < 2 Mbit/s");
  EXPECT_EQ(trap("link.signal < -75dBm").text(), "link.signal < -75 dBm");
  EXPECT_EQ(trap("link.signal < -75.5 dBm").text(), "link.signal < -75.5 dBm");
  EXPECT_EQ(trap("link.signal > -40").text(), "link.signal > -40 dBm");
  EXPECT_EQ(trap("link.silence > 1s").on, TrapOn::link_silence);
  EXPECT_EQ(trap("link.down > 2s").threshold, 2.0);
}

TEST(Traps, CatchWhatIsPastTheThreshold)
{
  const Trap above = trap("flow.gap > 500ms"), below = trap("flow.goodput < 1Mbit");
  EXPECT_FALSE(above.caught(0.5));
  EXPECT_TRUE(above.caught(0.501));
  EXPECT_FALSE(below.caught(1e6));
  EXPECT_TRUE(below.caught(999'999));
}

TEST(Traps, WhatIsWrongIsSaidWithItsPlaceAndValue)
{
  const std::vector<std::pair<std::string, std::string>> cases {
    { "", "character 1: the trap ends here: one of flow.gap, flow.rtt," },
    { "flow.gop > 1s", "character 1: \"flow.gop\": one of flow.gap," },
    { "  gap > 1s", "character 3: \"gap\": one of" },
    { "flow.gap", "character 9: the trap ends here: > or < is needed" },
    { "flow.gap = 1s", "character 10: \"=\": > or < is needed" },
    { "flow.gap >= 1s", "character 10: \">=\": > or < is needed" },
    { "flow.gap 500ms", "character 10: \"5\": > or < is needed" },
    { "flow.gap >", "character 11: the trap ends here: a duration such as 500ms is needed" },
    { "flow.gap > 500", "character 12: \"500\": a duration such as 500ms is needed" },
    { "flow.gap > -1s", "character 12: \"-1s\": a duration such as" },
    { "flow.gap > 0", "character 12: \"0\": a duration such as" },
    { "flow.gap > 1s and more", "character 12: \"1s and more\": a duration such as" },
    { "flow.goodput < 2MB", "character 16: \"2MB\": a rate such as 2Mbit is needed" },
    { "link.signal < 75dBm", "character 15: \"75dBm\": a signal from -120 to 0 such as -75dBm is needed" },
    { "link.signal < nan", "character 15: \"nan\": a signal" },
    { "link.signal < -1e9", "character 15: \"-1e9\": a signal" },
  };
  for (const auto& [text, words] : cases)
    EXPECT_THAT(wrong(text), StartsWith(words)) << text;
}

} // namespace
} // namespace tandem::daemon
