#include "src/evidence/memory.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem::evidence
{
namespace
{

Address v4(unsigned a, unsigned b, unsigned c, unsigned d)
{
  Address address {};
  address.bytes = { static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b), static_cast<std::uint8_t>(c),
                    static_cast<std::uint8_t>(d) };
  return address;
}

constexpr WallTime now = 1'700'000'000;

void feed(Memory& memory, const Place& place, const std::string& what, double difference, int times)
{
  for (int i = 0; i < times; ++i)
    memory.add(place, what, difference + (i % 2 == 0 ? 0.02 : -0.02), 1, now);
}

TEST(Prefix, IsOneTwentyFourthOrFortyEighth)
{
  EXPECT_EQ(prefix_of(v4(10, 1, 2, 3)), prefix_of(v4(10, 1, 2, 250)));
  EXPECT_NE(prefix_of(v4(10, 1, 2, 3)), prefix_of(v4(10, 1, 3, 3)));
  Address six { .bytes = { 0x20, 1, 0xd, 0xb8, 0, 1, 9 }, .v6 = true };
  Address near = six;
  near.bytes[6] = 8;
  Address far = six;
  far.bytes[5] = 8;
  EXPECT_EQ(prefix_of(six), prefix_of(near));
  EXPECT_NE(prefix_of(six), prefix_of(far));
}

TEST(Networks, AreToldBySsidElseByGateway)
{
  Memory memory {};
  EXPECT_EQ(memory.recognize({}, now), 0u);
  const auto cafe = memory.recognize({ "cafe", "02:00:00:00:00:01", true }, now);
  const auto home = memory.recognize({ "home", "02:00:00:00:00:02", true }, now);
  EXPECT_NE(cafe, home);
  EXPECT_EQ(memory.recognize({ "cafe", "02:00:00:00:00:99", true }, now), cafe) << "a network with several gateways";
  EXPECT_EQ(memory.recognize({ "", "02:00:00:00:00:02", true }, now), home) << "the name is not known for now";
  EXPECT_EQ(memory.networks().size(), 2u);
}

TEST(Networks, ANewNameOfTheSameGatewayIsTheSameNetwork)
{
  Memory memory {};
  const auto before = memory.recognize({ "old", "02:00:00:00:00:01", true }, now);
  EXPECT_EQ(memory.recognize({ "new", "02:00:00:00:00:01", true }, now), before);
  ASSERT_EQ(memory.networks().size(), 1u);
  EXPECT_EQ(memory.networks()[0].name(), "new");
}

TEST(Networks, OneKnownByItsGatewayAloneGetsItsNameAndKeepsWhatWasLearnt)
{
  Memory memory {};
  const auto named = memory.recognize({ "home", "", false }, now);
  const auto bare = memory.recognize({ "", "02:00:00:00:00:01", true }, now);
  ASSERT_NE(named, bare);
  feed(memory, { bare, "wwan0", prefix_of(v4(10, 1, 2, 3)) }, "offload", -0.3, 30);
  feed(memory, { named, "wwan0", {} }, "offload", 0.1, 2);
  EXPECT_EQ(memory.recognize({ "home", "02:00:00:00:00:01", true }, now), named);
  EXPECT_EQ(memory.networks().size(), 1u);
  EXPECT_EQ(memory.standing({ named, "wwan0", {} }, "offload", now), Standing::resting);
  EXPECT_EQ(memory.standing({ named, "wwan0", prefix_of(v4(10, 1, 2, 3)) }, "offload", now), Standing::resting);
}

TEST(Networks, AnAddressThatEverybodyHasTellsNothing)
{
  Memory memory {};
  const auto cafe = memory.recognize({ "cafe", "192.168.1.1", false }, now);
  EXPECT_NE(memory.recognize({ "home", "192.168.1.1", false }, now), cafe);
  EXPECT_EQ(memory.networks().size(), 2u);
}

TEST(Memory, APlaceThatHasSeenTooLittleGoesByItsNetwork)
{
  Memory memory {};
  const auto network = memory.recognize({ "home", "", false }, now);
  const Place known { network, "wwan0", prefix_of(v4(10, 1, 2, 3)) };
  const Place fresh { network, "wwan0", prefix_of(v4(10, 9, 9, 9)) };
  feed(memory, known, "offload", -0.3, 30);
  EXPECT_EQ(memory.standing(known, "offload", now), Standing::resting);
  EXPECT_EQ(memory.standing(fresh, "offload", now), Standing::resting) << "the network's word";
  EXPECT_EQ(memory.standing(fresh, "mirror", now), Standing::acting);
  EXPECT_EQ(memory.standing({ network, "other", {} }, "offload", now), Standing::acting) << "another cellular link";

  // One that has seen enough speaks for itself, whatever the network says.
  const Place good { network, "wwan0", prefix_of(v4(10, 7, 7, 7)) };
  feed(memory, good, "offload", 0.3, 20);
  EXPECT_EQ(memory.standing(good, "offload", now), Standing::acting);
}

TEST(Memory, ThousandsOfNetworksAndPrefixesAreBoundedAndCounted)
{
  Memory memory { { .networks = 16, .records = 64, .tallies = 4, .paths = 8 } };
  const auto kept = memory.recognize({ "kept", "", false }, now);
  for (unsigned i = 0; i < 5000; ++i)
  {
    const auto network = memory.recognize({ "network " + std::to_string(i), "", false }, now + i);
    memory.add({ network, "wwan0", prefix_of(v4(10, i >> 8, i, 1)) }, "module" + std::to_string(i % 9), 0.1, 1,
               now + i);
    memory.path_found("wwan0", prefix_of(v4(10, i >> 8, i, 1)), false, now + i);
    ASSERT_EQ(memory.recognize({ "kept", "", false }, now + i), kept) << "what is used is not forgotten";
  }
  EXPECT_LE(memory.networks().size(), 16u);
  EXPECT_LE(memory.records().size(), 64u);
  EXPECT_LE(memory.paths().size(), 8u);
  EXPECT_EQ(memory.forgotten().networks, 5001u - 16u);
  for (unsigned i = 0; i < 500; ++i)
    memory.add({ kept, "wwan0", prefix_of(v4(11, i >> 8, i, 1)) }, "offload", 0.1, 1, now + 5000 + i);
  EXPECT_LE(memory.records().size(), 64u);
  EXPECT_GT(memory.forgotten().records, 0u);
}

// All that is known was used by a clock that was ahead. What is learnt since must not be the first to go.
TEST(Memory, AFullOneGoesOnLearningAfterTheClockWasSetBack)
{
  Memory memory { { .networks = 16, .records = 64, .tallies = 4, .paths = 8 } };
  const WallTime ahead = now + 86'400;
  for (unsigned i = 0; i < 64; ++i)
  {
    const auto network = memory.recognize({ "network " + std::to_string(i % 16), "", false }, ahead + i);
    memory.add({ network, "wwan0", prefix_of(v4(10, 1, i, 1)) }, "mirror", 0.1, 1, ahead + i);
  }
  const auto home = memory.recognize({ "home", "", false }, now);
  static_cast<void>(memory.recognize({ "cafe", "", false }, now + 1));
  EXPECT_EQ(memory.recognize({ "home", "", false }, now + 2), home);
  for (unsigned i = 0; i < 30; ++i)
    memory.add({ home, "wwan0", prefix_of(v4(10, 2, 3, 4)) }, "offload", i % 2 == 0 ? -0.3 : -0.32, 1, now + 3 + i);
  EXPECT_EQ(memory.standing({ home, "wwan0", {} }, "offload", now + 40), Standing::resting);
  EXPECT_LE(memory.records().size(), 64u);
}

TEST(Memory, ForgetsOnDemand)
{
  Memory memory {};
  const auto home = memory.recognize({ "home", "02:00:00:00:00:01", true }, now);
  const auto cafe = memory.recognize({ "cafe", "02:00:00:00:00:02", true }, now);
  feed(memory, { home, "wwan0", {} }, "offload", -0.3, 30);
  feed(memory, { cafe, "wwan0", {} }, "offload", -0.3, 30);
  EXPECT_EQ(memory.forget("nowhere"), 0u);
  const auto bare = memory.recognize({ "", "02:00:00:00:00:03", true }, now);
  EXPECT_EQ(memory.forget(""), 0u) << "without a name is no name";
  EXPECT_EQ(memory.recognize({ "", "02:00:00:00:00:03", true }, now), bare);
  EXPECT_EQ(memory.forget("home"), 1u);
  EXPECT_EQ(memory.standing({ home, "wwan0", {} }, "offload", now), Standing::acting);
  EXPECT_EQ(memory.standing({ cafe, "wwan0", {} }, "offload", now), Standing::resting);
  EXPECT_EQ(memory.forget("02:00:00:00:00:02"), 1u);
  EXPECT_TRUE(memory.records().empty());
}

// ---- paths that are known ----

struct KnownPaths : ::testing::Test
{
  PathSeen at(std::uint32_t network, unsigned part, WallTime when = now) const
  {
    return { { network, "wwan0 26201", prefix_of(v4(203, 0, part, 7)) }, prefix_of(v4(192, 0, 2, 9)), when };
  }
  Memory memory {};
  std::uint32_t home = memory.recognize({ "home", "02:00:00:00:00:01", true }, now);
  std::uint32_t cafe = memory.recognize({ "cafe", "02:00:00:00:00:02", true }, now);
  const Duration added = std::chrono::milliseconds { 18 };
};

TEST_F(KnownPaths, AreOfNetworkLinkServersAndTheAddressTheyCameFrom)
{
  const auto before = memory.changes();
  memory.path_known(at(home, 1), added);
  EXPECT_GT(memory.changes(), before);
  EXPECT_EQ(memory.known_path(at(home, 1)), added);
  EXPECT_FALSE(memory.known_path(at(home, 2))) << "other servers";
  EXPECT_FALSE(memory.known_path(at(cafe, 1))) << "another network's address, or its translation";
  PathSeen other = at(home, 1);
  other.place.cell = "wwan0 26202";
  EXPECT_FALSE(memory.known_path(other)) << "another operator";
  other = at(home, 1);
  other.source = prefix_of(v4(198, 51, 100, 9));
  EXPECT_FALSE(memory.known_path(other)) << "another place of a network of the same name";
  memory.path_known(at(home, 1), -added);
  EXPECT_EQ(memory.known_path(at(home, 1)), -added) << "the newest counts";
}

TEST_F(KnownPaths, OfNoNetworkOrLinkAreNotKept)
{
  memory.path_known(at(0, 1), added);
  PathSeen none = at(home, 1);
  none.place.cell.clear();
  memory.path_known(none, added);
  EXPECT_TRUE(memory.known_paths().empty());
}

TEST_F(KnownPaths, CountForHours)
{
  memory.path_known(at(home, 1), added);
  EXPECT_TRUE(memory.known_path(at(home, 1, now + KnownPath::lasts - 1)));
  EXPECT_FALSE(memory.known_path(at(home, 1, now + KnownPath::lasts)));
  memory.sweep_paths(now + KnownPath::lasts - 1);
  EXPECT_EQ(memory.known_paths().size(), 1u);
  const auto before = memory.changes();
  memory.sweep_paths(now + KnownPath::lasts);
  EXPECT_TRUE(memory.known_paths().empty());
  EXPECT_GT(memory.changes(), before);
}

TEST_F(KnownPaths, AreForgottenWhenTheClockIsSetBack)
{
  memory.path_known(at(home, 1), added);
  EXPECT_TRUE(memory.known_path(at(home, 1, now - 2))) << "it is put right by small steps all the time";
  EXPECT_FALSE(memory.known_path(at(home, 1, now - 86'400)));
  memory.sweep_paths(now - 86'400);
  EXPECT_FALSE(memory.known_path(at(home, 1, now + 60))) << "nobody knows how old it is then";
}

TEST_F(KnownPaths, EndWithTheFirstFailureOrDoubtFromWhateverNetwork)
{
  const auto learn = [&]
  {
    for (unsigned part = 1; part <= 4; ++part)
      for (const std::uint32_t network : { home, cafe })
        memory.path_known(at(network, part), added);
  };
  learn();
  memory.path_found("wwan0 26201", at(home, 1).place.prefix, false, now);
  EXPECT_EQ(memory.known_paths().size(), 6u);
  EXPECT_FALSE(memory.path_failed("wwan0 26201", at(home, 1).place.prefix, now)) << "it worked, and may just be away";
  memory.path_found("wwan0 26201", at(home, 1).place.prefix, false, now);
  EXPECT_TRUE(memory.path_failed("wwan0 26201", at(home, 1).place.prefix, now));
  learn();
  EXPECT_FALSE(memory.known_path(at(home, 1))) << "while it is not tried it is not known";
  memory.path_found("wwan0 26201", at(home, 1).place.prefix, true, now);
  EXPECT_TRUE(memory.known_path(at(home, 1)));
  const auto before = memory.changes();
  memory.doubt_path("wwan0 26202", at(home, 2).place.prefix);
  EXPECT_EQ(memory.changes(), before);
  memory.doubt_path("wwan0 26201", at(home, 2).place.prefix);
  EXPECT_GT(memory.changes(), before);
  EXPECT_FALSE(memory.known_path(at(home, 2)));
  EXPECT_FALSE(memory.known_path(at(cafe, 2)));
  EXPECT_FALSE(memory.path_failed("wwan0 26201", at(home, 2).place.prefix, now)) << "a doubt is no failure";
  for (unsigned part = 1; part <= 3; ++part)
    for (int twice = 0; twice < 2; ++twice)
      memory.path_found("wwan0 26201", at(home, part).place.prefix, false, now);
  EXPECT_TRUE(memory.known_paths().empty()) << "it is the cellular network";
}

TEST_F(KnownPaths, AreForgottenOnDemand)
{
  memory.path_known(at(home, 1), added);
  memory.path_known(at(cafe, 1), added);
  EXPECT_EQ(memory.forget("home"), 1u);
  EXPECT_FALSE(memory.known_path(at(home, 1)));
  EXPECT_TRUE(memory.known_path(at(cafe, 1)));
  EXPECT_EQ(memory.forget("wwan0"), 1u) << "no path by it failed";
  EXPECT_TRUE(memory.known_paths().empty());
  memory.path_known(at(cafe, 1), added);
  EXPECT_EQ(memory.forget_all(), 2u);
  EXPECT_TRUE(memory.known_paths().empty());
}

TEST_F(KnownPaths, AreBoundedAndTheOldestGo)
{
  Memory small { { .paths = 8 } };
  const auto network = small.recognize({ "home", "", false }, now);
  for (unsigned part = 0; part < 200; ++part)
    small.path_known(at(network, part, now + part), added);
  EXPECT_EQ(small.known_paths().size(), 8u);
  EXPECT_EQ(small.forgotten().paths, 192u);
  EXPECT_TRUE(small.known_path(at(network, 199, now + 199)));
  EXPECT_FALSE(small.known_path(at(network, 150, now + 199)));
}

TEST_F(KnownPaths, GoWithANetworkThatTurnsOutToBeAnother)
{
  Memory two {};
  const auto by_gateway = two.recognize({ "", "02:00:00:00:00:03", true }, now);
  const auto by_name = two.recognize({ "work", "", false }, now);
  two.path_known(at(by_gateway, 1), added);
  EXPECT_EQ(two.recognize({ "work", "02:00:00:00:00:03", true }, now), by_name);
  EXPECT_TRUE(two.known_paths().empty()) << "it is validated anew";
}

// ---- access points that keep frames ----

struct AccessPoints : ::testing::Test
{
  void found(bool kept, int times = 1, WallTime when = now)
  {
    for (int i = 0; i < times; ++i)
      memory.frames_kept(home, first, kept, when);
  }
  bool keeps(WallTime when = now) const { return memory.keeps_frames(home, first, when); }

  Memory memory {};
  std::uint32_t home = memory.recognize({ "home", "02:00:00:00:00:01", true }, now);
  std::uint32_t cafe = memory.recognize({ "cafe", "02:00:00:00:00:02", true }, now);
  const std::string first = "02:00:00:00:01:01", second = "02:00:00:00:01:02";
};

TEST_F(AccessPoints, AreKnownAfterOneBlackoutEachForItself)
{
  EXPECT_FALSE(keeps());
  found(true);
  EXPECT_TRUE(keeps());
  EXPECT_FALSE(memory.keeps_frames(home, second, now)) << "another one of the same network";
  EXPECT_FALSE(memory.keeps_frames(cafe, first, now)) << "another network";
}

TEST_F(AccessPoints, AreUnlearntAtOnceAndBelievedMoreSlowlyEachTime)
{
  found(true, 20);
  found(false);
  EXPECT_FALSE(keeps()) << "however often it had";
  found(true);
  EXPECT_FALSE(keeps());
  found(true);
  EXPECT_TRUE(keeps());
  found(false);
  found(true, 2);
  EXPECT_FALSE(keeps());
  found(false); // nobody had relied on it: no more doubt than before
  found(true, 3);
  EXPECT_TRUE(keeps());
  for (int i = 0; i < 20; ++i)
  {
    found(true, KeptFrames::most + 1);
    EXPECT_TRUE(keeps()) << "never out of reach";
    found(false);
  }
}

TEST_F(AccessPoints, ThatWereNeverKnownToKeepFramesTakeNoRoom)
{
  found(false, 3);
  memory.frames_kept(0, first, true, now);
  memory.frames_kept(home, "", true, now);
  EXPECT_TRUE(memory.access_points().empty());
}

TEST_F(AccessPoints, CountForAMonth)
{
  found(true);
  EXPECT_TRUE(keeps(now + KeptFrames::lasts - 1));
  EXPECT_FALSE(keeps(now + KeptFrames::lasts));
  EXPECT_FALSE(keeps(now - 86'400)) << "the clock was set back";
  found(false);
  found(true, 1, now + KeptFrames::lasts);
  EXPECT_TRUE(keeps(now + KeptFrames::lasts)) << "nor does an old doubt last";
}

TEST_F(AccessPoints, AreForgottenWithTheirNetwork)
{
  found(true);
  memory.frames_kept(cafe, first, true, now);
  EXPECT_EQ(memory.forget("home"), 1u);
  EXPECT_FALSE(keeps());
  EXPECT_TRUE(memory.keeps_frames(cafe, first, now));
  memory.forget_all();
  EXPECT_TRUE(memory.access_points().empty());
}

TEST_F(AccessPoints, OfWhomeverTheyClaimToBeAreBounded)
{
  Memory small { { .access_points = 8 } };
  const auto network = small.recognize({ "home", "", false }, now);
  for (unsigned i = 0; i < 5000; ++i)
    small.frames_kept(network, std::to_string(i), true, now + i);
  EXPECT_EQ(small.access_points().size(), 8u);
  EXPECT_EQ(small.forgotten().access_points, 4992u);
  EXPECT_TRUE(small.keeps_frames(network, "4999", now + 5000));
}

TEST(Memory, ForgettingANetworkForgetsNoCellularPath)
{
  Memory memory {};
  const auto home = memory.recognize({ "home", "02:00:00:00:00:01", true }, now);
  feed(memory, { home, "wwan0", {} }, "offload", -0.3, 30);
  const Prefix servers = prefix_of(v4(10, 1, 2, 3));
  memory.path_found("wwan0", servers, false, now);
  memory.path_found("usb0", servers, false, now);
  EXPECT_EQ(memory.cells(), (std::vector<std::string> { "usb0", "wwan0" }));
  const auto before = memory.changes();
  EXPECT_EQ(memory.forget("wwan"), 0u);
  EXPECT_EQ(memory.changes(), before);
  EXPECT_EQ(memory.forget("wwan0"), 1u);
  EXPECT_GT(memory.changes(), before) << "the file is to forget it, too";
  EXPECT_FALSE(memory.path_failed("wwan0", servers, now));
  EXPECT_TRUE(memory.path_failed("usb0", servers, now));
  EXPECT_EQ(memory.standing({ home, "wwan0", {} }, "offload", now), Standing::resting);
  EXPECT_EQ(memory.forget("home"), 1u);
  EXPECT_TRUE(memory.path_failed("usb0", servers, now));
  EXPECT_EQ(memory.forget_all(), 1u);
  EXPECT_TRUE(memory.paths().empty());
}

// ---- cellular paths ----

TEST(Paths, OneThatFailedIsNotTriedByEveryFlow)
{
  Memory memory {};
  const Prefix servers = prefix_of(v4(10, 1, 2, 3));
  EXPECT_FALSE(memory.path_failed("wwan0", servers, now));
  memory.path_found("wwan0", servers, false, now);
  EXPECT_TRUE(memory.path_failed("wwan0", servers, now + 10));
  EXPECT_FALSE(memory.path_failed("wwan0", servers, now + 61)) << "it is tried again";
  EXPECT_FALSE(memory.path_failed("wwan0", prefix_of(v4(10, 1, 3, 3)), now + 10));
  EXPECT_FALSE(memory.path_failed("wwan1", servers, now + 10));
  memory.path_found("wwan0", servers, false, now + 61);
  EXPECT_TRUE(memory.path_failed("wwan0", servers, now + 61 + 100)) << "for longer each time";
  memory.path_found("wwan0", servers, true, now + 200);
  EXPECT_FALSE(memory.path_failed("wwan0", servers, now + 201));
}

TEST(Paths, SeveralThatFailedStandForTheCellularNetwork)
{
  Memory memory {};
  const Prefix other = prefix_of(v4(172, 16, 1, 1));
  for (unsigned i = 0; i < 3; ++i)
  {
    EXPECT_FALSE(memory.path_failed("wwan0", other, now));
    memory.path_found("wwan0", prefix_of(v4(10, 1, i, 3)), false, now);
    memory.path_found("wwan0", prefix_of(v4(10, 1, i, 9)), false, now); // the same part again
  }
  EXPECT_TRUE(memory.path_failed("wwan0", other, now));
  memory.path_found("wwan0", other, true, now);
  EXPECT_FALSE(memory.path_failed("wwan0", other, now));
  EXPECT_FALSE(memory.path_failed("wwan0", prefix_of(v4(192, 168, 1, 1)), now));
}

TEST(Paths, OfTwoOperatorsBehindOneInterfaceAreTwo)
{
  Memory memory {};
  const Prefix servers = prefix_of(v4(10, 1, 2, 3));
  memory.path_found("wwan0", servers, false, now); // of an older version
  EXPECT_FALSE(memory.path_failed("wwan0 26201", servers, now)) << "nobody knows whose that was";
  memory.path_found("wwan0 26201", servers, false, now);
  EXPECT_TRUE(memory.path_failed("wwan0 26201", servers, now));
  EXPECT_FALSE(memory.path_failed("wwan0 26202", servers, now));
  memory.path_found("wwan0 26202", servers, true, now);
  EXPECT_TRUE(memory.path_failed("wwan0 26201", servers, now)) << "what works with one says nothing of the other";

  memory.path_found("wwan0 26202", servers, false, now);
  memory.path_found("wwan1 26201", servers, false, now);
  EXPECT_EQ(memory.forget("wwan0 26201"), 1u);
  EXPECT_TRUE(memory.path_failed("wwan0 26202", servers, now));
  EXPECT_EQ(memory.forget("wwan0"), 2u) << "whatever the operator";
  EXPECT_EQ(memory.cells(), (std::vector<std::string> { "wwan1 26201" }));
}

TEST(Paths, SayForHowLongStillTheyAreNotTried)
{
  Memory memory {};
  const Prefix servers = prefix_of(v4(10, 1, 2, 3));
  for (int i = 0; i < 40; ++i)
    memory.path_found("wwan0", servers, false, now);
  const PathNote& note = memory.paths().at({ "wwan0", servers });
  EXPECT_EQ(note.failures, 16);
  EXPECT_EQ(note.rests(now), PathNote::longest_rest);
  EXPECT_EQ(note.rests(now + 100), PathNote::longest_rest - 100);
  EXPECT_EQ(note.rests(now + PathNote::longest_rest), 0);
  EXPECT_EQ(note.rests(now - 1), 0) << "with a clock set back";
  EXPECT_EQ(memory.paths().at({ "wwan0", {} }).rests(now), 0) << "one failed group is not all";
}

// Else one failure of a cell without coverage has all servers wait for hours.
TEST(Paths, FailuresOfLongAgoAreNoEvidence)
{
  Memory memory {};
  const Prefix servers = prefix_of(v4(10, 1, 2, 3)), others = prefix_of(v4(10, 1, 3, 3));
  for (unsigned i = 0; i < 12; ++i)
  {
    memory.path_found("wwan0", servers, false, now);
    memory.path_found("wwan0", prefix_of(v4(10, 2, i, 3)), false, now);
  }
  const WallTime later = now + Tally::lasts + 1;
  memory.path_found("wwan0", servers, false, later);
  EXPECT_TRUE(memory.path_failed("wwan0", servers, later));
  EXPECT_FALSE(memory.path_failed("wwan0", servers, later + 61)) << "the first failure";
  memory.path_found("wwan0", prefix_of(v4(10, 3, 1, 3)), false, later);
  EXPECT_FALSE(memory.path_failed("wwan0", others, later)) << "two failed groups are not all";
}

TEST(Paths, AClockSetBackEndsANote)
{
  Memory memory {};
  const Prefix servers = prefix_of(v4(10, 1, 2, 3));
  memory.path_found("wwan0", servers, false, now);
  EXPECT_FALSE(memory.path_failed("wwan0", servers, now - 365 * 24 * 3600));
}

} // namespace
} // namespace tandem::evidence
