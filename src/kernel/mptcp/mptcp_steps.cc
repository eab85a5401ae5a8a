#include "src/kernel/mptcp/mptcp_steps.h"

#include <algorithm>
#include <set>

namespace tandem::kernel
{

namespace
{

bool is_own(const MptcpEndpoint& endpoint, const UndoJournal::Own& own)
{
  if (endpoint.address != own.address || endpoint.ifindex != own.ifindex || endpoint.implicit()) return false;
  // Noted, but killed before its id was known: then it still looks as it was made.
  if (own.id == 0) return (endpoint.flags & ~mptcp_flag::backup) == mptcp_flag::subflow && endpoint.port == 0;
  return endpoint.id == own.id;
}

bool link_local(const std::string& address)
{
  return address.rfind("fe80:", 0) == 0 || address.rfind("169.254.", 0) == 0;
}

class Comparison
{
public:
  Comparison(const SteeringPlan& plan, const PathManagerView& now, const UndoJournal& journal)
      : plan_ { plan }, now_ { now }, before_ { journal }
  {
    claim(now_.endpoints, journal);
  }

  MptcpChange run()
  {
    reserve();
    for (const SteeringPath& path : plan_.paths)
      for (const std::string& address : path.addresses)
        treat(path, address);
    for (const SteeringPath& path : plan_.paths)
      for (const std::string& address : path.deprecated)
        retire(path, address);
    for (const MptcpEndpoint& endpoint : now_.endpoints)
      if (std::find(named_.begin(), named_.end(), endpoint.address) == named_.end()) let_go(endpoint);
    spare_connections();
    limit();
    // More ways first, fewer last: a connection does not lose its only one in between.
    std::stable_sort(out_.steps.begin(), out_.steps.end(),
                     [](const MptcpStep& a, const MptcpStep& b) { return a.kind < b.kind; });
    out_.steps.insert(out_.steps.begin(), replaced_.begin(), replaced_.end());
    return std::move(out_);
  }

private:
  void refuse(const std::string& what, const std::string& why) { out_.refused.push_back({ what, why }); }

  // The kernel takes eight endpoints in all, and a link without one carries nothing: each link's first address comes
  // before any link's second. A link whose endpoint is away for a while keeps its place.
  void reserve()
  {
    std::size_t room = most_mptcp_endpoints;
    for (const MptcpEndpoint& endpoint : now_.endpoints)
      if (!endpoint.own && !endpoint.implicit() && room > 0) --room;
    for (std::size_t turn = 0; turn < most_path_addresses; ++turn)
      for (const SteeringPath& path : plan_.paths)
      {
        if (room == 0) return; // and none is spare
        if (turn >= path.addresses.size() || link_local(path.addresses[turn])) continue;
        const MptcpEndpoint* there = at(path.addresses[turn]);
        if (there && !there->own) continue; // counted already
        if (reserved_.insert(path.addresses[turn]).second) --room;
      }
    // One stays free: the next address is added before an old one goes.
    spare_ = room > 0 ? room - 1 : 0;
  }

  const MptcpEndpoint* at(const std::string& address) const
  {
    auto same = [&](bool own)
    {
      return std::find_if(now_.endpoints.begin(), now_.endpoints.end(),
                          [&](const MptcpEndpoint& e)
                          { return e.address == address && e.own == own && !e.implicit(); });
    };
    auto found = same(true);
    if (found == now_.endpoints.end()) found = same(false);
    return found == now_.endpoints.end() ? nullptr : &*found;
  }

  void keep_own(const MptcpEndpoint& endpoint)
  {
    out_.journal.own.push_back({ .address = endpoint.address, .ifindex = endpoint.ifindex, .id = endpoint.id });
    ++wanted_;
  }

  void treat(const SteeringPath& path, const std::string& address)
  {
    if (std::find(named_.begin(), named_.end(), address) != named_.end())
      return refuse("endpoint " + address + " of " + path.interface, "another link has this address too");
    named_.push_back(address);
    const MptcpEndpoint* there = at(address);
    if (there && !there->own)
    {
      if (plan_.setup && !path.endpoint) refuse("removal of the endpoint " + address, "Tandem did not create it");
      foreign(*there, path.backup);
      return;
    }
    const bool wanted = plan_.setup && path.endpoint;
    const auto found = now_.interfaces.find(path.interface);
    const int ifindex = found == now_.interfaces.end() ? 0 : found->second;
    if (there && (!wanted || ifindex != there->ifindex))
    {
      if (wanted && ifindex != 0)
        replaced_.push_back({ .kind = MptcpStep::Kind::remove, .endpoint = *there, .replaced = true });
      else
        out_.steps.push_back({ .kind = MptcpStep::Kind::remove, .endpoint = *there, .backup = path.backup });
      keep_own(*there);
      --wanted_;
      there = nullptr;
    }
    if (there)
    {
      keep_own(*there);
      if (there->backup() != path.backup)
        out_.steps.push_back({ .kind = MptcpStep::Kind::backup, .endpoint = *there, .backup = path.backup });
      return;
    }
    if (wanted)
      create(path, address, ifindex);
    else if (path.backup)
      refuse("backup of " + address,
             "no MPTCP endpoint has this address" + std::string { plan_.setup ? "" : setup_hint });
  }

