#include "src/evidence/text.h"

#include <gtest/gtest.h>

#include <chrono>
#include <initializer_list>
#include <random>
#include <string>

namespace tandem::evidence
{
namespace
{

using namespace std::chrono_literals;

constexpr WallTime now = 1'700'000'000;

Place at(std::uint32_t network, unsigned part)
{
  Address address {};
  address.bytes = { 10, static_cast<std::uint8_t>(part >> 8), static_cast<std::uint8_t>(part), 1 };
  return { network, "wwan0", prefix_of(address) };
}

Memory learnt()
{
  Memory memory {};
  const std::string odd_ssid { "caf\xc3\xa9 \n\0\"x", 11 };
  const auto cafe = memory.recognize({ odd_ssid, "02:00:00:00:00:01", true }, now - 100);
  const auto home = memory.recognize({ "", "192.168.1.1", false }, now - 50);
  for (int i = 0; i < 20; ++i)
  {
    memory.add(at(cafe, 1), "offload", -0.31 - i * 0.001, 1, now - 90);
    memory.add(at(home, 2), "freeze+mirror", 0.07, 0.5, now - 40);
  }
  memory.add({ home, "", {} }, "mirror", 0.1, 1, now - 40);
  memory.path_found("wwan0", at(0, 9).prefix, false, now - 10);
  memory.path_found("wwan0 26201", at(0, 9).prefix, false, now - 10);
  const auto known = [&](std::uint32_t network, unsigned part, Duration added) {
    memory.path_known({ at(network, part), at(0, 200).prefix, now - 20 }, added);
  };
  known(cafe, 1, std::chrono::milliseconds { 18 });
  known(cafe, 3, std::chrono::microseconds { -2500 });
  known(home, 1, {});
  memory.frames_kept(cafe, "02:00:00:00:01:01", true, now - 30);
  memory.frames_kept(cafe, "02:00:00:00:01:01", false, now - 30);
  memory.frames_kept(home, "02:00:00:00:01:02", true, now - 20);
  return memory;
}

// A body with a right length and checksum.
std::string sealed(const std::string& body, unsigned version = text_version)
{
  std::uint64_t sum = 0xcbf29ce484222325ull;
  for (const char c : body)
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  char first[80];
  std::snprintf(first, sizeof first, "tandem-evidence %u %zu %016llx\n", version, body.size(),
                static_cast<unsigned long long>(sum));
  return first + body;
}

void expect_same(const Memory& a, const Memory& b)
{
  EXPECT_EQ(a.networks(), b.networks());
  EXPECT_EQ(a.records(), b.records());
  EXPECT_EQ(a.paths(), b.paths());
  EXPECT_EQ(a.known_paths(), b.known_paths());
  EXPECT_EQ(a.access_points(), b.access_points());
}

// What is more than may be read would be put aside as a whole at the next start.
TEST(Text, TwoNetworksThatTurnOutToBeOneAreReadAgain)
{
  Memory memory { { .tallies = 3 } };
  const auto named = memory.recognize({ "home", "", false }, now);
  const auto bare = memory.recognize({ "", "02:00:00:00:00:01", true }, now);
  for (const char* what : { "offload", "freeze", "mirror" })
    memory.add({ bare, "wwan0", {} }, what, 0.1, 1, now);
  for (const char* what : { "offload", "ecn", "rate" })
    memory.add({ named, "wwan0", {} }, what, 0.1, 1, now - 1);
  ASSERT_EQ(memory.recognize({ "home", "02:00:00:00:00:01", true }, now), named);
  Memory again { memory.limits() };
  EXPECT_EQ(from_text(to_text(memory), now, again), "");
  EXPECT_EQ(again.records(), memory.records());
  EXPECT_NE(again.find({ named, "wwan0", {} }, "mirror"), nullptr) << "the latest are kept";
}

TEST(Text, OfTwoNetworksThatTurnOutToBeOneTheLatestTalliesAreKept)
{
  Memory memory { { .tallies = 3 } };
  const auto named = memory.recognize({ "home", "", false }, now);
  const auto bare = memory.recognize({ "", "02:00:00:00:00:01", true }, now);
  for (const char* what : { "offload", "freeze" })
    memory.add({ bare, "wwan0", {} }, what, 0.1, 1, now - 9);
  for (const char* what : { "mirror", "ecn", "rate" })
    memory.add({ named, "wwan0", {} }, what, 0.1, 1, now - 1);
  ASSERT_EQ(memory.recognize({ "home", "02:00:00:00:00:01", true }, now), named);
  for (const char* what : { "mirror", "ecn", "rate" })
    EXPECT_NE(memory.find({ named, "wwan0", {} }, what), nullptr) << what;
}

TEST(Text, IsReadAsItWasWritten)
{
  const Memory memory = learnt();
  Memory read {};
  ASSERT_EQ(from_text(to_text(memory), now, read), "");
  expect_same(memory, read);
  ASSERT_EQ(read.networks().size(), 2u);
  EXPECT_EQ(read.standing(at(1, 1), "offload", now), Standing::resting);
  ASSERT_EQ(from_text(to_text(Memory {}), now, read), "");
  EXPECT_TRUE(read.networks().empty());
}

// A module from elsewhere may have any name. What was learnt of the others must not be lost with it.
TEST(Text, AModuleWhoseNameCannotBeWrittenCostsNoOthers)
{
  Memory memory;
  const Place place { memory.recognize({ .ssid = "home" }, 1000), "wwan0", {} };
  for (const char* name : { "freeze", "my-module", "Mine", "a b", "" })
    memory.add(place, name, 0.1, 1, 1000);
  Memory read;
  ASSERT_EQ(from_text(to_text(memory), 1000, read), "");
  EXPECT_NE(read.find(place, "freeze"), nullptr);
  EXPECT_EQ(read.find(place, "my-module"), nullptr);
}

TEST(Text, WhatReleasesBeforeWroteIsRead)
{
  Memory read {};
  const std::string body = "network 5 686f6d65 - 0\npath 1 0 0 7777616e30 24 0a0102\n";
  ASSERT_EQ(from_text(sealed(body, 1), now, read), "");
  EXPECT_EQ(read.networks().size(), 1u);
  EXPECT_EQ(read.paths().size(), 1u);
  EXPECT_EQ(from_text(sealed(body, 2), now, read), "");
  EXPECT_EQ(from_text(sealed(body, 0), now, read), "of another version (0, this is 3)");
}

TEST(Text, AKnownPathIsReadOnlyWhileItCounts)
{
  const auto known_at = [](WallTime validated)
  {
    Memory read {};
    const std::string body =
        "network 5 686f6d65 - 0\nknown " + std::to_string(validated) + " 18000 7777616e30 24 0a0102 24 c0a801\n";
    EXPECT_EQ(from_text(sealed(body), now, read), "");
    return read.known_paths().size();
  };
  EXPECT_EQ(known_at(now), 1u);
  EXPECT_EQ(known_at(now - KnownPath::lasts + 1), 1u);
  EXPECT_EQ(known_at(now - KnownPath::lasts), 0u);
  EXPECT_EQ(known_at(now + 86'400), 0u) << "the clock was set back while the daemon did not run";
}

// One value that cannot be read again would cost all that was learnt.
TEST(Text, ADelayThatIsOutOfAllReasonCostsNothingElse)
{
  for (const Duration added : std::initializer_list<Duration> { 11s, -11s, 1h, Duration::max(), Duration::min() })
  {
    Memory memory = learnt();
    memory.path_known({ at(memory.networks().front().id, 7), at(0, 200).prefix, now - 20 }, added);
    Memory read {};
    ASSERT_EQ(from_text(to_text(memory), now, read), "") << added.count();
    EXPECT_EQ(read.networks(), memory.networks());
    EXPECT_EQ(read.known_paths().size(), memory.known_paths().size());
  }
}

TEST(Text, AnAccessPointIsReadOnlyWhileItCounts)
{
  const auto known_at = [](WallTime used)
  {
    Memory read {};
    const std::string body = "network 5 686f6d65 - 0\nframes " + std::to_string(used) + " 3 1 30323a3030\n";
    EXPECT_EQ(from_text(sealed(body), now, read), "");
    return read.access_points().size();
  };
  EXPECT_EQ(known_at(now), 1u);
  EXPECT_EQ(known_at(now - KeptFrames::lasts + 1), 1u);
  EXPECT_EQ(known_at(now - KeptFrames::lasts), 0u);
  EXPECT_EQ(known_at(now + 86'400), 0u) << "the clock was set back while the daemon did not run";
}

TEST(Text, AFullMemoryIsWithinItsLength)
{
  Memory memory {};
  const Limits limits {};
  for (unsigned i = 0; i < limits.networks; ++i)
  {
    const auto network = memory.recognize(
        { std::string(32, static_cast<char>('a' + i % 26)) + std::to_string(i), std::string(48, '1'), false }, now);
    for (unsigned part = 0; part < limits.records / limits.networks; ++part)
      for (unsigned what = 0; what < 16; ++what)
        memory.add(at(network, part), std::string(40, static_cast<char>('a' + what)), 0.123456789, 1.0 / 3, now);
  }
  for (unsigned part = 0; part < limits.paths; ++part)
    memory.path_known({ at(1, part), at(0, 0).prefix, now }, std::chrono::seconds { -9 });
  for (unsigned i = 0; i < limits.access_points; ++i)
    memory.frames_kept(1, std::string(40, 'a') + std::to_string(i), true, now);
  const std::string text = to_text(memory);
  EXPECT_LT(text.size(), longest_text);
  Memory read {};
  EXPECT_EQ(from_text(text, now, read), "");
  EXPECT_EQ(read.records().size(), memory.records().size());
}

// While a network's tally rests, servers that speak for themselves are compared, and count there.
TEST(Text, HoweverMuchIsComparedDuringARestItIsReadAgain)
{
  Memory memory {};
  const auto home = memory.recognize({ "home", "", false }, now);
  for (int i = 0; i < 20; ++i)
    memory.add(at(home, 1), "offload", 0.3, 1, now);
  memory.rest({ home, "wwan0", {} }, "offload", now);
  for (int i = 0; i < 70'000; ++i)
    memory.add(at(home, 1), "offload", 0.3, 1, now);
  Memory read {};
  EXPECT_EQ(from_text(to_text(memory), now, read), "");
  EXPECT_EQ(read.records(), memory.records());
}

TEST(Text, TornAnywhereIsNotUsed)
{
  const std::string whole = to_text(learnt());
  for (std::size_t length = 0; length < whole.size(); ++length)
  {
    Memory read {};
    EXPECT_NE(from_text(std::string_view { whole }.substr(0, length), now, read), "") << length;
    EXPECT_TRUE(read.networks().empty() && read.records().empty() && read.paths().empty() && read.known_paths().empty()
                && read.access_points().empty());
  }
}

TEST(Text, AnyByteThatIsAnotherIsFound)
{
  const std::string whole = to_text(learnt());
  for (std::size_t i = 0; i < whole.size(); ++i)
  {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 4); // no other release's version
    Memory read {};
    EXPECT_NE(from_text(changed, now, read), "") << i;
  }
}

TEST(Text, ANewerVersionAndAForeignFileAreNamed)
{
  Memory read {};
  EXPECT_EQ(from_text("tandem-evidence 4 0 cbf29ce484222325\n", now, read), "of another version (4, this is 3)");
  EXPECT_EQ(from_text("#!/bin/sh\nrm -rf /\n", now, read), "no memory of Tandem");
  EXPECT_EQ(from_text("", now, read), "no memory of Tandem");
  EXPECT_EQ(from_text(std::string(100'000, 'x'), now, read), "no memory of Tandem");
}

TEST(Text, WhatNobodyWroteIsRefusedByLine)
{
  const std::string network = "network 5 686f6d65 - 0\n";
  const std::string record = "record 5 7777616e30 24 0a0102\n";
  Memory read {};
  EXPECT_EQ(from_text(sealed(network + record + "tally offload 0 0 0 5 1 1 0.1 0.01 0.1 1\n"), now, read), "");
  ASSERT_EQ(read.records().size(), 1u);
  for (const std::string& bad : { std::string { "network 5 zz - 0\n" },
                                  std::string { "network 5 - - 0\n" },
                                  std::string { "network 5 686f6d65 - 0\n" },
                                  std::string { "record 5 77 25 0a0102\n" },
                                  std::string { "record 5 77 24 0a01\n" },
                                  std::string { "record -1 77 0 -\n" },
                                  std::string { "record 5 77 0 - more\n" },
                                  std::string { "tally offload 3 0 0 5 1 1 0.1 0.01 0.1 1\n" },
                                  std::string { "tally off/load 0 0 0 5 1 1 0.1 0.01 0.1 1\n" },
                                  std::string { "tally offload 0 0 0 5 1 1 nan 0.01 0.1 1\n" },
                                  std::string { "tally offload 0 0 0 5 1 1 inf 0.01 0.1 1\n" },
                                  std::string { "tally offload 0 0 0 5 1 1 99 0.01 0.1 1\n" },
                                  std::string { "tally offload 0 0 0 5 0 1 0.1 0.01 0.1 1\n" },
                                  std::string { "tally offload 0 0 0 5 1 1e-300 0.1 0.01 0.1 1\n" },
                                  std::string { "hello\n" },
                                  std::string { "\n" },
                                  std::string { "path 17 0 0 77 0 -\n" },
                                  std::string { "known 1700000000 99999999999 77 24 0a0102 24 c0a801\n" },
                                  std::string { "known 1700000000 5 - 24 0a0102 24 c0a801\n" },
                                  std::string { "known 1700000000 5 77 24 0a0102\n" },
                                  std::string { "known 1700000000 5 77 24 0a0102 25 c0a801\n" },
                                  std::string { "frames 1700000000 9 0 30\n" },
                                  std::string { "frames 1700000000 1 8 30\n" },
                                  std::string { "frames 1700000000 1 0 -\n" },
                                  std::string { "frames 1700000000 1 0\n" } })
    EXPECT_EQ(from_text(sealed(network + record + bad), now, read), "line 4 is not understood") << bad;
  EXPECT_EQ(from_text(sealed(record), now, read), "line 2 is not understood") << "of no network";
  const std::string known = "known 1700000000 5 77 24 0a0102 24 c0a801\n";
  EXPECT_EQ(from_text(sealed(known), now, read), "line 2 is not understood") << "of no network";
  EXPECT_EQ(from_text(sealed(network + known + known), now, read), "line 4 is not understood") << "twice";
  const std::string frames = "frames 1700000000 1 0 30\n";
  EXPECT_EQ(from_text(sealed(frames), now, read), "line 2 is not understood") << "of no network";
  EXPECT_EQ(from_text(sealed(network + frames + frames), now, read), "line 4 is not understood") << "twice";
  EXPECT_EQ(from_text(sealed(network + "tally offload 0 0 0 5 1 1 0.1 0.01 0.1 1\n"), now, read),
            "line 3 is not understood");
}

TEST(Text, APathOfNoCellularLinkIsNobodys)
{
  Memory read {};
  EXPECT_EQ(from_text(sealed("path 1 0 0 - 24 0a0102\npath 1 0 0 7777616e30 24 0a0102\n"), now, read), "");
  EXPECT_EQ(read.cells(), std::vector<std::string> { "wwan0" });
}

TEST(Text, MoreThanFitsIsRefused)
{
  Memory large {};
  for (unsigned i = 0; i < 100; ++i)
    static_cast<void>(large.recognize({ "network " + std::to_string(i), "", false }, now));
  Memory small { { .networks = 50 } };
  EXPECT_EQ(from_text(to_text(large), now, small), "line 52 is not understood");
}

TEST(Text, TimesInTheFutureAreTakenBack)
{
  const std::string text = to_text(learnt());
  Memory read {};
  const WallTime set_back = 1'600'000'000;
  ASSERT_EQ(from_text(text, set_back, read), "");
  for (const Network& network : read.networks())
    EXPECT_LE(network.used, set_back);
  for (const auto& [place, record] : read.records())
    for (const auto& [what, tally] : record.tallies)
      EXPECT_LE(tally.until, set_back + Tally::longest_rest);
  EXPECT_EQ(read.standing(at(1, 1), "offload", set_back), Standing::resting) << "what was learnt is not lost";
  EXPECT_EQ(read.standing(at(1, 1), "offload", set_back + Tally::longest_rest), Standing::trial);
}

TEST(Text, NoiseIsNeverUnderstood)
{
  std::mt19937 random { 1 };
  for (int i = 0; i < 2000; ++i)
  {
    std::string noise = i % 2 == 0 ? "" : "tandem-evidence 2 ";
    for (unsigned length = random() % 200; noise.size() < length;)
      noise += static_cast<char>(random());
    Memory read {};
    EXPECT_NE(from_text(noise, now, read), "");
  }
}

} // namespace
} // namespace tandem::evidence
