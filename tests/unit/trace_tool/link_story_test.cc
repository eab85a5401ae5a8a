#include "src/trace/chain_input.h"
#include "src/trace/pcapng_writer.h"
#include "tests/unit/trace_tool/conversation.h"
#include "tools/trace/command.h"
#include "tools/trace/link_story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <sstream>

namespace tandem::trace_tool
{
namespace
{

using namespace test;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using trace::test::TemporaryFile;
namespace in = trace::input;

constexpr Duration clocks_apart = 1'000'000s; // realtime minus the daemon's clock

class LinkStory : public ::testing::Test
{
protected:
  void add(Duration at, const trace::ChainInput& one)
  {
    std::array<std::byte, trace::longest_input> bytes {};
    const std::size_t size = trace::encode(one, bytes);
    ASSERT_NE(size, 0u);
    recorder_.add({ .at = Tick { at }, .input = std::span { bytes }.first(size) });
  }
  void packet(Duration at)
  {
    const Packet bytes = handshake(false, 99, 0);
    recorder_.add({ .at = Tick { at },
                    .disposition = trace::Disposition::passed,
                    .before = bytes,
                    .asked = trace::Asked { .at = Tick { at }, .received = Tick { at } } });
  }
  // Wi-Fi as told; the cellular link is up.
  static LinkStates states(bool up, bool at_risk = false)
  {
    LinkStates all {};
    all[static_cast<std::size_t>(Link::wifi)] = { .present = true, .up = up, .at_risk = at_risk };
    all[static_cast<std::size_t>(Link::cell)] = { .present = true, .up = true };
    return all;
  }
  std::vector<LinkMoment> story()
  {
    save();
    return link_story(file_.path());
  }
  void save()
  {
    std::ofstream out { file_.path(), std::ios::binary };
    ASSERT_TRUE(trace::write_pcapng(out, recorder_, {}, clocks_apart));
  }
  static std::int64_t wall(Duration at) { return (clocks_apart + at).count(); }

  trace::Recorder recorder_ { {} };
  TemporaryFile file_ { "" };
};

TEST_F(LinkStory, tells_when_links_turned_in_the_time_of_the_packets)
{
  add(1s, in::State { .links = states(true) });
  packet(2s);
  add(3s, in::Links { states(true, true), {} });
  add(4s, in::Links { states(false), {} });
  add(4100ms, in::Links { states(false), {} });
  add(5s, in::State { .links = states(true) });
  const auto told = story();
  ASSERT_THAT(told, SizeIs(5));
  EXPECT_EQ(told[0], (LinkMoment { .time_ns = wall(1s), .link = Link::wifi, .up = true }));
  EXPECT_EQ(told[1], (LinkMoment { .time_ns = wall(1s), .link = Link::cell, .up = true }));
  EXPECT_EQ(told[2], (LinkMoment { .time_ns = wall(3s), .link = Link::wifi, .up = true, .at_risk = true }));
  EXPECT_EQ(told[3], (LinkMoment { .time_ns = wall(4s), .link = Link::wifi, .up = false }));
  EXPECT_EQ(told[4], (LinkMoment { .time_ns = wall(5s), .link = Link::wifi, .up = true }));
}

TEST_F(LinkStory, tells_the_signal_a_few_times_a_second)
{
  add(1s, in::State { .links = states(true) });
  packet(1s);
  for (int i = 0; i < 1000; ++i)
    add(2s + i * 1ms,
        in::Radio { Link::wifi, RadioState { .delivery = 0.5F, .signal = -60.0F - static_cast<float>(i % 7) } });
  add(4s, in::Radio { Link::wifi, {} });
  const auto told = story();
  EXPECT_GE(told.size(), 10u);
  EXPECT_LE(told.size(), 14u);
  EXPECT_EQ(told[2].signal_dbm, -60.0F);
  EXPECT_EQ(told[2].delivery, 0.5F);
  EXPECT_TRUE(told[2].up) << "what the radio says turns no link";
  EXPECT_EQ(told.back().signal_dbm, std::nullopt) << "it fell silent";
}

TEST_F(LinkStory, a_capture_holds_none)
{
  const TemporaryFile capture { classic(download(20)), ".pcap" };
  EXPECT_THAT(link_story(capture.path()), IsEmpty());
}

TEST_F(LinkStory, stands_with_the_stalls)
{
  add(1s, in::State { .links = states(true) });
  packet(1s);
  add(3s, in::Links { states(false), {} });
  packet(4s);
  save();
  std::ostringstream out, err;
  EXPECT_EQ(trace_main({ "explain", "--stalls", file_.path().string() }, out, err), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("2.000 s: wifi down\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr("cell down")));
  out.str("");
  EXPECT_EQ(trace_main({ "explain", "--stalls", "--json", file_.path().string() }, out, err), 0);
  EXPECT_THAT(out.str(), HasSubstr("\"links\""));
  EXPECT_THAT(out.str(), HasSubstr("\"up\": false"));
}

} // namespace
} // namespace tandem::trace_tool