  // An address that is no source any more. Unless its subflows are known, and use it, it is named by nobody: then its
  // endpoint goes as any other, or they are looked at.
  void retire(const SteeringPath& path, const std::string& address)
  {
    const MptcpEndpoint* there = at(address);
    if (!there || std::find(named_.begin(), named_.end(), address) != named_.end()) return;
    if (!there->own)
    {
      named_.push_back(address);
      return foreign(*there, path.backup);
    }
    const bool used = now_.subflows
                      && std::any_of(now_.subflows->begin(), now_.subflows->end(),
                                     [&](const MptcpSubflow& subflow) { return subflow.address == address; });
    const auto found = now_.interfaces.find(path.interface);
    const bool still_there = found != now_.interfaces.end() && found->second == there->ifindex;
    if (!plan_.setup || !path.endpoint || !used || !still_there || spare_ == 0) return;
    --spare_;
    named_.push_back(address);
    keep_own(*there);
    if (there->backup() != path.backup)
      out_.steps.push_back({ .kind = MptcpStep::Kind::backup, .endpoint = *there, .backup = path.backup });
  }

  void create(const SteeringPath& path, const std::string& address, int ifindex)
  {
    if (ifindex == 0) return refuse("endpoint " + address, "there is no interface " + path.interface);
    if (link_local(address)) return refuse("endpoint " + address, "a link-local address leads to no server");
    if (reserved_.count(address) == 0)
      return refuse("endpoint " + address, "the kernel takes " + std::to_string(most_mptcp_endpoints)
                                               + ", and the first address of each link goes before");
    MptcpEndpoint fresh {};
    fresh.address = address;
    fresh.ifindex = ifindex;
    fresh.flags = mptcp_flag::subflow | (path.backup ? mptcp_flag::backup : 0);
    keep_own(fresh);
    out_.steps.push_back({ .kind = MptcpStep::Kind::add, .endpoint = fresh });
  }

  const UndoJournal::Flag* noted(const MptcpEndpoint& endpoint) const
  {
    auto found =
        std::find_if(before_.flags.begin(), before_.flags.end(),
                     [&](const auto& flag) { return flag.address == endpoint.address && flag.id == endpoint.id; });
    return found == before_.flags.end() ? nullptr : &*found;
  }

  void foreign(const MptcpEndpoint& endpoint, bool backup)
  {
    ++wanted_;
    const UndoJournal::Flag* note = noted(endpoint);
    const bool changed_by_others = note && endpoint.backup() != note->set;
    if (changed_by_others)
    {
      if (!backup) return; // and forget what we had found
      out_.journal.flags.push_back(*note);
      return refuse("backup of " + endpoint.address, "somebody else changed this endpoint's backup flag meanwhile");
    }
    const bool found = note ? note->before : endpoint.backup();
    const bool wanted = backup && plan_.foreign ? true : found;
    if (backup && !plan_.foreign && !found)
      refuse("backup of " + endpoint.address, "Tandem did not create this endpoint: mptcp.foreign = true allows it");
    if (wanted != found)
      out_.journal.flags.push_back({ .address = endpoint.address, .id = endpoint.id, .before = found, .set = wanted });
    else if (note && wanted != endpoint.backup())
      out_.journal.flags.push_back(*note); // until it is put back
    if (wanted != endpoint.backup())
      out_.steps.push_back({ .kind = MptcpStep::Kind::backup, .endpoint = endpoint, .backup = wanted });
  }

  void let_go(const MptcpEndpoint& endpoint)
  {
    if (endpoint.own)
    {
      keep_own(endpoint);
      --wanted_;
      out_.steps.push_back({ .kind = MptcpStep::Kind::remove, .endpoint = endpoint });
    }
    else if (!endpoint.implicit())
      foreign(endpoint, false);
  }

  void spare_connections()
  {
    auto first_remove =
        std::stable_partition(out_.steps.begin(), out_.steps.end(),
                              [](const MptcpStep& step) { return step.kind != MptcpStep::Kind::remove; });
    std::vector<MptcpStep> removals { first_remove, out_.steps.end() };
    out_.steps.erase(first_remove, out_.steps.end());
    if (!now_.subflows)
    {
      for (const MptcpStep& step : removals)
        retain(step, "it cannot be told which connections need it");
      return;
    }
    auto opened = [this](const MptcpStep& step)
    {
      return std::count_if(now_.subflows->begin(), now_.subflows->end(),
                           [&](const MptcpSubflow& subflow)
                           { return subflow.first && subflow.address == step.endpoint.address; });
    };
    std::stable_sort(removals.begin(), removals.end(),
                     [&](const MptcpStep& a, const MptcpStep& b) { return opened(a) < opened(b); });
    std::set<std::string> gone {};
    for (const MptcpStep& step : removals)
    {
      const std::size_t stalled = removal_cost(step.endpoint.address, gone, *now_.subflows).stalled;
      if (stalled > 0)
      {
        retain(step, stall_words(stalled));
        continue;
      }
      gone.insert(step.endpoint.address);
      out_.steps.push_back(step);
    }
  }

