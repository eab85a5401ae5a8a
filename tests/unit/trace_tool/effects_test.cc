#include "tools/trace/effects.h"
#include "tools/trace/stall_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace tandem::trace_tool
{
namespace
{

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using trace::Disposition;

Event event(Disposition what, const std::string& why, Link came = Link::wifi, std::optional<Link> left = {})
{
  Event one;
  one.packet.link = came;
  one.packet.length = 60;
  one.packet.decision = trace::Comment { .disposition = what, .why = why };
  if (left)
  {
    one.after = one.packet;
    one.after->link = *left;
  }
  return one;
}

TEST(Effects, AreCountedByWhatBecameOfThePacket)
{
  Effects effects;
  for (int i = 0; i < 3; ++i)
    note(event(Disposition::edited, "offload: by cellular", Link::wifi, Link::cell), effects);
  note(event(Disposition::dropped, "offload: repeated by the next ACK"), effects);
  note(event(Disposition::edited, "mirror: hidden, queue not full", Link::wifi, Link::wifi), effects);
  note(event(Disposition::passed, "mirror: kept, queue full"), effects);
  note(event(Disposition::passed, "freeze: young flow"), effects);
  note(Event {}, effects);
  EXPECT_EQ(effects.by_cell, 3u);
  EXPECT_EQ(effects.by_cell_bytes, 180u);
  EXPECT_EQ(effects.left_out, 1u);
  EXPECT_EQ(effects.losses_hidden, 1u);
  EXPECT_FALSE(effects.froze);
  EXPECT_THAT(effects_in_words(effects),
              ElementsAre("the Wi-Fi had 4 packets less to carry up: 3 packets by cellular, 0.2 kB; 1 ACK for which a "
                          "later one stands",
                          "1 time the server was not told of losses on the air, for which it would have slowed down"));
}

TEST(Effects, OfABlackoutThereMustHaveBeenOneAndAFreeze)
{
  Effects effects { .resumed_ns = { 35'000'000, 50'400'000 } };
  EXPECT_THAT(effects_in_words(effects), IsEmpty()) << "nothing was done";
  note(event(Disposition::injected, "freeze: resume ACK"), effects);
  EXPECT_THAT(effects_in_words(effects), ElementsAre("after the Wi-Fi was back data came again in 35 and 50 ms"));
  effects.resumed_ns.clear();
  EXPECT_THAT(effects_in_words(effects), IsEmpty());
}

TEST(Effects, TheWifiIsBackWhenItWasAway)
{
  const std::vector<LinkMoment> links {
    { .time_ns = 1, .link = Link::wifi, .up = true },  { .time_ns = 2, .link = Link::cell, .up = false },
    { .time_ns = 3, .link = Link::wifi, .up = false }, { .time_ns = 4, .link = Link::cell, .up = true },
    { .time_ns = 5, .link = Link::wifi, .up = true },  { .time_ns = 6, .link = Link::wifi, .up = true },
  };
  EXPECT_THAT(wifi_returns(links), ElementsAre(5));
}

// The blackout that did not come: of Tandem's own recording it is told what was done, and nothing that was not gained.
TEST(Effects, StandWithTheDecisions)
{
  const StallReport own = find_stalls({ .file = TANDEM_SOURCE "/tests/golden/trace/tandem.pcapng" });
  std::ostringstream text, json;
  write_text(own, "tandem.pcapng", text);
  write_json(own, "tandem.pcapng", json);
  EXPECT_THAT(text.str(), Not(HasSubstr("gained")));
  EXPECT_THAT(json.str(), HasSubstr("\"gained\""));

  StallReport better = own;
  better.flows[0].effects.left_out = 7;
  std::ostringstream gained;
  write_text(better, "tandem.pcapng", gained);
  EXPECT_THAT(gained.str(), HasSubstr("  gained: the Wi-Fi had 7 packets less to carry up: 7 ACKs for which"));
  EXPECT_THAT(gained.str(), HasSubstr("how much faster that made it one recording cannot tell"));
}

} // namespace
} // namespace tandem::trace_tool
