#include "src/trace/recorder.h"
#include "tests/unit/trace/samples.h"

#include <gtest/gtest.h>

#include <deque>

namespace tandem::trace
{
namespace
{

using namespace test;

struct Kept
{
  Tick at {};
  Packet before {};
  Packet after {};
  std::string why {};
  std::uint32_t before_length = 0;
};

std::vector<Kept> kept(const Recorder& recorder)
{
  std::vector<Kept> all;
  recorder.visit(
      [&](const Entry& entry)
      {
        all.push_back({ entry.at,
                        { entry.before.begin(), entry.before.end() },
                        { entry.after.begin(), entry.after.end() },
                        std::string { entry.why },
                        entry.before_length });
      });
  return all;
}

TEST(Recorder, KeepsWhatItWasGiven)
{
  const Sample sample;
  Recorder recorder { {} };
  for (const Entry& entry : sample.entries())
    recorder.add(entry);
  std::vector<Disposition> dispositions;
  std::vector<Link> links;
  recorder.visit(
      [&](const Entry& entry)
      {
        dispositions.push_back(entry.disposition);
        links.push_back(entry.after_link);
      });
  EXPECT_EQ(dispositions, (std::vector { Disposition::passed, Disposition::edited, Disposition::dropped,
                                         Disposition::injected, Disposition::fault }));
  EXPECT_EQ(links, (std::vector { Link::wifi, Link::cell, Link::wifi, Link::cell, Link::wifi }));
  const auto all = kept(recorder);
  EXPECT_EQ(all[1].before, sample.before);
  EXPECT_EQ(all[1].after, sample.after);
  EXPECT_EQ(all[1].why, "offload: tagged");
  EXPECT_EQ(all[3].before, Packet {});
  EXPECT_EQ(all[4].before_length, 20u);
  EXPECT_EQ(all[0].before_length, sample.passed.size());
}

TEST(Recorder, TheReasonIsCopied)
{
  // A reason is a literal of a module that may have been unloaded by the time somebody asks.
  Recorder recorder { {} };
  std::string why = "offload: a reason";
  recorder.add({ .why = why });
  why.assign(why.size(), 'x');
  EXPECT_EQ(kept(recorder).at(0).why, "offload: a reason");
}

TEST(Recorder, CutsPacketsAndReasons)
{
  Recorder recorder { { .snap = 100 } };
  const Packet large(1500, std::byte { 7 });
  recorder.add({ .disposition = Disposition::edited,
                 .before = large,
                 .after = large,
                 .before_length = 9000,
                 .why = std::string(500, 'w') });
  recorder.visit(
      [](const Entry& entry)
      {
        EXPECT_EQ(entry.before.size(), 100u);
        EXPECT_EQ(entry.before_length, 9000u);
        EXPECT_EQ(entry.after.size(), 100u);
        EXPECT_EQ(entry.after_length, 1500u);
        EXPECT_EQ(entry.why.size(), longest_why);
      });
}

TEST(Recorder, ForgetsByAge)
{
  Recorder recorder { { .keep = 10s } };
  const Packet packet = ack(1);
  for (int second = 0; second < 30; ++second)
    recorder.add({ .at = tick(std::chrono::seconds { second }), .before = packet });
  EXPECT_EQ(recorder.size(), 11u);
  EXPECT_EQ(kept(recorder).front().at, tick(19s));
  EXPECT_EQ(recorder.counters().expired, 19u);
  EXPECT_EQ(recorder.counters().overwritten, 0u);
  recorder.expire(tick(100s));
  EXPECT_EQ(recorder.size(), 0u);
}

// Against a plain list: whatever the sizes, what is kept is an unbroken run of the youngest entries, whole.
TEST(Recorder, OverwritesTheOldestFirst)
{
  wire::test::Generator random { 5 };
  for (const std::size_t bytes : { 800u, 1000u, 4096u, 10001u })
  {
    Recorder recorder { { .keep = std::chrono::hours { 1 }, .bytes = bytes, .snap = 200 } };
    std::deque<Kept> model;
    for (int i = 0; i < 3000; ++i)
    {
      const Packet before = random.bytes(random.below(201));
      const Packet after = random.coin() ? random.bytes(random.below(201)) : Packet {};
      const std::string why(random.below(60), static_cast<char>('a' + random.below(26)));
      const Tick at = tick(std::chrono::milliseconds { i });
      recorder.add({ .at = at, .disposition = Disposition::edited, .before = before, .after = after, .why = why });
      model.push_back({ at, before, after, why });
      ASSERT_LE(recorder.size(), model.size());
      while (model.size() > recorder.size())
        model.pop_front();
      const auto all = kept(recorder);
      ASSERT_GE(all.size(), 1u);
      for (std::size_t k = 0; k < all.size(); ++k)
      {
        ASSERT_EQ(all[k].at, model[k].at);
        ASSERT_EQ(all[k].before, model[k].before);
        ASSERT_EQ(all[k].after, model[k].after);
        ASSERT_EQ(all[k].why, model[k].why);
      }
    }
    EXPECT_EQ(recorder.counters().recorded, 3000u);
    EXPECT_EQ(recorder.counters().overwritten, 3000u - recorder.size());
  }
}

TEST(Recorder, UsesItsMemory)
{
  Recorder recorder { { .keep = 1h, .bytes = 100000, .snap = 256 } };
  const Packet packet = ack(1);
  for (int i = 0; i < 10000; ++i)
    recorder.add({ .before = packet });
  // An ACK of 52 bytes with its head takes about 100: no more than a third of the memory may lie idle.
  EXPECT_GT(recorder.size(), 650u);
}

TEST(Recorder, ACopyStandsForItself)
{
  Recorder recorder { {} };
  const Packet packet = ack(1);
  recorder.add({ .before = packet, .why = "one" });
  const Recorder copy = recorder;
  recorder.clear();
  recorder.add({ .before = packet, .why = "two" });
  EXPECT_EQ(kept(copy).at(0).why, "one");
  EXPECT_EQ(kept(recorder).at(0).why, "two");
}

TEST(Recorder, RefusesLimitsThatHoldNothing)
{
  EXPECT_THROW(Recorder({ .keep = 0s }), std::invalid_argument);
  EXPECT_THROW(Recorder({ .bytes = 500 }), std::invalid_argument);
  EXPECT_THROW(Recorder({ .snap = 0 }), std::invalid_argument);
  EXPECT_THROW(Recorder({ .snap = 65536 }), std::invalid_argument);
}

} // namespace
} // namespace tandem::trace
