#include "src/daemon/placement.h"

#include "src/daemon/network_text.h"
#include "src/wire/text.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <numeric>

namespace tandem::daemon
{

namespace
{

using namespace std::chrono_literals;

// Who is not known counts as the mean of those who are. Nobody gets less than a tenth of an equal part, or what it can
// carry would never be seen.
std::vector<double> by_capacity(const std::vector<double>& capacities)
{
  const auto known =
      static_cast<double>(std::count_if(capacities.begin(), capacities.end(), [](double c) { return c > 0; }));
  const double mean = known > 0 ? std::accumulate(capacities.begin(), capacities.end(), 0.0) / known : 1;
  std::vector<double> shares {};
  for (const double one : capacities)
    shares.push_back(std::max(one > 0 ? one : mean, mean / 10));
  return shares;
}

class Decider
{
public:
  Decider(const PlacementInputs& inputs, const PlacementDecision& before) : in_ { inputs }, before_ { before } {}

  PlacementDecision decide()
  {
    kernel::PlacementPlan& plan = out_.plan;
    plan.mark.mask = settings().mark_mask;
    plan.table = in_.config.daemon.route_table;
    plan.let_go = in_.tunnel;
    out_.why = reason_for_none();
    if (!out_.why.empty()) return std::move(out_);
    look_at_links();
    plan.turns_v4 = turns(false);
    plan.turns_v6 = turns(true);
    if (plan.turns_v4.empty() && plan.turns_v6.empty())
    {
      out_.why = "no other link than home can take connections";
      plan.links.clear();
      return std::move(out_);
    }
    plan.choose = true;
    plan.short_ports = settings().short_ports;
    plan.short_v4 = nearest(false);
    plan.short_v6 = nearest(true);
    say_the_rest();
    return std::move(out_);
  }

private:
  const Config::Placement& settings() const { return in_.config.placement; }

  std::string reason_for_none() const
  {
    if (!settings().enabled) return "switched off";
    if (!in_.hands_off.empty()) return in_.hands_off;
    if (in_.exclusions.asks_cgroup()) return "services are excluded, and a rule cannot tell whose a connection is";
    // What must not be placed is named completely or nothing is placed: no queue sees a connection before it is.
    if (named_networks() > most_networks_in_rules)
      return "more networks and addresses of names are excluded than rules can name ("
             + std::to_string(most_networks_in_rules) + "); excluding networks instead of names takes fewer";
    const links::LinkInfo& home = in_.links[Link::wifi];
    return home.present() ? "" : "there is no Wi-Fi interface with an address";
  }

  // But for those that the links are on.
  std::size_t named_networks() const
  {
    return settings().spread_to.size() + settings().exclude_to.size() + in_.config.daemon.exempt_networks.size()
           + in_.exclusions.network_count();
  }

  // The share that the user gives it; nothing: none is asked of it.
  std::optional<double> given(Link link) const
  {
    const auto& shares = settings().shares;
    if (shares.empty())
    {
      const auto& named = settings().links;
      const bool meant =
          named ? std::find(named->begin(), named->end(), link) != named->end() : role(link) == LinkRole::wifi;
      return meant ? std::optional { 0.0 } : std::nullopt;
    }
    const auto found = std::find_if(shares.begin(), shares.end(), [&](const auto& one) { return one.first == link; });
    return found == shares.end() ? std::nullopt : std::optional { found->second };
  }

  void look_at_links()
  {
    for (const Link link : all_links)
    {
      const links::LinkInfo& info = in_.links[link];
      if (link == Link::other || info.interface.empty() || !given(link)) continue;
      out_.parts[at(link)].emplace(PlacementDecision::Part { .why = why_not(link) });
      if (link == Link::wifi) continue;
      out_.plan.links.push_back({ .value = placement_value(link),
                                  .interface = info.interface,
                                  .mtu = info.mtu < in_.links[Link::wifi].mtu ? std::max(info.mtu, 576u) : 0 });
    }
    leave_away_ones_out();
  }

  // What begins by a link whose channel the card visits now and then waits there. By the last one that is left it would
  // wait, too, but it has no other.
  void leave_away_ones_out()
  {
    const auto may = [&](Link link) { return out_.parts[at(link)] && out_.parts[at(link)]->why.empty(); };
    const auto away = [&](Link link) { return in_.outlook[at(link)].away; };
    if (std::none_of(all_links.begin(), all_links.end(), [&](Link link) { return may(link) && !away(link); })) return;
    for (const Link link : all_links)
      if (may(link) && away(link)) out_.parts[at(link)]->why = "the card is mostly on another channel";
  }

