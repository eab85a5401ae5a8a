#include "src/daemon/trap_saver.h"
#include "src/daemon/traps.h"
#include "src/trace/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <condition_variable>
#include <fstream>
#include <mutex>

namespace tandem::daemon
{
namespace
{

using namespace tandem::literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Ids = std::vector<std::uint64_t>;

Trap trap(const char* text)
{
  return std::get<Trap>(parse_trap(text));
}

// One flow whose view the test writes, looked at five times a second.
class TrapsOf : public testing::Test
{
protected:
  TrapsOf()
  {
    const FlowKey key { .local = { .bytes = { 192, 0, 2, 1 } },
                        .remote = { .bytes = { 192, 0, 2, 80 } },
                        .local_port = 40000,
                        .remote_port = 443 };
    flow = chain.table().insert(key, now);
    flow->view.link = Link::wifi;
    flow->view.last_seen = now;
  }
  // So many looks, each after 200 ms with so many more bytes.
  Ids looks(int count, std::uint64_t bytes)
  {
    Ids all {};
    for (int i = 0; i < count; ++i)
    {
      now += 200ms;
      flow->view.bytes_delivered += bytes;
      if (bytes > 0) flow->view.last_seen = now;
      for (const std::uint64_t id : traps.look(chain, now))
        all.push_back(id);
    }
    return all;
  }