  void retain(const MptcpStep& step, const std::string& why)
  {
    ++wanted_;
    refuse("removal of the endpoint " + step.endpoint.address, why);
    // On a link that must not be used other connections have subflows by it, too: those stay out of use.
    if (step.endpoint.backup() != step.backup)
      out_.steps.push_back({ .kind = MptcpStep::Kind::backup, .endpoint = step.endpoint, .backup = step.backup });
  }

  void limit()
  {
    // One more than needed when the first subflow has an endpoint's address; it need not have.
    const std::uint32_t need = std::min<std::uint32_t>(most_mptcp_subflows, static_cast<std::uint32_t>(wanted_));
    const bool ours = before_.limit && now_.limits == before_.limit->set;
    if (plan_.setup && need > now_.limits.subflows)
    {
      const MptcpLimits before = ours ? before_.limit->before : now_.limits;
      const MptcpLimits raised { .subflows = need, .add_addr = now_.limits.add_addr };
      out_.journal.limit = UndoJournal::Limit { .before = before, .set = raised };
      out_.steps.push_back({ .kind = MptcpStep::Kind::limits, .limits = raised });
    }
    else if (ours && plan_.setup)
      out_.journal.limit = before_.limit;
    else if (ours && before_.limit->before != now_.limits)
    {
      out_.journal.limit = before_.limit; // until it is put back
      out_.steps.push_back({ .kind = MptcpStep::Kind::limits, .limits = before_.limit->before });
    }
  }

  static constexpr const char* setup_hint = "; mptcp.setup = true (tandem up --mptcp) makes one";

  const SteeringPlan& plan_;
  PathManagerView now_;
  const UndoJournal& before_;
  MptcpChange out_ {};
  std::vector<MptcpStep> replaced_ {};
  std::vector<std::string> named_ {};
  std::set<std::string> reserved_ {}; // addresses for which the kernel has room
  std::size_t spare_ = 0;             // endpoints of deprecated addresses that there is room for beside
  int wanted_ = 0;                    // endpoints that will be there
};

} // namespace

void claim(std::vector<MptcpEndpoint>& endpoints, const UndoJournal& journal)
{
  for (MptcpEndpoint& endpoint : endpoints)
    endpoint.own =
        std::any_of(journal.own.begin(), journal.own.end(), [&](const auto& own) { return is_own(endpoint, own); });
}

RemovalCost removal_cost(const std::string& address, const std::set<std::string>& gone,
                         const std::vector<MptcpSubflow>& subflows)
{
  std::set<std::uint32_t> losing {}, keeping {};
  for (const MptcpSubflow& subflow : subflows)
  {
    if (subflow.address == address)
      losing.insert(subflow.connection);
    else if (subflow.sound && gone.count(subflow.address) == 0)
      keeping.insert(subflow.connection);
  }
  RemovalCost cost {};
  for (const std::uint32_t connection : losing)
    if (keeping.count(connection) == 0) ++cost.stalled;
  for (const MptcpSubflow& subflow : subflows)
    if (subflow.first && subflow.address == address && keeping.count(subflow.connection) > 0)
      cost.half_closed.push_back(subflow.socket);
  return cost;
}

std::string stall_words(std::size_t connections)
{
  return std::to_string(connections) + " connection" + (connections > 1 ? "s have" : " has")
         + " no other subflow and would stall";
}

MptcpChange mptcp_change(const SteeringPlan& plan, const PathManagerView& now, const UndoJournal& journal)
{
  return Comparison { plan, now, journal }.run();
}

SteeringPlan unattended(SteeringPlan plan)
{
  plan.ce.clear();
  for (SteeringPath& path : plan.paths)
    path.backup = path.backup && path.backup_stays;
  return plan;
}

bool needs_attention(const SteeringPlan& plan, const std::vector<CeRule>& marks,
                     const std::vector<MptcpEndpoint>& endpoints, const UndoJournal& journal)
{
  std::set<std::string> stay {};
  for (const SteeringPath& path : unattended(plan).paths)
    if (path.backup)
      for (const auto* all : { &path.addresses, &path.deprecated })
        stay.insert(all->begin(), all->end());
  return !marks.empty()
         || std::any_of(journal.flags.begin(), journal.flags.end(),
                        [&](const UndoJournal::Flag& flag) { return stay.count(flag.address) == 0; })
         || std::any_of(endpoints.begin(), endpoints.end(),
                        [&](const MptcpEndpoint& e) { return e.own && e.backup() && stay.count(e.address) == 0; });
}

} // namespace tandem::kernel