  std::string shared_with_home(const links::LinkInfo& other) const
  {
    for (const Address& home : in_.links[Link::wifi].addresses)
      if (std::find(other.addresses.begin(), other.addresses.end(), home) != other.addresses.end())
        return wire::to_string(home);
    return {};
  }

  std::string why_not(Link link) const
  {
    const links::LinkInfo& info = in_.links[link];
    if (!info.present()) return "no address";
    if (!info.up || !in_.outlook[at(link)].up) return "down";
    if (!info.default_v4 && !info.default_v6) return "no default route";
    // Two hotspots of one make. NAT would change nothing, and who has no other address there is not known as placed.
    if (const std::string shared = link == Link::wifi ? "" : shared_with_home(info); !shared.empty())
      return "has the same address as the default link (" + shared + ")";
    return in_.outlook[at(link)].barred;
  }

  bool takes(Link link, bool v6) const
  {
    const links::LinkInfo& info = in_.links[link];
    return out_.parts[at(link)] && out_.parts[at(link)]->why.empty() && (v6 ? info.default_v6 : info.default_v4);
  }

  std::vector<std::uint32_t> turns(bool v6)
  {
    std::vector<Link> who {};
    for (const Link link : all_links)
      if (takes(link, v6)) who.push_back(link);
    // Without a choice nothing is placed.
    if (who.empty() || (who.size() == 1 && who.front() == Link::wifi)) return {};
    std::vector<double> shares {};
    for (const Link link : who)
      shares.push_back(settings().shares.empty() ? in_.outlook[at(link)].capacity : *given(link));
    if (settings().shares.empty()) shares = by_capacity(shares);
    if (std::accumulate(shares.begin(), shares.end(), 0.0) <= 0) return {};
    std::vector<std::pair<std::uint32_t, unsigned>> each {};
    const std::vector<unsigned> counts = turns_of(shares);
    for (std::size_t i = 0; i < who.size(); ++i)
      if (counts[i] > 0) each.emplace_back(placement_value(who[i]), counts[i]);
    const auto& old = v6 ? before_.plan.turns_v6 : before_.plan.turns_v4;
    std::vector<std::uint32_t> order = settings().shares.empty() && near(old, each) ? old : in_order(each);
    for (const Link link : who)
    {
      const auto count = std::count(order.begin(), order.end(), placement_value(link));
      PlacementDecision::Part& part = *out_.parts[at(link)];
      if (part.share == 0) part.share = static_cast<double>(count) / static_cast<double>(order.size());
    }
    return order;
  }

  // What was measured wavers: rules are not made anew for less than a tenth.
  static bool near(const std::vector<std::uint32_t>& old, const std::vector<std::pair<std::uint32_t, unsigned>>& fresh)
  {
    if (old.empty()) return false;
    std::size_t named = 0;
    for (const auto& [value, turns] : fresh)
    {
      const auto had = static_cast<std::size_t>(std::count(old.begin(), old.end(), value));
      if (had == 0) return false;
      named += had;
      const double share = static_cast<double>(had) / static_cast<double>(old.size());
      if (std::abs(share - static_cast<double>(turns) / placement_turns) >= 0.1) return false;
    }
    return named == old.size();
  }

  // Of the links with turns; 0: nobody has been measured. Round trips waver, too: another link has to be much nearer.
  std::uint32_t nearest(bool v6) const
  {
    constexpr double much = 0.7;
    const auto& order = v6 ? out_.plan.turns_v6 : out_.plan.turns_v4;
    const std::uint32_t old = v6 ? before_.plan.short_v6 : before_.plan.short_v4;
    std::uint32_t best = 0;
    double shortest = 0;
    for (const Link link : all_links)
    {
      const auto& rtt = in_.outlook[at(link)].rtt;
      const std::uint32_t value = placement_value(link);
      if (link == Link::other || !rtt || std::find(order.begin(), order.end(), value) == order.end()) continue;
      const double weighed = seconds(*rtt) * (value == old ? much : 1);
      if (best != 0 && weighed >= shortest) continue;
      shortest = weighed;
      best = value;
    }
    return best;
  }

  void say_the_rest()
  {
    kernel::PlacementPlan& plan = out_.plan;
    plan.home = in_.links[Link::wifi].interface;
    for (const Address& address : in_.links[Link::wifi].addresses)
      plan.home_addresses.push_back(wire::to_string(address));
    plan.by_site = settings().by_site;
    plan.spread_ports = settings().spread_ports;
    for (const links::Network& one : settings().spread_to)
      plan.spread_to.push_back(prefix_text(one));
    plan.never_to = local_networks(in_.links, in_.config.links.private_peers == PrivatePeers::never);
    for (const auto& all : { settings().exclude_to, in_.config.daemon.exempt_networks, in_.exclusions.networks() })
      for (const links::Network& one : all)
        plan.never_to.push_back(prefix_text(one));
    plan.never_ports = settings().exclude_ports;
    plan.never_ports.insert(plan.never_ports.end(), in_.config.daemon.exempt_ports.begin(),
                            in_.config.daemon.exempt_ports.end());
    plan.never_users = in_.exclusions.users();
  }