  Tick now { 100s };
  chain::Chain chain { {}, {} };
  flow::Flow* flow = nullptr;
  Traps traps {};
};

TEST_F(TrapsOf, AGapInADownload)
{
  const auto id = *traps.add(trap("flow.gap > 500ms"), true);
  EXPECT_THAT(looks(10, 100'000), IsEmpty());
  EXPECT_THAT(looks(2, 0), IsEmpty()) << "400 ms";
  EXPECT_THAT(looks(1, 0), ElementsAre(id));
  EXPECT_EQ(traps.find(id)->saw, "600 ms of 192.0.2.1:40000 - 192.0.2.80:443");
  EXPECT_EQ(traps.find(id)->flow, "192.0.2.1:40000 - 192.0.2.80:443");
  EXPECT_THAT(looks(20, 0), IsEmpty()) << "once";
  looks(10, 100'000);
  EXPECT_THAT(looks(5, 0), IsEmpty()) << "it waits for 30 s";
  looks(150, 100'000);
  EXPECT_THAT(looks(5, 0), ElementsAre(id));
  EXPECT_EQ(traps.find(id)->fired, 2u);
}

TEST_F(TrapsOf, AFlowThatDownloadsNothingHasNoGap)
{
  traps.add(trap("flow.gap > 500ms"), true);
  traps.add(trap("link.silence > 500ms"), true);
  EXPECT_THAT(looks(20, 100), IsEmpty());
  EXPECT_THAT(looks(20, 0), IsEmpty());
  EXPECT_THAT(looks(20, 100'000), IsEmpty());
  chain.table().close(*flow);
  EXPECT_THAT(looks(20, 0), IsEmpty()) << "a connection that has ended";
}

TEST_F(TrapsOf, ALinkIsSilentWhenAllItsFlowsAre)
{
  const auto id = *traps.add(trap("link.silence > 500ms"), true);
  FlowKey other = flow->view.key;
  other.local_port = 40001;
  flow::Flow* second = chain.table().insert(other, now);
  second->view.link = Link::wifi;
  const auto look = [&](bool first_lives, bool second_lives)
  {
    Ids all {};
    for (int i = 0; i < 10; ++i)
    {
      now += 200ms;
      if (first_lives) flow->view.bytes_delivered += 50'000, flow->view.last_seen = now;
      if (second_lives) second->view.bytes_delivered += 50'000, second->view.last_seen = now;
      for (const std::uint64_t fired : traps.look(chain, now))
        all.push_back(fired);
    }
    return all;
  };
  EXPECT_THAT(look(true, true), IsEmpty());
  EXPECT_THAT(look(false, true), IsEmpty());
  EXPECT_THAT(look(true, true), IsEmpty());
  EXPECT_THAT(look(false, false), ElementsAre(id));
}

TEST_F(TrapsOf, ASlowDownloadAndARoundTrip)
{
  const auto slow = *traps.add(trap("flow.goodput < 2Mbit"), false);
  const auto far = *traps.add(trap("flow.rtt > 300ms"), false);
  EXPECT_THAT(looks(20, 100'000), IsEmpty()) << "4 Mbit/s";
  EXPECT_THAT(looks(10, 40'000), ElementsAre(slow)) << "1.6 Mbit/s";
  EXPECT_THAT(traps.find(slow)->saw, HasSubstr("Mbit/s of 192.0.2.1:40000"));
  flow->view.rtt_smoothed = 310ms;
  flow->view.rtt_at = now;
  EXPECT_THAT(looks(1, 100'000), ElementsAre(far));
}

TEST_F(TrapsOf, TheLink)
{
  const auto weak = *traps.add(trap("link.signal < -75dBm"), false);
  const auto down = *traps.add(trap("link.down > 1s"), false);
  LinkStates states {};
  states[0] = { .present = true, .up = true, .changed = now, .radio = RadioState { .signal = -70.F } };
  chain.links(states, now);
  EXPECT_THAT(looks(10, 0), IsEmpty());
  states[0].radio->signal = -76;
  chain.links(states, now);
  EXPECT_THAT(looks(10, 0), ElementsAre(weak));
  states[0].up = false;
  states[0].changed = now;
  chain.links(states, now);
  EXPECT_THAT(looks(5, 0), IsEmpty());
  EXPECT_THAT(looks(1, 0), ElementsAre(down));
  EXPECT_EQ(traps.find(down)->saw, "1.2 s of wifi");
  EXPECT_EQ(traps.find(down)->flow, "") << "of a link";
}

TEST_F(TrapsOf, AreBoundedAndRemoved)
{
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < Traps::most; ++i)
    last = *traps.add(trap("flow.gap > 1s"), false);
  EXPECT_FALSE(traps.add(trap("flow.gap > 1s"), false));
  EXPECT_TRUE(traps.remove(last));
  EXPECT_FALSE(traps.remove(last));
  EXPECT_EQ(traps.find(last), nullptr);
  EXPECT_NE(traps.add(trap("flow.gap > 1s"), false), last) << "numbers are not used again";
}

class TrapFiles : public testing::Test
{
protected:
  void SetUp() override { std::filesystem::create_directories(home); }
  void TearDown() override { std::filesystem::remove_all(home); }
  // Waits for what is saved.
  TrapSaver::Saved save(TrapSaver& saver, std::uint64_t trap = 1)
  {
    trace::Recorder recorder { {} };
    const std::array packet { std::byte { 0x45 } };
    recorder.add({ .before = packet });
    EXPECT_TRUE(saver.post(std::make_unique<TrapSaver::Job>(TrapSaver::Job { trap, std::move(recorder), {}, {} })));
    std::unique_lock lock { mutex };
    changed.wait(lock, [this] { return done; });
    done = false;
    return saved;
  }
  std::function<void(TrapSaver::Saved)> take()
  {
    return [this](TrapSaver::Saved one)
    {
      const std::lock_guard lock { mutex };
      saved = std::move(one);
      done = true;
      changed.notify_one();
    };
  }

  std::filesystem::path home = std::filesystem::temp_directory_path() / ("tandem-traps-" + std::to_string(::getpid()));
  std::filesystem::path directory = home / "traps";
  std::mutex mutex;
  std::condition_variable changed;
  TrapSaver::Saved saved {};
  bool done = false;
};

TEST_F(TrapFiles, AreTheOwnersAloneAndCanBeRead)
{
  TrapSaver saver { directory, take() };
  const auto one = save(saver, 7);
  EXPECT_EQ(one.problem, "");
  EXPECT_EQ(one.trap, 7u);
  trace::Reader reader { one.file };
  EXPECT_TRUE(reader.next());
  struct stat is
  {
  };
  ASSERT_EQ(::stat(one.file.c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(directory.c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 0777, 0700u);
}

TEST_F(TrapFiles, TheOldestGo)
{
  std::filesystem::create_directory(directory);
  for (int i = 10; i < 40; ++i)
    std::ofstream { directory / ("trap-200001" + std::to_string(i) + "-000000-1.pcapng") };
  std::ofstream { directory / "somebody else's" };
  TrapSaver saver { directory, take() };
  const auto one = save(saver);
  EXPECT_EQ(one.problem, "");
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator { directory })
    count += entry.path().extension() == ".pcapng" ? 1u : 0u;
  EXPECT_EQ(count, TrapSaver::most_files);
  EXPECT_TRUE(std::filesystem::exists(one.file));
  EXPECT_TRUE(std::filesystem::exists(directory / "trap-20000139-000000-1.pcapng"));
  EXPECT_FALSE(std::filesystem::exists(directory / "trap-20000110-000000-1.pcapng"));
  EXPECT_TRUE(std::filesystem::exists(directory / "somebody else's"));
}

// Written in Tokyo, then in Lisbon: what was written last has the earlier name.
TEST_F(TrapFiles, TheOldestIsTheOneThatWasWrittenFirstWhateverTheTimeZoneSaid)
{
  std::filesystem::create_directory(directory);
  const auto began = std::filesystem::file_time_type::clock::now() - std::chrono::hours { 1 };
  const auto name = [](int i) { return "trap-209901" + std::to_string(i) + "-000000-1.pcapng"; };
  for (int i = 10; i < 30; ++i)
  {
    std::ofstream { directory / name(i) };
    std::filesystem::last_write_time(directory / name(i), began - std::chrono::minutes { i });
  }
  TrapSaver saver { directory, take() };
  const auto first = save(saver, 1), second = save(saver, 2);
  EXPECT_TRUE(std::filesystem::exists(first.file)) << "it has the earliest name, and is the newest but one";
  EXPECT_TRUE(std::filesystem::exists(second.file));
  EXPECT_TRUE(std::filesystem::exists(directory / name(10)));
  EXPECT_FALSE(std::filesystem::exists(directory / name(29)));
}

TEST_F(TrapFiles, NothingIsWrittenWhereOthersMayWrite)
{
  std::filesystem::create_directory(directory);
  ::chmod(directory.c_str(), 0770);
  TrapSaver saver { directory, take() };
  EXPECT_THAT(save(saver).problem, HasSubstr("others may write it"));
  std::filesystem::remove(directory);
  std::filesystem::create_directory_symlink(home, directory);
  EXPECT_THAT(save(saver).problem, HasSubstr("cannot be kept in"));
  EXPECT_TRUE(std::filesystem::is_symlink(directory));
}

} // namespace
} // namespace tandem::daemon
