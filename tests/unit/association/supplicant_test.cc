// What is made of wpa_supplicant's answers, and of none. It is played, by datagrams on a socket of the test's own.
#include "src/association/supplicant.h"
#include "tests/unit/association/played_supplicant.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <thread>

namespace tandem::association
{
namespace
{

const std::map<std::string, std::string, std::less<>> there { { "PING", "PONG\n" },
                                                              { "IFNAME=wlan0 PING", "PONG\n" },
                                                              { "INTERFACES", "wlan0\n" } };

// Of the networks it says this.
std::map<std::string, std::string, std::less<>> telling(const std::string& networks)
{
  auto answers = there;
  answers["IFNAME=wlan0 LIST_NETWORKS"] = networks;
  return answers;
}

// Without this difference a wpa_supplicant that is busy for a moment takes every virtual station down.
TEST(Supplicant, NoAnswerIsNoEmptyListOfNetworks)
{
  const Played played { there };
  Supplicant supplicant { played.path() };
  ASSERT_TRUE(supplicant.present("wlan0"));
  EXPECT_FALSE(supplicant.networks("wlan0"));
  EXPECT_EQ(supplicant.problem(), "wpa_supplicant does not answer");
}

TEST(Supplicant, NorIsARefusal)
{
  const Played played { telling("FAIL\n") };
  Supplicant supplicant { played.path() };
  ASSERT_TRUE(supplicant.present("wlan0"));
  EXPECT_FALSE(supplicant.networks("wlan0"));
  EXPECT_NE(supplicant.problem(), "");
}

TEST(Supplicant, AnEmptyListIsOne)
{
  const Played played { telling("network id / ssid / bssid / flags\n") };
  Supplicant supplicant { played.path() };
  ASSERT_TRUE(supplicant.present("wlan0"));
  const auto networks = supplicant.networks("wlan0");
  ASSERT_TRUE(networks);
  EXPECT_TRUE(networks->empty());
  EXPECT_EQ(supplicant.problem(), "");
}

// wpa_supplicant's answers have at most 4096 bytes.
std::string page_after(int last, int networks)
{
  std::string page = "network id / ssid / bssid / flags\n";
  for (int id = last + 1; id < networks; ++id)
  {
    const std::string line = std::to_string(id) + "\tnetwork " + std::to_string(id) + "\tany\t[DISABLED]\n";
    if (page.size() + line.size() >= 4096) break;
    page += line;
  }
  return page;
}

TEST(Supplicant, ALongListIsAskedForToItsEnd)
{
  for (const bool knows_last_id : { true, false })
  {
    auto answers = there;
    const std::string question = "IFNAME=wlan0 LIST_NETWORKS";
    answers[question] = page_after(-1, 400);
    for (int last = 0; last < 400; ++last)
      answers[question + " LAST_ID=" + std::to_string(last)] = page_after(knows_last_id ? last : -1, 400);
    const Played played { answers };
    Supplicant supplicant { played.path() };
    ASSERT_TRUE(supplicant.present("wlan0"));
    const auto networks = supplicant.networks("wlan0");
    ASSERT_TRUE(networks);
    if (knows_last_id)
      EXPECT_EQ(networks->size(), 400u);
    else
      EXPECT_EQ(networks->size(), parse_networks(page_after(-1, 400)).size()) << "each once";
    for (std::size_t i = 0; i < networks->size(); ++i)
      EXPECT_EQ((*networks)[i].id, static_cast<int>(i));
  }
}

TEST(Supplicant, NoAnswerDoesNotSayThatSomebodyElseHasTheInterface)
{
  auto answers = there;
  answers.erase("INTERFACES");
  const Played played { answers };
  Supplicant supplicant { played.path() };
  ASSERT_TRUE(supplicant.present("wlan0"));
  EXPECT_FALSE(supplicant.has("wlan0"));
  EXPECT_EQ(supplicant.problem(), "wpa_supplicant does not answer");
}

// Answers of one that makes a station; all of the network is copied, or was not set.
std::map<std::string, std::string, std::less<>> making()
{
  auto answers = there;
  answers["IFNAME=tandem-sta0 ADD_NETWORK"] = "0\n";
  answers["DUP_NETWORK wlan0 tandem-sta0 3 0 eap"] = "FAIL\n"; // not set
  for (const std::string list : { "freq_list", "bssid_accept", "bssid_ignore", "bssid_whitelist", "bssid_blacklist" })
    answers["IFNAME=wlan0 GET_NETWORK 3 " + list] = "FAIL\n";
  return answers;
}

constexpr Mac its { 2, 0, 0, 0, 2, 1 };

TEST(Supplicant, WhatIsNotSetOfANetworkNeedNotBeCopied)
{
  const Played played { making(), "OK\n" };
  Supplicant supplicant { played.path() };
  ASSERT_TRUE(supplicant.present("wlan0"));
  EXPECT_EQ(supplicant.associate("tandem-sta0", "wlan0", { .id = 3, .ssid = "home" }, its, 2412), "");
}

// A station to which this word of the network cannot be copied does not begin, and says which one it was.
void without(const std::string& what)
{
  auto answers = making();
  answers["DUP_NETWORK wlan0 tandem-sta0 3 0 " + what] = "";
  const Played played { answers, "OK\n" };
  Supplicant supplicant { played.path() };
  ASSERT_TRUE(supplicant.present("wlan0"));
  const std::string why = supplicant.associate("tandem-sta0", "wlan0", { .id = 3, .ssid = "home" }, its, 2412);
  EXPECT_NE(why.find(what), why.npos) << why;
}

// Without its certificate and its name an access point of somebody else would be told the password.
TEST(Supplicant, AStationOfHalfANetworkDoesNotBegin)
{
  for (const char* what : { "ca_cert", "check_cert_subject", "domain_suffix_match2", "key_mgmt" })
    without(what);
}

// A station's interface begins with wpa_supplicant's defaults: without protected management frames, although the user
// requires them.
TEST(Supplicant, AStationsInterfaceRequiresWhatTheCardsDoes)
{
  const auto begun = [](const std::string& pmf, const std::string& taken)
  {
    auto answers = making();
    answers["IFNAME=wlan0 GET pmf"] = pmf;
    answers["IFNAME=wlan0 GET sae_pwe"] = "FAIL\n"; // before 2.10
    answers["IFNAME=tandem-sta0 SET pmf 2"] = taken;
    answers["IFNAME=tandem-sta0 SET pmf FAIL"] = "FAIL\n";
    const Played played { answers, "OK\n" };
    Supplicant supplicant { played.path() };
    EXPECT_TRUE(supplicant.present("wlan0"));
    return supplicant.associate("tandem-sta0", "wlan0", { .id = 3, .ssid = "home" }, its, 2412);
  };
  EXPECT_EQ(begun("2\n", "OK\n"), "");
  EXPECT_NE(begun("2\n", "FAIL\n").find("pmf"), std::string::npos);
  EXPECT_NE(begun("2\n", "").find("pmf"), std::string::npos);
  EXPECT_NE(begun("", "OK\n").find("pmf"), std::string::npos) << "it did not say";
  EXPECT_EQ(begun("FAIL\n", "FAIL\n"), "") << "one that does not know the word";
}

// Of one network the user may want a band, or not some access points. A station of Tandem's has a bssid and a channel
// of its own, and ROAM looks at none of it.
TEST(Supplicant, AnAccessPointThatTheUsersNetworkIsNotForIsLeftAlone)
{
  struct Case
  {
    const char *word, *value;
    bool wanted;
  };
  for (const auto& [word, value, wanted] :
       { Case { "freq_list", "5180 5200\n", false }, Case { "freq_list", "2412 5180\n", true },
         Case { "bssid_ignore", "02:00:00:00:02:01\n", false }, Case { "bssid_ignore", "02:00:00:00:02:02\n", true },
         Case { "bssid_blacklist", "02:00:00:00:00:00/ff:ff:ff:00:00:00\n", false },
         Case { "bssid_accept", "02:00:00:00:02:02\n", false }, Case { "bssid_whitelist", "02:00:00:00:02:01\n", true },
         Case { "bssid_accept", "", false } }) // it did not say
  {
    auto answers = making();
    answers[std::string { "IFNAME=wlan0 GET_NETWORK 3 " } + word] = value;
    answers["IFNAME=wlan0 STATUS"] = "bssid=02:00:00:00:02:09\nssid=home\nid=3\nwpa_state=COMPLETED\n";
    const Played played { answers, "OK\n" };
    Supplicant supplicant { played.path() };
    ASSERT_TRUE(supplicant.present("wlan0"));
    for (const std::string& why :
         { supplicant.associate("tandem-sta0", "wlan0", { .id = 3, .ssid = "home" }, its, 2412),
           supplicant.roam("wlan0", its, 2412) })
    {
      EXPECT_EQ(why.empty(), wanted) << word << " " << value << why;
      EXPECT_TRUE(wanted || why.find(word) != why.npos) << why;
    }
  }
}

// Opportunistic encryption alone, a key of its access points, ciphers: what a station of half a network would go below.
TEST(Supplicant, AStationIsNoMoreTrustingThanTheCard)
{
  for (const char* what : { "owe_only", "sae_pk", "openssl_ciphers" })
    without(what);
}

// Certificates on a card or in a TPM (wpa_supplicant.conf(5)): without them that of the server is checked by nobody.
TEST(Supplicant, AStationChecksServersByTheEnginesCertificates)
{
  for (const char* what : { "engine", "engine_id", "ca_cert_id", "engine2", "engine2_id", "ca_cert2_id" })
    without(what);
}

// One that was killed leaves its socket; the one after it is NetworkManager's, without a global one.
TEST(Supplicant, ASocketThatNobodyListensToDoesNotHideTheNextOne)
{
  const Played played {
    { { "PING", "PONG\n" }, { "STATUS", "wpa_state=SCANNING\n" }, { "ROAM 02:00:00:00:00:01", "OK\n" } },
    {},
    "wpa_supplicant/wlan0"
  };
  const std::string stale = played.directory() + "/wpa_supplicant-global";
  {
    const kernel::Fd socket { ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
    sockaddr_un at {};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, stale.c_str(), stale.size());
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  }
  Supplicant supplicant { "auto", { played.directory() } };
  ASSERT_TRUE(supplicant.present("wlan0")) << supplicant.problem();
  EXPECT_FALSE(supplicant.global());
  EXPECT_TRUE(supplicant.has("wlan0"));
  EXPECT_EQ(supplicant.roam("wlan0", { 2, 0, 0, 0, 0, 1 }, 2412), "");

  Supplicant alone { "auto", { played.directory() } };
  EXPECT_FALSE(alone.present("wlan1"));
  EXPECT_NE(alone.problem().find("does it run, with -g " + stale), std::string::npos) << alone.problem();
}

// Debian's directory of sockets is closed to who is not in the group netdev, who does not even see what is in it.
TEST(Supplicant, ADirectoryThatIsClosedToUsIsNotAnEmptyOne)
{
  if (::geteuid() == 0 && ::seteuid(65534) != 0) GTEST_SKIP() << "nothing is closed to root";
  std::array<char, 32> run { "/tmp/tandem-wpa-XXXXXX" };
  ASSERT_NE(::mkdtemp(run.data()), nullptr);
  const std::string directory = std::string { run.data() } + "/wpa_supplicant";
  ASSERT_EQ(::mkdir(directory.c_str(), 0), 0);
  Supplicant supplicant { "auto", { run.data() } };
  EXPECT_FALSE(supplicant.present("wlan0"));
  EXPECT_NE(supplicant.problem().find("must be in the group"), std::string::npos) << supplicant.problem();
  EXPECT_EQ(::chmod(directory.c_str(), 0700), 0);
  EXPECT_EQ(::seteuid(::getuid()), 0);
  std::filesystem::remove_all(run.data());
}

} // namespace
} // namespace tandem::association
