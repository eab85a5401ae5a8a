// When names are looked up, and which flows count as left alone.
#include "src/daemon/exclusion_driver.h"
#include "src/kernel/clock.h"
#include "tests/golden/harness/fixture.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::daemon
{
namespace
{

using namespace test;

// Name servers that answer when they are let, and the packet thread's mailbox.
class Servers
{
public:
  ResolvedNames look_up(const std::vector<std::string>& hosts)
  {
    std::unique_lock lock { mutex_ };
    asked_.push_back(hosts.front());
    changed_.wait(lock, [this] { return answer_; });
    ResolvedNames found {};
    for (const std::string& host : hosts)
      found.hosts[host] = addresses_;
    return found;
  }
  void post(std::function<void()> work)
  {
    const std::lock_guard lock { mutex_ };
    posted_.push_back(std::move(work));
    changed_.notify_all();
  }

  void answer(bool on)
  {
    const std::lock_guard lock { mutex_ };
    answer_ = on;
    changed_.notify_all();
  }
  void know(const Address& address)
  {
    const std::lock_guard lock { mutex_ };
    addresses_ = { address };
  }
  // Waits for one answer and takes it in.
  void take_answer()
  {
    std::unique_lock lock { mutex_ };
    ASSERT_TRUE(changed_.wait_for(lock, 10s, [this] { return !posted_.empty(); }));
    const auto work = std::move(posted_.front());
    posted_.erase(posted_.begin());
    lock.unlock();
    work();
  }
  // For which names, in turn.
  std::vector<std::string> asked()
  {
    const std::lock_guard lock { mutex_ };
    return asked_;
  }

private:
  std::mutex mutex_ {};
  std::condition_variable changed_ {};
  bool answer_ = true;
  std::vector<std::string> asked_ {};
  std::vector<Address> addresses_ {};
  std::vector<std::function<void()>> posted_ {};
};

class ExclusionDrivers : public testing::Test
{
protected:
  ExclusionDrivers() { fixture.see_everything = true; }

  Address server() const { return key_v4().remote; }
  // How often the name was looked up so far: questions are put in their order, so it is told by when another one is.
  long times_asked(Tick now)
  {
    driver.assign({ { Exclusion::Kind::to, "last.example" } }, now);
    const Tick soon = kernel::now() + 10s;
    for (auto all = servers.asked(); kernel::now() < soon; all = servers.asked())
    {
      if (!all.empty() && all.back() == "last.example") return static_cast<long>(all.size()) - 1;
      driver.look(now);
      std::this_thread::yield();
    }
    return -1;
  }

  Servers servers {};
  Fixture fixture { {} };
  ChainInputs inputs { fixture.chain, nullptr };
  int changes = 0;
  std::string network_unknown {};
  ExclusionDriver driver { fixture.chain, inputs, [this](std::function<void()> work) { servers.post(std::move(work)); },
                           [this] { ++changes; },
                           ExclusionDriver::Host { .owner_of = [](const FlowKey&) { return std::nullopt; },
                                                   .tunnel = [](const FlowKey&) { return std::string {}; },
                                                   .network_unknown = [this] { return network_unknown; },
                                                   .look_up = [this](const std::vector<std::string>& hosts, const auto&)
                                                   { return servers.look_up(hosts); } } };
  const std::vector<Exclusion> name { { Exclusion::Kind::to, "updates.example.org" } };
  links::LinkInfo home { .interface = "wlan0",
                         .ifindex = 1,
                         .addresses = { { .bytes = { 192, 0, 2, 1 } } },
                         .gateway_v4 = Address { .bytes = { 192, 0, 2, 254 } } };
};

TEST_F(ExclusionDrivers, LookNamesUpAgainInAnotherNetworkAndOnlyThere)
{
  driver.assign(name, Tick { 10s }); // the machine has just started: no network yet
  servers.take_answer();
  EXPECT_EQ(driver.known().of_peer(server()), nullptr);
  servers.know(server());
  driver.look(Tick { 20s });
  driver.links_changed(home);
  driver.look(Tick { 25s });
  servers.take_answer();
  EXPECT_NE(driver.known().of_peer(server()), nullptr);
  for (int second = 26; second < 300; ++second)
  {
    driver.links_changed(home);
    driver.look(Tick { std::chrono::seconds { second } });
  }
  EXPECT_EQ(times_asked(Tick { 300s }), 2);
}

TEST_F(ExclusionDrivers, LookNamesUpAgainWhenTheyAreOld)
{
  driver.assign(name, Tick { 10s });
  servers.take_answer();
  driver.look(Tick { 310s });
  driver.look(Tick { 311s });
  servers.take_answer();
  EXPECT_EQ(times_asked(Tick { 312s }), 2);
}

TEST_F(ExclusionDrivers, AskAgainSoonForWhatWasNotFound)
{
  driver.assign(name, Tick { 10s }); // the network is there, its name servers are not yet
  servers.take_answer();
  driver.look(Tick { 21s });
  servers.take_answer();
  driver.look(Tick { 32s }); // not yet
  servers.know(server());
  driver.look(Tick { 42s });
  servers.take_answer();
  EXPECT_NE(driver.known().of_peer(server()), nullptr);
  driver.look(Tick { 300s });
  EXPECT_EQ(times_asked(Tick { 301s }), 3);
}

TEST_F(ExclusionDrivers, AskForNamesOneAtATime)
{
  servers.answer(false);
  driver.assign(name, Tick { 10s });
  driver.links_changed(home);
  for (int second = 11; second < 1000; ++second)
    driver.look(Tick { std::chrono::seconds { second } });
  servers.answer(true);
  servers.take_answer();
  driver.look(Tick { 1000s });
  servers.take_answer();
  EXPECT_EQ(times_asked(Tick { 1001s }), 2) << "for what came meanwhile, once";
}

TEST_F(ExclusionDrivers, SayThatANetworkIsNotToldWhereItIsNot)
{
  driver.assign({ { Exclusion::Kind::ssid, "Home" }, { Exclusion::Kind::to, "192.0.2.0/24" } }, Tick { 10s });
  for (const auto& one : driver.json())
    EXPECT_EQ(one["problem"], "");
  network_unknown = "the driver does not tell";
  for (const auto& one : driver.json())
    EXPECT_EQ(one["problem"], one["kind"] == "ssid" ? network_unknown : "");
}

TEST_F(ExclusionDrivers, CountLivingFlowsOnly)
{
  driver.assign({ { Exclusion::Kind::to, "198.51.100.0/24" } }, fixture.now());
  Peers closes {}, goes { .key = key_v4(40001) };
  for (Peers* peers : { &closes, &goes })
  {
    fixture.open(*peers);
    driver.began(peers->key, fixture.now());
  }
  EXPECT_EQ(driver.flows_now(), 2u);
  fixture.chain.table().erase(fixture.flow(goes));
  EXPECT_EQ(driver.flows_now(), 1u);
  fixture.show(closes.bare(Direction::ingress, tcp_flag::rst | tcp_flag::ack, fixture.now()));
  EXPECT_EQ(driver.flows_now(), 0u);
  EXPECT_EQ(driver.in_tunnels_now(), 0u);
}

} // namespace
} // namespace tandem::daemon
