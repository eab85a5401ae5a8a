#include "src/feeder/sources/threaded_source.h"
#include "src/kernel/clock.h"
#include "src/kernel/fd.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <semaphore>
#include <stdexcept>
#include <thread>

namespace tandem::feeder
{
namespace
{

using namespace std::chrono_literals;
constexpr auto long_enough = 20s; // for a busy machine

// What the test tells the source inside, and sees of it.
struct Script
{
  kernel::Fd bell { eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE) };
  std::atomic<int> per_read = 1;
  std::atomic<bool> ends = false;
  std::atomic<bool> throws = false;
  std::atomic<bool> opens = true;
  std::atomic<int> reopened = 0;
  std::atomic<bool> hangs = false; // in receive() and reopen(), until `release`
  std::atomic<bool> entered = false;
  std::binary_semaphore release { 0 };
  std::atomic<bool> destroyed = false;
  std::atomic<std::uint64_t> skipped = 0;
  std::atomic<int> ap_ending = 0;  // last byte of the access point; -1: none
  std::atomic<bool> timed = false; // driven by due() alone
};

class Scripted final : public Source
{
public:
  Scripted(std::shared_ptr<Script> script, bool open) : script_ { std::move(script) }, open_ { open } {}
  ~Scripted() override { script_->destroyed = true; }

  std::string name() const override { return "scripted"; }
  int fd() const override { return open_ && !script_->timed ? script_->bell.get() : -1; }
  Tick due() const override { return open_ && script_->timed ? last_ + 1ms : Tick::max(); }
  bool receive(Tick now, std::vector<Report>& reports) override
  {
    last_ = now;
    hang();
    eventfd_t count = 0;
    if (!script_->timed && eventfd_read(script_->bell.get(), &count) != 0) return true;
    for (int i = 0; i < script_->per_read; ++i)
      reports.push_back({ Tick { Duration { ++made_ } }, Survey { .frequency = 2412 } });
    if (script_->throws) throw std::runtime_error { "the planted fault" };
    open_ = !script_->ends;
    return open_;
  }
  bool reopen(Tick) override
  {
    hang();
    ++script_->reopened;
    open_ = script_->opens;
    return open_;
  }
  void set_ap(const std::optional<Mac>& ap) override { script_->ap_ending = ap ? (*ap)[5] : -1; }
  std::string problem() const override { return open_ ? "" : "scripted: closed by the test"; }
  std::uint64_t skipped() const override { return script_->skipped; }
  Duration stale_after() const override { return 3s; }
  unsigned rate_limit() const override { return 77; }

private:
  void hang()
  {
    if (!script_->hangs) return;
    script_->entered = true;
    script_->release.acquire();
  }

  std::shared_ptr<Script> script_;
  bool open_;
  Tick last_ {};
  std::int64_t made_ = 0;
};

template <class Condition>
bool eventually(Condition condition)
{
  for (const Tick end = kernel::now() + long_enough; kernel::now() < end; std::this_thread::sleep_for(1ms))
    if (condition()) return true;
  return false;
}

bool readable(int fd)
{
  pollfd one { .fd = fd, .events = POLLIN, .revents = 0 };
  return fd >= 0 && ::poll(&one, 1, 0) == 1;
}

void ring(Script& script, unsigned times = 1)
{
  eventfd_write(script.bell.get(), times);
}

struct ThreadedSourceTest : testing::Test
{
  std::shared_ptr<Script> script = std::make_shared<Script>();
  std::vector<Report> reports {};

