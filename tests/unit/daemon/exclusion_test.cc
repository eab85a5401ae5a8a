// What may be excluded, what that means for a peer, a user, a service and a network, and the file it is kept in.
#include "src/daemon/exclusion.h"
#include "src/daemon/exclusions_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace tandem::daemon
{
namespace
{

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = Exclusion::Kind;

std::string read(Kind kind, std::string_view what)
{
  const auto one = parse_exclusion(kind, what);
  return one ? one->what : "refused";
}

Address v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d)
{
  return { .bytes = { a, b, c, d } };
}

TEST(AnExclusion, IsWrittenInOneWay)
{
  EXPECT_EQ(read(Kind::to, "203.0.113.77/24"), "203.0.113.0/24");
  EXPECT_EQ(read(Kind::to, "203.0.113.7/32"), "203.0.113.7");
  EXPECT_EQ(read(Kind::to, "2001:DB8:0::1"), "2001:db8::1");
  EXPECT_EQ(read(Kind::to, "0.0.0.0/0"), "0.0.0.0/0");
  EXPECT_EQ(read(Kind::to, "Updates.Example.ORG."), "updates.example.org");
  EXPECT_EQ(read(Kind::to, "printer"), "printer");
  EXPECT_EQ(read(Kind::user, "0034"), "34");
  EXPECT_EQ(read(Kind::user, "backup"), "backup");
  EXPECT_EQ(read(Kind::service, "app-firefox-*.scope"), "app-firefox-*.scope");
  EXPECT_EQ(read(Kind::ssid, "Caf\xc3\xa9 \"1\""), "Caf\xc3\xa9 \"1\"");
  EXPECT_EQ((Exclusion { Kind::to, "203.0.113.0/24" }.text()), "to 203.0.113.0/24");
}

TEST(AnExclusion, IsRefusedWhereItIsNone)
{
  for (const char* wrong : { "", ".", "203.0.113.0/33", "203.0.113.300", "10", "1.2.3", "a b", "-a.example",
                             "a-.example", "a..b", "2001:db8::/129", "example.org/24", "h\xc3\xb6st" })
    EXPECT_EQ(read(Kind::to, wrong), "refused") << wrong;
  for (const char* wrong : { "", "-1", "4294967295", "4294967296", "1x", "a b", "a/b", "a\"" })
    EXPECT_EQ(read(Kind::user, wrong), "refused") << wrong;
  for (const char* wrong : { "", ".", "..", "*", "**", "a/b", "a b", "\n" })
    EXPECT_EQ(read(Kind::service, wrong), "refused") << wrong;
  EXPECT_EQ(read(Kind::ssid, ""), "refused");
  EXPECT_EQ(read(Kind::ssid, std::string(33, 'x')), "refused");
  for (const Kind kind : { Kind::to, Kind::user, Kind::service, Kind::ssid })
  {
    EXPECT_EQ(exclusion_kind(name(kind)), kind);
    EXPECT_THAT(std::string { needed(kind) }, HasSubstr("needed"));
  }
  EXPECT_EQ(exclusion_kind("port"), std::nullopt);
}

const std::vector<Exclusion> some { { Kind::ssid, "Office" },
                                    { Kind::to, "203.0.113.0/24" },
                                    { Kind::to, "updates.example.org" },
                                    { Kind::user, "34" },
                                    { Kind::user, "alice" },
                                    { Kind::service, "quiet.slice" },
                                    { Kind::service, "app-*.scope" },
                                    { Kind::to, "203.0.113.0/24" } };

std::string text(const Exclusion* one)
{
  return one ? one->text() : "nobody";
}

TEST(WhatIsExcluded, IsFoundByPeerUserServiceAndNetwork)
{
  Exclusions all { some };
  EXPECT_EQ(all.all().size(), 7u) << "each once";
  EXPECT_EQ(text(all.of_peer(v4(203, 0, 113, 9))), "to 203.0.113.0/24");
  EXPECT_EQ(text(all.of_peer(v4(203, 0, 114, 9))), "nobody");
  EXPECT_EQ(text(all.of_user(34)), "user 34");
  EXPECT_EQ(text(all.of_user(35)), "nobody");
  EXPECT_EQ(text(all.of_ssid("Office")), "ssid Office");
  EXPECT_EQ(text(all.of_ssid("office")), "nobody");
  EXPECT_EQ(text(all.of_cgroup("/user.slice/quiet.slice/run-7.scope")), "service quiet.slice");
  EXPECT_EQ(text(all.of_cgroup("/user.slice/app-firefox-12.scope")), "service app-*.scope");
  EXPECT_EQ(text(all.of_cgroup("/user.slice/app-firefox-12.scope.d")), "nobody") << "the whole of a component";
  EXPECT_EQ(text(all.of_cgroup("/")), "nobody");
  EXPECT_TRUE(all.asks_user() && all.asks_cgroup() && all.asks_ssid());
  EXPECT_EQ(text(Exclusions {}.of_peer({})), "nobody");
}

TEST(WhatIsExcluded, NamesCountOnceTheyAreResolvedAndAddressesAreKept)
{
  Exclusions all { some };
  const Exclusion host { Kind::to, "updates.example.org" }, user { Kind::user, "alice" };
  EXPECT_THAT(all.host_names(), ElementsAre("updates.example.org"));
  EXPECT_THAT(all.user_names(), ElementsAre("alice"));
  EXPECT_EQ(all.problem(host), "is being looked up");
  EXPECT_EQ(all.problem(user), "is being looked up");
  EXPECT_TRUE(all.resolved({ .hosts = { { host.what, {} } } })) << "that it has none is news";
  EXPECT_EQ(all.problem(host), "has no address that can be found");
  EXPECT_EQ(all.problem(user), "no such user");
  const ResolvedNames found { .hosts = { { host.what, { v4(198, 51, 100, 7) } } }, .users = { { "alice", 1000 } } };
  EXPECT_TRUE(all.resolved(found));
  EXPECT_FALSE(all.resolved(found)) << "nothing new";
  EXPECT_EQ(all.problem(host), "");
  EXPECT_EQ(all.problem(user), "");
  EXPECT_EQ(text(all.of_user(1000)), "user alice");
  EXPECT_TRUE(all.resolved({ .hosts = { { host.what, { v4(198, 51, 100, 8) } } } }));
  EXPECT_EQ(text(all.of_peer(v4(198, 51, 100, 7))), host.text()) << "who balances load answers differently each time";
  EXPECT_EQ(text(all.of_peer(v4(198, 51, 100, 8))), host.text());
  ResolvedNames many {};
  for (std::uint8_t i = 0; i < 2 * Exclusions::most_addresses; ++i)
    many.hosts[host.what].push_back(v4(192, 0, 2, i));
  static_cast<void>(all.resolved(many));
  EXPECT_EQ(all.networks().size(), 1 + Exclusions::most_addresses);
  EXPECT_EQ(text(all.of_peer(v4(198, 51, 100, 7))), "nobody");
}

TEST(WhatIsExcluded, AUserMayBeThereByNameAndByNumber)
{
  const Exclusion number { Kind::user, "1000" }, name { Kind::user, "alice" }, same { Kind::user, "alice@example" };
  Exclusions all { { number, name, same } };
  EXPECT_EQ(all.problem(name), "is being looked up");
  static_cast<void>(all.resolved({ .users = { { "alice", 1000 }, { "alice@example", 1000 } } }));
  EXPECT_EQ(text(all.of_user(1000)), "user 1000");
  for (const Exclusion& one : { number, name, same })
    EXPECT_EQ(all.problem(one), "") << one.text();
  Exclusions after { { name, same } };
  after.inherit(all);
  EXPECT_NE(after.of_user(1000), nullptr) << "who is excluded by name still is, at once";
}

TEST(WhatIsExcluded, KeepsWhatItKnowsThroughAChange)
{
  Exclusions before { some };
  static_cast<void>(before.resolved(
      { .hosts = { { "updates.example.org", { v4(198, 51, 100, 7) } } }, .users = { { "alice", 1000 } } }));
  Exclusions after { { { Kind::to, "updates.example.org" }, { Kind::to, "other.example" }, { Kind::user, "alice" } } };
  after.inherit(before);
  EXPECT_EQ(text(after.of_peer(v4(198, 51, 100, 7))), "to updates.example.org");
  EXPECT_EQ(text(after.of_peer(v4(203, 0, 113, 9))), "nobody");
  EXPECT_EQ(text(after.of_user(1000)), "user alice");
  EXPECT_EQ(after.problem({ Kind::to, "other.example" }), "is being looked up");
}

const SavedExclusions kept { { { Kind::to, "203.0.113.0/24" }, 1'700'000'000 },
                             { { Kind::ssid, "Caf\xe9 \"1\"" }, 1 } };

TEST(SavedExclusions, NothingOfADamagedTextIsUsed)
{
  const SavedExclusions ascii { { { Kind::to, "203.0.113.0/24" }, 1'700'000'000 }, { { Kind::ssid, "a \"1\"" }, 1 } };
  std::string whole = exclusions_text(ascii);
  SavedExclusions again {};
  EXPECT_EQ(read_exclusions(whole, again), "");
  EXPECT_EQ(again, ascii);
  whole.pop_back(); // without the last line break it is still whole
  SavedExclusions none {};
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(read_exclusions(whole.substr(0, length), none), "") << length;
  const auto with = [](const std::string& list) { return R"({"tandem-exclusions": 1, "exclusions": )" + list + "}"; };
  ASSERT_EQ(read_exclusions(with("[]"), none), "");
  for (const char* wrong :
       { R"({})", R"([1])", R"([{"kind": "to", "what": "10.0.0.0/8"}])",
         R"([{"kind": "port", "what": "22", "at_s": 1}])", R"([{"kind": "to", "what": "10.0.0.0/99", "at_s": 1}])",
         R"([{"kind": "to", "what": 10, "at_s": 1}])",
         R"([{"kind": "to", "what": "10.0.0.0/8", "at_s": 1, "more": 1}])" })
    EXPECT_NE(read_exclusions(with(wrong), none), "") << wrong;
  EXPECT_THAT(none, IsEmpty());
  EXPECT_THAT(read_exclusions(R"({"tandem-exclusions": 2, "exclusions": []})", none), HasSubstr("is of version 2"));
}

TEST(SavedExclusions, AreOnDiskAsTheyWere)
{
  std::string directory = testing::TempDir() + "exclusions-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  ExclusionsFile file { directory };
  EXPECT_THAT(file.load(), IsEmpty());
  EXPECT_TRUE(file.save(kept)) << file.problem();
  const SavedExclusions again = ExclusionsFile { directory }.load();
  EXPECT_EQ(again.size(), 2u);
  EXPECT_TRUE(again.contains({ Kind::to, "203.0.113.0/24" }));
  std::ofstream { file.path() } << "torn";
  ExclusionsFile torn { directory };
  EXPECT_THAT(torn.load(), IsEmpty());
  EXPECT_THAT(torn.problem(), HasSubstr("Tandem runs without saved exclusions"));
}

// The packet thread is busy, and whoever asked reads that nothing was changed.
TEST(SavedExclusions, AreAsTheyWereWhenNewOnesDoNotComeIntoForce)
{
  std::string directory = testing::TempDir() + "exclusions-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  ExclusionsFile file { directory };
  const SavedExclusions before { { { Kind::to, "203.0.113.0/24" }, 1 } };
  SavedExclusions fresh = before;
  fresh.emplace(Exclusion { Kind::to, "198.51.100.0/24" }, 1);
  ASSERT_TRUE(file.save(before)) << file.problem();
  EXPECT_THROW(file.save(fresh, before, [] { throw std::runtime_error { "busy" }; }), std::runtime_error);
  EXPECT_EQ(ExclusionsFile { directory }.load(), before);
  SavedExclusions in_force {};
  EXPECT_TRUE(file.save(fresh, before, [&] { in_force = fresh; }));
  EXPECT_EQ(ExclusionsFile { directory }.load(), in_force);
}

} // namespace
} // namespace tandem::daemon
