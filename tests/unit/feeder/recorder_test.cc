#include "src/feeder/recording/recorder.h"
#include "tests/unit/feeder/made_up_reports.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace tandem::feeder
{
namespace
{

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto long_enough = 20s; // for a busy machine

struct RecorderTest : testing::Test
{
  fs::path directory = fs::temp_directory_path() / ("tandem-recorder-" + std::to_string(::getpid()));
  std::string path = directory / "reports.jsonl";

  RecorderTest() { fs::create_directory(directory); }
  ~RecorderTest() override { fs::remove_all(directory); }

  std::vector<std::string> lines() const
  {
    std::vector<std::string> all {};
    std::ifstream file { path };
    for (std::string line {}; std::getline(file, line);)
      all.push_back(line);
    return all;
  }

  std::string refusal() const
  {
    try
    {
      const Recorder recorder { path, {} };
    }
    catch (const std::runtime_error& error)
    {
      return error.what();
    }
    return {};
  }
};

Report frame_at(Duration at)
{
  return { Tick { at }, Frame {} };
}

template <class Condition>
bool eventually(Condition condition)
{
  const auto end = std::chrono::steady_clock::now() + long_enough;
  for (; std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(1ms))
    if (condition()) return true;
  return false;
}

TEST_F(RecorderTest, writes_what_it_takes_for_its_owner_alone)
{
  MadeUp made_up { 9 };
  std::vector<Report> reports {};
  {
    Recorder recorder { path, Tick { 5s } };
    for (int i = 0; i < 500; ++i)
    {
      reports.push_back(made_up.report());
      reports.back().at = Tick { i * 1ms };
      recorder.take(i % 2 == 0 ? "nl80211" : "modem", reports.back());
    }
  }
  const auto written = lines();
  ASSERT_EQ(written.size(), reports.size() + 1);
  EXPECT_EQ(std::get<RecordHeader>(*from_json(written[0]).record).start, Tick { 5s });
  EXPECT_THAT(written[0], HasSubstr("\"start\":\"20"));
  for (std::size_t i = 0; i < reports.size(); ++i)
  {
    const auto read = std::get<RecordedReport>(*from_json(written[i + 1]).record);
    EXPECT_EQ(read.source, i % 2 == 0 ? "nl80211" : "modem");
    EXPECT_TRUE(read.report.what == reports[i].what);
  }
  struct stat status
  {
  };
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(RecorderTest, goes_on_in_a_recording_behind_what_was_cut_off)
{
  {
    Recorder recorder { path, Tick { 5s } };
    recorder.take("s", frame_at(6s));
  }
  std::ofstream { path, std::ios::app } << R"({"at_ns":7,"sou)";
  {
    Recorder recorder { path, Tick { 1s } };
    recorder.take("s", frame_at(2s));
  }
  const auto written = lines();
  ASSERT_EQ(written.size(), 5u);
  EXPECT_TRUE(std::holds_alternative<RecordedReport>(*from_json(written[1]).record));
  EXPECT_FALSE(from_json(written[2]).record);
  EXPECT_EQ(std::get<RecordHeader>(*from_json(written[3]).record).start, Tick { 1s });
  EXPECT_TRUE(std::holds_alternative<RecordedReport>(*from_json(written[4]).record));
}

TEST_F(RecorderTest, does_not_touch_another_file)
{
  std::ofstream { path } << "my diary\n";
  EXPECT_THAT(refusal(), HasSubstr("it exists and is no recording (no JSON"));
  EXPECT_EQ(lines(), std::vector<std::string> { "my diary" });
  std::ofstream { path } << R"({"format":"tandem-reports","version":9,"start_ns":0})" << '\n';
  EXPECT_THAT(refusal(), HasSubstr("it has version 9"));
  std::ofstream { path } << R"({"at_ns":1,"note":"n"})" << '\n';
  EXPECT_THAT(refusal(), HasSubstr("it has no header"));

  fs::remove(path);
  const fs::path target = directory / "target";
  fs::create_symlink(target, path);
  EXPECT_THAT(refusal(), HasSubstr("it is a symbolic link"));
  EXPECT_FALSE(fs::exists(target));
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(refusal(), HasSubstr("it is no regular file"));
  path = directory / "missing" / "file";
  EXPECT_THAT(refusal(), HasSubstr("No such file or directory"));
}

TEST_F(RecorderTest, ends_at_its_limit_and_says_so)
{
  {
    Recorder recorder { path, {}, { .bytes = 4000 } };
    for (int i = 0; i < 1000; ++i)
      recorder.take("s", frame_at(i * 1ms));
    ASSERT_TRUE(eventually([&] { return !recorder.problem().empty(); }));
    EXPECT_THAT(recorder.problem(), HasSubstr("has reached its limit of 4000 bytes"));
    recorder.take("s", frame_at(2s));
    EXPECT_GT(recorder.counters().lost, 0u);
  }
  EXPECT_LE(fs::file_size(path), 4000u);
  EXPECT_GT(fs::file_size(path), 3000u);
  EXPECT_THAT(std::get<RecordNote>(*from_json(lines().back()).record).text, HasSubstr("limit of 4000 bytes"));
}

TEST_F(RecorderTest, thins_frames_and_nothing_else)
{
  {
    Recorder recorder { path, {}, { .frames = 10 } };
    for (int i = 0; i < 30; ++i)
      recorder.take("s", frame_at(3s + i * 100ms / 3)); // 30 in a second
    recorder.take("s", { Tick { 3900ms }, StationStats {} });
    recorder.take("s", frame_at(4000ms));
    EXPECT_EQ(recorder.counters().thinned, 20u);
  }
  const auto written = lines();
  ASSERT_EQ(written.size(), 1u + 10 + 1 + 1 + 1);
  EXPECT_THAT(written.back(), HasSubstr("20 frames beyond 10 a second"));
}

TEST_F(RecorderTest, a_full_disk_ends_the_recording_and_nothing_else)
{
  Recorder recorder { kernel::Fd { ::open("/dev/full", O_WRONLY | O_CLOEXEC) }, "/dev/full", {} };
  for (int i = 0; i < 10; ++i)
    recorder.take("s", frame_at(i * 1ms));
  ASSERT_TRUE(eventually([&] { return !recorder.problem().empty(); }));
  EXPECT_EQ(recorder.problem(), "recording to /dev/full has ended: No space left on device");
  recorder.take("s", frame_at(1s));
  EXPECT_EQ(recorder.counters().written, 0u);
}

// A pipe that nobody reads is a disk that never gets done.
TEST_F(RecorderTest, a_slow_disk_holds_nobody_up)
{
  int ends[2] {};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  kernel::Fd reading { ends[0] };
  const auto before = std::chrono::steady_clock::now();
  {
    Recorder recorder {
      kernel::Fd { ends[1] }, "the pipe", {}, { .frames = 1'000'000, .waiting = 1000, .delay = 1ms, .timeout = 20ms }
    };
    for (int i = 0; i < 20'000; ++i)
      recorder.take("s", frame_at(i * 1us));
    EXPECT_GT(recorder.counters().lost, 10'000u);
    EXPECT_EQ(recorder.problem(), "");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
  // The thread that was left behind ends with the pipe.
  ::signal(SIGPIPE, SIG_IGN);
  reading.reset();
  std::this_thread::sleep_for(50ms);
}

} // namespace
} // namespace tandem::feeder