  std::unique_ptr<Source> inner(bool open = true) { return std::make_unique<Scripted>(script, open); }
};

TEST_F(ThreadedSourceTest, passes_on_what_the_inner_source_says)
{
  ThreadedSource source { inner() };
  EXPECT_EQ(source.name(), "scripted");
  EXPECT_EQ(source.stale_after(), 3s);
  EXPECT_EQ(source.rate_limit(), 77u);
  ASSERT_TRUE(eventually([&] { return source.fd() >= 0; }));
  script->skipped = 5;
  ring(*script, 3);
  ASSERT_TRUE(eventually([&] { return source.receive(kernel::now(), reports) && reports.size() == 3; }));
  for (std::size_t i = 0; i < reports.size(); ++i)
    EXPECT_EQ(reports[i].at, Tick { Duration { i + 1 } });
  EXPECT_FALSE(readable(source.fd()));
  EXPECT_EQ(script->reopened, 0); // it was open
  EXPECT_EQ(source.skipped(), 5u);
  EXPECT_EQ(source.problem(), "");
}

TEST_F(ThreadedSourceTest, calls_a_source_that_has_no_descriptor_when_it_is_due)
{
  script->timed = true;
  ThreadedSource source { inner() };
  EXPECT_TRUE(eventually([&] { return source.receive(kernel::now(), reports) && reports.size() > 1; }));
}

TEST_F(ThreadedSourceTest, hands_on_the_access_point)
{
  ThreadedSource source { inner() };
  source.set_ap(Mac { 2, 0, 0, 0, 1, 7 });
  EXPECT_TRUE(eventually([&] { return script->ap_ending == 7; }));
  source.set_ap({});
  EXPECT_TRUE(eventually([&] { return script->ap_ending == -1; }));
}

// It would be told as a source that has failed.
TEST_F(ThreadedSourceTest, counts_as_open_while_it_is_opened_for_the_first_time)
{
  script->hangs = true;
  ThreadedSource source { inner(false) };
  ASSERT_TRUE(eventually([&] { return script->entered.load(); }));
  EXPECT_GE(source.fd(), 0);
  EXPECT_TRUE(source.receive(kernel::now(), reports));
  script->opens = false;
  script->hangs = false;
  script->release.release();
  EXPECT_TRUE(eventually([&] { return !source.receive(kernel::now(), reports); }));
  EXPECT_EQ(source.fd(), -1);
}

TEST_F(ThreadedSourceTest, opens_what_is_not_open)
{
  ThreadedSource source { inner(false) };
  EXPECT_TRUE(eventually([&] { return script->reopened == 1; }));
  ring(*script);
  EXPECT_TRUE(eventually([&] { return source.receive(kernel::now(), reports) && reports.size() == 1; }));
}

TEST_F(ThreadedSourceTest, tells_the_end_and_why_and_reopens_on_demand)
{
  script->opens = false;
  ThreadedSource source { inner() };
  script->ends = true;
  ring(*script);
  // Nobody who looks at the descriptor alone misses the end.
  ASSERT_TRUE(eventually([&] { return !source.problem().empty(); }));
  ASSERT_TRUE(readable(source.fd()));
  EXPECT_FALSE(source.receive(kernel::now(), reports));
  EXPECT_EQ(reports.size(), 1u); // the last one is not lost
  EXPECT_EQ(source.fd(), -1);
  EXPECT_EQ(source.problem(), "scripted: closed by the test");

  EXPECT_FALSE(source.reopen(kernel::now()));
  ASSERT_TRUE(eventually([&] { return script->reopened == 1; }));
  script->opens = true;
  script->ends = false;
  ASSERT_TRUE(eventually([&] { return source.reopen(kernel::now()); }));
  EXPECT_EQ(source.problem(), "");
  reports.clear();
  ring(*script);
  EXPECT_TRUE(eventually([&] { return source.receive(kernel::now(), reports) && reports.size() == 1; }));
}

TEST_F(ThreadedSourceTest, keeps_the_newest_when_nobody_takes_them)
{
  script->per_read = 10;
  ThreadedSource source { inner(), { .reports = 25 } };
  ring(*script, 10);
  ASSERT_TRUE(eventually([&] { return source.skipped() == 75; }));
  source.receive(kernel::now(), reports);
  ASSERT_EQ(reports.size(), 25u);
  EXPECT_EQ(reports.front().at, Tick { Duration { 76 } });
  EXPECT_EQ(reports.back().at, Tick { Duration { 100 } });
}

TEST_F(ThreadedSourceTest, an_exception_ends_the_source_and_nothing_else)
{
  script->throws = true;
  ThreadedSource source { inner() };
  ring(*script);
  ASSERT_TRUE(eventually([&] { return source.problem() == "scripted: the planted fault"; }));
  EXPECT_FALSE(source.receive(kernel::now(), reports));
  script->throws = false;
  EXPECT_TRUE(eventually([&] { return source.reopen(kernel::now()); }));
}

TEST_F(ThreadedSourceTest, stops_at_once_while_the_inner_source_waits)
{
  const Tick before = kernel::now();
  {
    ThreadedSource source { inner(), { .timeout = 60s } };
    ASSERT_TRUE(eventually([&] { return source.fd() >= 0; }));
  }
  EXPECT_TRUE(script->destroyed);
  EXPECT_LT(kernel::now() - before, 30s);
}

TEST_F(ThreadedSourceTest, does_not_wait_for_a_call_that_hangs)
{
  script->hangs = true;
  {
    ThreadedSource source { inner(false), { .timeout = 50ms } };
    ASSERT_TRUE(eventually([&] { return script->entered.load(); }));
    EXPECT_FALSE(source.reopen(kernel::now()));
    EXPECT_TRUE(source.receive(kernel::now(), reports) && reports.empty());
  }
  EXPECT_FALSE(script->destroyed);
  script->hangs = false;
  script->release.release();
  EXPECT_TRUE(eventually([&] { return script->destroyed.load(); })); // it has ended behind our back, tidily
}

// For the thread sanitizer: everything at once.
TEST_F(ThreadedSourceTest, may_be_asked_anything_while_the_thread_works)
{
  script->per_read = 3;
  {
    ThreadedSource source { inner(), { .reports = 16 } };
    std::jthread pushing { [&](const std::stop_token& stop)
                           {
                             for (int i = 0; !stop.stop_requested(); ++i)
                             {
                               ring(*script);
                               script->throws = i % 50 == 49;
                               script->ends = i % 20 == 19;
                               std::this_thread::sleep_for(100us);
                             }
                           } };
    std::size_t taken = 0;
    for (const Tick end = kernel::now() + 300ms; kernel::now() < end;)
    {
      reports.clear();
      if (!source.receive(kernel::now(), reports)) source.reopen(kernel::now());
      taken += reports.size() + source.problem().size() / 1000 + source.skipped() / 1'000'000'000;
      readable(source.fd());
    }
    EXPECT_GT(taken, 0u);
  }
  EXPECT_TRUE(script->destroyed);
}

} // namespace
} // namespace tandem::feeder
