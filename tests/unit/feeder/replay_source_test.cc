#include "src/feeder/recording/replay_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tandem::feeder
{
namespace
{

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string header = R"({"format":"tandem-reports","version":1,"start_ns":0})";

std::string survey(Duration at, unsigned frequency)
{
  return R"({"at_ns":)" + std::to_string(at.count()) + R"(,"source":"s","kind":"survey","frequency":)"
         + std::to_string(frequency) + "}";
}

struct ReplaySourceTest : testing::Test
{
  std::string path = fs::temp_directory_path() / ("tandem-replay-" + std::to_string(::getpid()) + ".jsonl");
  ReplaySource source { path };
  Tick now { 100s };

  ~ReplaySourceTest() override { fs::remove(path); }

  void write(const std::vector<std::string>& lines)
  {
    std::ofstream file { path };
    for (const auto& line : lines)
      file << line << '\n';
  }

  // (frequency, time since the start) of all that comes when receive() is called whenever it is due.
  std::vector<std::pair<unsigned, Duration>> play()
  {
    std::vector<std::pair<unsigned, Duration>> all {};
    std::vector<Report> reports {};
    const Tick start = now;
    EXPECT_TRUE(source.reopen(now)) << source.problem();
    for (bool alive = true; alive;)
    {
      if (source.due() != Tick::max()) now = std::max(now, source.due());
      reports.clear();
      alive = source.receive(now, reports);
      for (const Report& report : reports)
      {
        EXPECT_LE(report.at, now);
        all.emplace_back(std::get<Survey>(report.what).frequency, report.at - start);
      }
    }
    EXPECT_EQ(source.due(), Tick::max());
    return all;
  }
};

TEST_F(ReplaySourceTest, plays_at_the_recorded_pace_from_now_on)
{
  write({ header, survey(7s, 1), survey(7s + 20ms, 2), "", survey(9s, 3) });
  EXPECT_THAT(play(), ElementsAre(std::pair { 1u, 0ms }, std::pair { 2u, 20ms }, std::pair { 3u, 2000ms }));
  EXPECT_EQ(source.skipped(), 0u);
  EXPECT_EQ(source.complaints(), 0u);
  EXPECT_EQ(source.problem(), "replay " + path + ": the recording has ended");
  EXPECT_EQ(source.fd(), -1);
  EXPECT_FALSE(source.reopen(now)); // once is enough
}

TEST_F(ReplaySourceTest, gives_nothing_before_its_time)
{
  write({ header, survey(0s, 1), survey(1s, 2) });
  ASSERT_TRUE(source.reopen(now));
  std::vector<Report> reports {};
  EXPECT_TRUE(source.receive(now + 999ms, reports));
  EXPECT_EQ(reports.size(), 1u);
  EXPECT_EQ(source.due(), now + 1s);
  EXPECT_FALSE(source.receive(now + 1s, reports));
  EXPECT_EQ(reports.size(), 2u);
}

TEST_F(ReplaySourceTest, its_descriptor_is_readable_when_a_report_is_due)
{
  write({ header, survey(0s, 1), survey(500s, 2) }); // played after longest_gap
  now = Tick { 1s };                                 // the timer's clock is long past it
  ASSERT_TRUE(source.reopen(now));
  pollfd one { .fd = source.fd(), .events = POLLIN, .revents = 0 };
  EXPECT_EQ(::poll(&one, 1, 10'000), 1);
  std::vector<Report> reports {};
  now = Tick { 1'000'000'000s }; // and long before this
  ReplaySource later { path };
  ASSERT_TRUE(later.reopen(now));
  EXPECT_TRUE(later.receive(now, reports));
  one.fd = later.fd();
  EXPECT_EQ(::poll(&one, 1, 0), 0);
}

TEST_F(ReplaySourceTest, skips_what_is_no_record_and_says_where)
{
  write({ header, survey(1s, 1), "nonsense", R"({"at_ns":1,"source":"s","kind":"survey","frequency":"2.4 GHz"})",
          survey(2s, 2) });
  EXPECT_THAT(play(), ElementsAre(std::pair { 1u, 0ms }, std::pair { 2u, 1000ms }));
  EXPECT_EQ(source.skipped(), 2u);
  EXPECT_EQ(source.complaint(),
            path + ":4: frequency: a whole number from 0 to 4294967295 is expected, not \"2.4 GHz\"");
  EXPECT_THAT(source.problem(), HasSubstr("2 places could not be played as they stand, the latest: " + path + ":4: "));
}

TEST_F(ReplaySourceTest, a_line_without_end_needs_no_memory)
{
  write({ header, survey(1s, 1), std::string(10'000'000, 'x'), survey(2s, 2) });
  EXPECT_EQ(play().size(), 2u);
  EXPECT_THAT(source.complaint(), HasSubstr(path + ":3: the line is longer than"));
}

TEST_F(ReplaySourceTest, never_waits_for_hours)
{
  write({ header, survey(0s, 1), survey(3h, 2), survey(3h + 1s, 3) });
  EXPECT_THAT(play(), ElementsAre(std::pair { 1u, 0ms }, std::pair { 2u, Duration { ReplaySource::longest_gap } },
                                  std::pair { 3u, ReplaySource::longest_gap + 1s }));
  EXPECT_EQ(source.complaint(), path + ":3: nothing for 10800.000 s; 30.000 s are played");
  EXPECT_EQ(source.skipped(), 0u);
}

TEST_F(ReplaySourceTest, goes_on_when_the_time_goes_back)
{
  write({ header, survey(500s, 1), survey(20s, 2), survey(21s, 3) });
  EXPECT_THAT(play(), ElementsAre(std::pair { 1u, 0ms }, std::pair { 2u, 1000ms }, std::pair { 3u, 2000ms }));
  EXPECT_EQ(source.complaint(), path + ":3: the time goes back by 480.000 s; it goes on from here");
}

TEST_F(ReplaySourceTest, sources_that_overtake_each_other_are_no_jump)
{
  write({ header, survey(5s, 1), survey(4900ms, 2), survey(4950ms, 3), survey(5100ms, 4) });
  EXPECT_THAT(play(), ElementsAre(std::pair { 1u, 0ms }, std::pair { 2u, 0ms }, std::pair { 3u, 0ms },
                                  std::pair { 4u, 100ms }));
  EXPECT_EQ(source.complaints(), 0u);
}

TEST_F(ReplaySourceTest, a_second_recording_in_the_file_follows_the_first)
{
  write({ header, survey(500s, 1), header, survey(20s, 2), R"({"at_ns":1,"note":"n"})", header, survey(9000s, 3) });
  EXPECT_THAT(play(), ElementsAre(std::pair { 1u, 0ms }, std::pair { 2u, 1000ms }, std::pair { 3u, 2000ms }));
  EXPECT_EQ(source.complaints(), 0u);
}

TEST_F(ReplaySourceTest, the_ends_of_time_are_handled)
{
  const auto extreme = [](bool first)
  {
    return survey(
        Duration { first ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max() }, 1);
  };
  write({ header, extreme(true), extreme(false), extreme(true) });
  EXPECT_EQ(play().size(), 3u);
  EXPECT_EQ(source.complaints(), 2u);
}

TEST_F(ReplaySourceTest, refuses_what_is_no_recording)
{
  EXPECT_FALSE(source.reopen(now));
  EXPECT_THAT(source.problem(), HasSubstr("No such file or directory"));
  write({});
  EXPECT_FALSE(source.reopen(now));
  EXPECT_THAT(source.problem(), HasSubstr("it is empty"));
  write({ survey(1s, 1) });
  EXPECT_FALSE(source.reopen(now));
  EXPECT_THAT(source.problem(), HasSubstr("line 1: a header is expected"));
  write({ "nonsense" });
  EXPECT_FALSE(source.reopen(now));
  EXPECT_THAT(source.problem(), HasSubstr("line 1: no JSON"));
  std::vector<Report> reports {};
  EXPECT_FALSE(source.receive(now, reports));
  EXPECT_THAT(source.problem(), HasSubstr("line 1: no JSON"));
  ReplaySource directory { fs::temp_directory_path() };
  EXPECT_FALSE(directory.reopen(now));
  EXPECT_THAT(directory.problem(), HasSubstr("no regular file"));
  write({ header, survey(1s, 1) }); // now it is one
  EXPECT_TRUE(source.reopen(now));
  EXPECT_EQ(source.problem(), "");
}

} // namespace
} // namespace tandem::feeder