  const PlacementInputs& in_;
  const PlacementDecision& before_;
  PlacementDecision out_ {};
};

} // namespace

PlacementDecision place(const PlacementInputs& inputs, const PlacementDecision& before)
{
  return Decider { inputs, before }.decide();
}

std::vector<unsigned> turns_of(const std::vector<double>& shares, unsigned all)
{
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<unsigned> turns {};
  std::vector<double> rest {};
  unsigned given = 0;
  for (const double share : shares)
  {
    const double exact = sum > 0 ? share / sum * all : 0;
    turns.push_back(share > 0 ? std::max(1u, static_cast<unsigned>(exact)) : 0);
    rest.push_back(exact - turns.back());
    given += turns.back();
  }
  // Largest remainders first; who got its one turn as a present has a negative rest, and is served last.
  while (given < all && sum > 0)
  {
    const auto most = std::max_element(rest.begin(), rest.end()) - rest.begin();
    ++turns[static_cast<std::size_t>(most)];
    rest[static_cast<std::size_t>(most)] -= 1;
    ++given;
  }
  while (given > all)
  {
    const auto most = std::max_element(turns.begin(), turns.end());
    if (*most <= 1) break;
    --*most;
    --given;
  }
  return turns;
}

std::vector<std::uint32_t> in_order(std::vector<std::pair<std::uint32_t, unsigned>> turns)
{
  unsigned divisor = 0;
  for (const auto& [value, count] : turns)
    divisor = std::gcd(divisor, count);
  if (divisor == 0) return {};
  int all = 0;
  for (auto& [value, count] : turns)
    all += static_cast<int>(count /= divisor);
  std::vector<int> credit(turns.size());
  std::vector<std::uint32_t> order {};
  for (int i = 0; i < all; ++i)
  {
    for (std::size_t k = 0; k < turns.size(); ++k)
      credit[k] += static_cast<int>(turns[k].second);
    const auto next = static_cast<std::size_t>(std::max_element(credit.begin(), credit.end()) - credit.begin());
    credit[next] -= all;
    order.push_back(turns[next].first);
  }
  return order;
}

std::vector<std::string> local_networks(const links::LinkTable& links, bool private_ones)
{
  std::vector<std::string> all { "127.0.0.0/8", "::1/128" };
  if (private_ones)
    std::transform(links::private_networks.begin(), links::private_networks.end(), std::back_inserter(all),
                   prefix_text);
  for (const Link link : all_links)
    for (const links::Network& one : links[link].on_link)
      if (one.prefix > 0) all.push_back(prefix_text(one));
  return all;
}

void LinkCapacity::look(Tick now, std::uint64_t bytes)
{
  constexpr Duration shortest = 500ms, longest = 3s, fades_in = 120s;
  // Less is no sign of what the link can carry: keep-alives and ARP arrive by one that nobody uses.
  constexpr double in_use = 0.02, least = 64e3; // of what it was seen to carry; bytes per second
  if (looked_ && now - *looked_ < shortest) return;
  if (looked_ && now - *looked_ <= longest && bytes >= bytes_)
  {
    const double rate = static_cast<double>(bytes - bytes_) / seconds(now - *looked_);
    if (rate >= std::max(in_use * most_, least))
      most_ = std::max(rate, most_ * std::exp(-seconds(now - *looked_) / seconds(fades_in)));
  }
  looked_ = now;
  bytes_ = bytes;
}

void LinkTrial::look(Tick now, std::uint64_t begun, std::uint64_t answered)
{
  constexpr unsigned enough = 3; // one server that is not there proves nothing
  constexpr Duration patience = 2s, first = 30s, longest = 480s;
  if (answered != answered_)
  {
    answered_ = answered;
    begun_ = begun;
    unanswered_since_.reset();
    pause_ = {};
    return;
  }
  if (barred(now)) begun_ = begun; // what was begun before the bar
  if (begun - begun_ < 1) return;
  if (!unanswered_since_) unanswered_since_ = now;
  if (begun - begun_ < enough || now - *unanswered_since_ < patience) return;
  pause_ = std::clamp(2 * pause_, first, longest);
  until_ = now + pause_;
  begun_ = begun;
  unanswered_since_.reset();
}

} // namespace tandem::daemon
