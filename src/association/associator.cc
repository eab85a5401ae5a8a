#include "src/association/associator.h"

#include "src/feeder/feeder_json.h"
#include "src/kernel/clock.h"
#include "src/kernel/interface_setting.h"

#include <net/if.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace tandem::association
{
namespace
{

using namespace std::chrono_literals;
using nlohmann::json;

constexpr Duration period = 1s;
// Authentication, association and keys; EAP takes some seconds.
constexpr Duration association_limit = 20s;
// An access point that restarts, or a blackout, comes back within that.
constexpr Duration lost_limit = 10s;
constexpr Duration scan_period = 10s, scan_period_full = 30s, scan_period_all = 60s;
// Above what network managers give to their routes: only who binds to the interface leaves by it.
constexpr std::uint32_t first_metric = 8484;

// IEEE 802.11-2016, 17.3.8.4.2 and annex E; 0 beyond these bands.
unsigned channel_of(unsigned frequency)
{
  if (frequency == 2484) return 14;
  if (frequency > 2407 && frequency < 2484) return (frequency - 2407) / 5;
  if (frequency > 5000 && frequency < 5925) return (frequency - 5000) / 5;
  return frequency > 5950 && frequency < 7125 ? (frequency - 5950) / 5 : 0;
}

} // namespace

Associator::Associator(AssociatorOptions options, std::function<Surroundings()> surroundings, Announce announce,
                       Away away, Say say)
    : options_ { std::move(options) }, surroundings_ { std::move(surroundings) }, announce_ { std::move(announce) },
      away_ { std::move(away) }, say_ { std::move(say) }, supplicant_ { options_.supplicant }, arp_ { options_.note },
      asleep_ { kernel::time_asleep() }, thread_ { [this] { run(); } }
{
}

Associator::~Associator()
{
  {
    const std::lock_guard guard { mutex_ };
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Associator::run()
{
  clear();
  std::unique_lock lock { mutex_ };
  while (!ends_)
  {
    const auto called = [this] { return ends_ || !work_.empty() || roam_wished_ != wanted_; };
    const Tick look_next = std::min(looked_ + period, roam_next_);
    bool called_now = true;
    if (active())
      called_now = changed_.wait_for(
          lock, std::clamp<Duration>(std::min(look_next, turn_next_) - kernel::now(), 0s, period), called);
    else
      changed_.wait(lock, called);
    if (ends_) break;
    std::deque<Work> work = std::exchange(work_, {});
    wanted_ = roam_wished_;
    lock.unlock();
    // A turn between channels is due more often, and needs to know less.
    if (called_now || kernel::now() >= look_next)
      look();
    else
      take_turns();
    for (const Work& one : work)
      one();
    lock.lock();
  }
  lock.unlock();
  clear();
}

// All stations there are, of this run or of one that was killed.
void Associator::clear()
{
  made_.clear();
  take_turns();
  for (const std::string& name : card_.made())
  {
    supplicant_.release(name);
    card_.remove(name);
  }
  arp_.restore();
  arp_.recover();
}

Situation Associator::situation(const Surroundings& around)
{
  Situation now { .now = kernel::now(), .interface = around.wifi, .most = keep_.most };
  if (around.wifi.empty())
    problem_ = "there is no Wi-Fi interface";
  else if (view_ = card_.look(around.wifi); !view_)
    problem_ = card_.problem();
  else if (!supplicant_.present(around.wifi))
    problem_ = supplicant_.problem();
  else if (!supplicant_.has(around.wifi))
    problem_ = !supplicant_.problem().empty()
                   ? supplicant_.problem()
                   : "wpa_supplicant does not know " + around.wifi + ": something else connects it";
  else if (auto known = supplicant_.networks(around.wifi))
    networks_ = std::move(*known);
  else
    problem_ = supplicant_.problem(); // which is not to say that it knows none
  now.seen = view_.has_value() || around.wifi.empty();
  if (!view_) return now;

  now.heard = view_->heard;
  now.own = view_->ap;
  if (problem_.empty()) now.networks = names_to_join(networks_, around.excluded);
  now.cannot = problem_;
  if (problem_.empty() && !supplicant_.global())
    now.cannot = "wpa_supplicant has no global control socket (-g), by which stations are added";
  if (view_->stations < 2)
    now.cannot = "the card or its driver can be at one access point only";
  else if (made_.size() + 1 >= view_->stations)
    now.cannot = "the card or its driver can be at " + std::to_string(view_->stations) + " access points";
  if (view_->channels_apart < 2)
    now.one_channel = "the card or its driver can be on one channel at a time";
  else if (!keep_.several_channels)
    now.one_channel = "stations on several channels take turns; `tandem aps keep N --several-channels` does that";
  else
  {
    now.channels = view_->channels_apart;
    now.most_apart = view_->stations_apart;
  }
  return now;
}

void Associator::look()
{
  const Surroundings around = surroundings_();
  problem_.clear();
  if (around.wifi != interface_)
    while (!made_.empty())
      leave(made_.begin()->first, "another interface is the Wi-Fi link now");
  interface_ = around.wifi;
  view_.reset();
  count_sleep();
  Situation now = situation(around);

  std::vector<std::pair<std::string, std::string>> ended {};
  for (auto& [name, made] : made_)
  {
    const auto its = card_.association(name);
    std::string end {};
    follow(name, made, its, end);
    if (!end.empty())
    {
      chooser_.failed(made.ap, now.now, end);
      ended.emplace_back(name, end);
      continue;
    }
    now.stations.push_back({ name, made.ap, its.has_value(), its ? its->signal : std::nullopt, made.frequency });
  }
  for (const auto& [name, why] : ended)
    leave(name, why);

  choice_ = chooser_.look(now);
  for (const Choice::Leave& one : choice_.leave)
    leave(one.interface, one.why);
  if (choice_.join) join(*choice_.join);
  if (keep_.most >= 2) look_around(now);
  if (keep_.most >= 2 && problem_ != said_)
  {
    if (!problem_.empty()) say_(true, "access points: " + problem_);
    said_ = problem_;
  }
  follow_roam(now);
  take_turns();
  looked_ = kernel::now(); // whoever answered slowly is not asked again at once
}

// A list that is not refreshed is gone after half a minute.
void Associator::look_around(const Situation& now)
{
  if (!now.own || !problem_.empty()) return;
  const Heard* own = heard_of(now.heard, *now.own);
  const Duration apart = made_.size() + 1 < keep_.most ? scan_period : scan_period_full;
  if (own == nullptr || now.now - scanned_ < apart) return;
  scanned_ = now.now;
  // On all of them, which the card has to leave its own for, now and then while there is a use for what is heard.
  if (now.channels >= 2 && made_.size() + 1 < keep_.most && now.now - scanned_all_ >= scan_period_all)
  {
    scanned_all_ = now.now;
    supplicant_.scan(interface_);
    return;
  }
  // On the channel that the card is on, which it need not leave for that.
  supplicant_.scan(interface_, own->frequency);
}

void Associator::join(const Mac& ap)
{
  const Heard* heard = heard_of(view_->heard, ap);
  if (heard == nullptr) return;
  const KnownNetwork* network = network_to_join(networks_, heard->ssid);
  if (network == nullptr) return;
  unsigned number = 0;
  while (made_.contains(own_prefix + std::to_string(number)))
    ++number;
  const std::string name = own_prefix + std::to_string(number);
  std::string problem = card_.make(*view_, number);
  if (problem.empty())
  {
    // One address by DHCP is what it is for; the kernel's own by IPv6 would come with routes of their own.
    kernel::set_interface("ipv6/conf/" + name + "/disable_ipv6", "1");
    kernel::set_interface("ipv4/conf/" + name + "/arp_announce", "2");
    kernel::set_interface("ipv4/conf/" + name + "/arp_ignore", "1");
    // The way back is by this interface although the default route is by another (RFC 3704, 2.4).
    kernel::set_interface("ipv4/conf/" + name + "/rp_filter", "2");
    arp_.set(interface_);
    problem = supplicant_.associate(name, interface_, *network, ap, heard->frequency);
  }
  const Tick now = kernel::now();
  if (!problem.empty())
  {
    say_(true, "access point " + feeder::text(ap) + ": " + problem);
    chooser_.failed(ap, now, problem);
    supplicant_.release(name);
    card_.remove(name);
    if (made_.empty()) arp_.restore();
    return;
  }
  say_(false, name + " associates with " + feeder::text(ap));
  made_[name] = {
    .ap = ap, .number = number, .frequency = heard->frequency, .since = now, .seen = now, .term = LeaseTerm { now }
  };
}

void Associator::leave(const std::string& name, const std::string& why)
{
  say_(false, name + " leaves " + feeder::text(made_[name].ap) + ": " + why);
  supplicant_.release(name);
  card_.remove(name);
  made_.erase(name);
  if (made_.empty()) arp_.restore();
}

// Leases run on while the machine sleeps.
void Associator::count_sleep()
{
  // The clocks are read one after the other.
  constexpr Duration measurable = 1ms;
  const Duration before = std::exchange(asleep_, kernel::time_asleep());
  if (asleep_ - before < measurable) return;
  const Tick now = kernel::now();
  for (auto& [name, made] : made_)
  {
    made.term.slept(asleep_ - before, now);
    made.asking.reset(); // its answer may be from before
  }
}

// `end`: why it is to be given up.
void Associator::follow(const std::string& name, Made& made, const std::optional<Card::Association>& its,
                        std::string& end)
{
  const Tick now = kernel::now();
  const unsigned ifindex = if_nametoindex(name.c_str());
  if (made.lease && made.term.over(now))
  {
    // The kernel, too, has not counted while the machine slept, and somebody else may have the address by now.
    kernel::take_address(static_cast<int>(ifindex), *made.lease);
    made.lease.reset();
  }
  if (ifindex == 0)
    end = "its interface has gone";
  else if (!its && made.associated_at == Tick::max())
  {
    if (now - made.since < association_limit) return;
    const std::string state = supplicant_.state(name);
    end = "it did not let us in (" + (state.empty() ? "wpa_supplicant does not answer" : state) + ")";
  }
  else if (!its)
  {
    if (now - made.seen >= lost_limit) end = "the association was lost";
  }
  else
  {
    made.associated_at = std::min(made.associated_at, now);
    made.seen = now;
    // Keys come after the association, and without them there is no network yet.
    if (made.lease || supplicant_.state(name) == "COMPLETED") follow_address(name, made, end);
  }
}

void Associator::follow_address(const std::string& name, Made& made, std::string& end)
{
  const Tick now = kernel::now();
  if (made.asking)
  {
    const auto result = made.asking->result();
    if (!result) return;
    made.asking.reset();
    if (result->lease)
    {
      kernel::InterfaceAddress fresh = *result->lease;
      fresh.metric = first_metric + made.number;
      // An access point that answers for the network that we are in would have what is sent there.
      if (const std::string against = objection(fresh, neighbours(name)); !against.empty())
      {
        end = "the address " + fresh.address + " that it was given cannot be used: " + against;
        return;
      }
      const int ifindex = static_cast<int>(if_nametoindex(name.c_str()));
      // The server may give it to somebody else now. First: with the first address of a network the others go.
      if (made.lease && (made.lease->address != fresh.address || made.lease->prefix != fresh.prefix))
        kernel::take_address(ifindex, *made.lease);
      const std::string problem = kernel::give_address(ifindex, fresh);
      if (!problem.empty())
      {
        end = "its address " + fresh.address + " cannot be set: " + problem;
        return;
      }
      if (made.lease != fresh) say_(false, name + " has the address " + fresh.address);
      made.lease = fresh;
      made.term.granted(fresh.lifetime, now);
    }
    else if (!made.lease)
      end = result->problem;
    else
      made.term.unanswered(now);
    return;
  }
  if (made.term.due(now)) made.asking.emplace(name, options_.script, made.lease ? made.lease->address : "");
}

json Associator::told() const
{
  const Tick now = kernel::now();
  json out { { "interface", interface_ },
             { "keep", keep_.most < 2 ? 0 : keep_.most },
             { "several_channels", keep_.several_channels },
             { "problem", problem_ } };
  out["access_points"] = json::array();
  for (const Judgement& each : choice_.all)
  {
    json one { { "ap", feeder::text(each.heard.ap) },
               { "ssid", feeder::ssid_json(each.heard.ssid) },
               { "frequency_mhz", each.heard.frequency },
               { "channel", channel_of(each.heard.frequency) },
               { "interface", each.interface },
               { "worth", each.worth },
               { "why", each.why } };
    if (each.heard.signal) one["signal_dbm"] = *each.heard.signal;
    if (each.heard.age) one["age_s"] = seconds(*each.heard.age);
    out["access_points"].push_back(std::move(one));
  }
  out["stations"] = json::array();
  for (const auto& [name, made] : made_)
  {
    json one { { "interface", name },
               { "ap", feeder::text(made.ap) },
               { "state", made.lease                          ? "in use"
                          : made.associated_at == Tick::max() ? "being associated"
                                                              : "waiting for an address" },
               { "since_s", seconds(now - made.since) } };
    if (made.lease) one["address"] = made.lease->address;
    out["stations"].push_back(std::move(one));
  }
  if (view_)
    out["card"] = { { "stations", view_->stations },
                    { "channels", view_->channels },
                    { "stations_apart", view_->stations_apart },
                    { "channels_apart", view_->channels_apart } };
  if (!turns_.why().empty()) out["turns"] = turns_told();
  return out;
}

bool Associator::post_and_wait(Work work, Duration patience)
{
  struct Done
  {
    std::mutex mutex {};
    std::condition_variable changed {};
    bool done = false;
  };
  // Who asked may have gone when it is done.
  const auto shared = std::make_shared<Done>();
  {
    const std::lock_guard guard { mutex_ };
    work_.push_back(
        [work = std::move(work), shared]
        {
          work();
          const std::lock_guard done { shared->mutex };
          shared->done = true;
          shared->changed.notify_all();
        });
  }
  changed_.notify_one();
  std::unique_lock lock { shared->mutex };
  return shared->changed.wait_for(lock, patience, [&] { return shared->done; });
}

void Associator::keep(const Keep& wanted)
{
  const std::lock_guard guard { mutex_ };
  work_.push_back([this, wanted] { keep_ = wanted; });
  work_.push_back([this] { look(); });
  changed_.notify_one();
}

std::optional<json> Associator::snapshot(Duration patience)
{
  const auto out = std::make_shared<nlohmann::json>();
  if (!post_and_wait([this, out] { *out = told(); }, patience)) return {};
  return *out;
}

std::optional<std::string> Associator::scan(Duration patience)
{
  const auto out = std::make_shared<std::string>();
  const Work work = [this, out]
  {
    if (!problem_.empty())
      *out = problem_;
    else if (!supplicant_.scan(interface_))
      *out = "wpa_supplicant is scanning already, or cannot now";
  };
  if (!post_and_wait(work, patience)) return {};
  return *out;
}

} // namespace tandem::association
