#include "src/kernel/mptcp/steerer.h"

#include "src/kernel/mptcp/mptcp_steps.h"
#include "src/kernel/rules/ce_rules.h"

#include <net/if.h>

#include <algorithm>
#include <optional>

namespace tandem::kernel
{

struct Steerer::Parts
{
  std::string file {};
  std::optional<CeMarker> marker {};
  std::optional<MptcpPathManager> manager {};
  UndoJournal journal {};
  SteeringPlan plan {};
  SteeringState state {};
  bool packets_wait = false;

  void mark(const std::vector<CeRule>& wanted)
  {
    std::vector<CeRule> rules {};
    std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(rules),
                 [](const CeRule& rule) { return render::ce_millionths(rule.rate, 1) > 0; });
    if (rules == state.ce) return;
    if (!marker) marker.emplace().keep_hook(packets_wait);
    state.ce_backend = marker->backend();
    state.ce_why = marker->why();
    if (std::string reason = marker->apply(rules); !reason.empty())
    {
      for (const CeRule& rule : rules)
        refuse("CE marks on " + rule.interface, reason);
      return;
    }
    state.ce = rules;
    ++state.ce_changes;
  }

  void refuse(const std::string& what, const std::string& why) { state.refused.push_back({ what, why }); }

  // Makes the path manager as the plan wants it. A failure is in state.last_error.
  void guide(SteeringPlan wanted)
  {
    state.mptcp_why = mptcp_unavailable();
    if (!state.mptcp_why.empty())
    {
      for (const SteeringPath& path : wanted.paths)
        if (path.backup || (wanted.setup && path.endpoint)) refuse("MPTCP on " + path.interface, state.mptcp_why);
      wanted = {}; // what was changed before goes all the same
    }
    if (wanted.paths.empty() && journal.empty())
    {
      state.endpoints.clear();
      return;
    }
    try
    {
      if (!manager) manager.emplace();
      PathManagerView view = look(wanted);
      MptcpChange change = mptcp_change(wanted, view, journal);
      if (!journal.own.empty() && tell_subflows(view, change)) change = mptcp_change(wanted, view, journal);
      state.refused.insert(state.refused.end(), change.refused.begin(), change.refused.end());
      if (change.journal != journal)
        if (std::string reason = write_journal(file, change.journal); !reason.empty())
          throw std::runtime_error { "MPTCP is left as it is, since a change could not be noted for the next start: "
                                     + reason };
      journal = change.journal;
      if (!change.steps.empty())
      {
        for (const MptcpStep& step : change.steps)
          take(step);
        view = look(wanted);
        settle(view);
      }
      claim(view.endpoints, journal);
      state.endpoints = view.endpoints;
      state.limit_subflows = view.limits.subflows;
      state.limit_add_addr = view.limits.add_addr;
    }
    catch (const std::exception& e)
    {
      state.last_error = e.what();
      manager.reset(); // what is left of an answer would come into the next one
    }
  }

  PathManagerView look(const SteeringPlan& wanted)
  {
    PathManagerView view { .endpoints = manager->endpoints(), .limits = manager->limits() };
    for (const SteeringPath& path : wanted.paths)
      if (const unsigned index = if_nametoindex(path.interface.c_str()); index != 0)
        view.interfaces[path.interface] = static_cast<int>(index);
    return view;
  }

  // Connections are looked at only when an endpoint is to be removed. True when they are known now.
  static bool tell_subflows(PathManagerView& view, const MptcpChange& change)
  {
    if (std::none_of(change.refused.begin(), change.refused.end(),
                     [](const RefusedRequest& request) { return request.what.rfind("removal", 0) == 0; }))
      return false;
    try
    {
      view.subflows = mptcp_subflows();
    }
    catch (const std::exception&)
    {
      return false; // then nothing is removed, and the refusal says why
    }
    return true;
  }

  // Whether the kernel did it; `reason`: why not.
  bool done(const std::string& what, const std::string& reason)
  {
    if (!reason.empty()) refuse(what, "the kernel refused: " + reason);
    return reason.empty();
  }

  void take(const MptcpStep& step)
  {
    const std::string& address = step.endpoint.address;
    switch (step.kind)
    {
    case MptcpStep::Kind::limits:
      done("subflow limit " + std::to_string(step.limits.subflows), manager->set_limits(step.limits));
      return;
    case MptcpStep::Kind::add:
      if (done("endpoint " + address, manager->add(address, step.endpoint.ifindex, step.endpoint.flags)))
        ++state.endpoints_added;
      return;
    case MptcpStep::Kind::backup:
      if (done("backup of " + address, manager->set_backup(step.endpoint, step.backup))) ++state.flag_changes;
      return;
    case MptcpStep::Kind::remove:
      return remove(step);
    }
  }

  // Connections may have begun since the change was made out: a removal takes as long as the kernel waits for the
  // sockets of all of them.
  void remove(const MptcpStep& step)
  {
    const MptcpEndpoint& endpoint = step.endpoint;
    const std::string what = "removal of the endpoint " + endpoint.address;
    RemovalCost cost {};
    try
    {
      cost = removal_cost(endpoint.address, {}, mptcp_subflows());
    }
    catch (const std::exception& e)
    {
      if (!step.replaced) return refuse(what, e.what());
    }
    if (cost.stalled > 0 && !step.replaced)
    {
      refuse(what, stall_words(cost.stalled));
      if (endpoint.backup() != step.backup) (void)manager->set_backup(endpoint, step.backup);
      return;
    }
    if (!done(what, manager->remove(endpoint))) return;
    ++state.endpoints_deleted;
    // The kernel has told the peers by now.
    for (const TcpSocketName& socket : cost.half_closed)
      done("reset of a subflow from " + endpoint.address, end_tcp_socket(socket));
  }

  // Keeps of the journal what is so after the steps, with the ids that the kernel has given.
  void settle(const PathManagerView& view)
  {
    UndoJournal kept {};
    std::vector<MptcpEndpoint> own = view.endpoints;
    claim(own, journal);
    for (const MptcpEndpoint& endpoint : own)
      if (endpoint.own)
        kept.own.push_back({ .address = endpoint.address, .ifindex = endpoint.ifindex, .id = endpoint.id });
    for (const auto& flag : journal.flags)
      if (std::any_of(view.endpoints.begin(), view.endpoints.end(),
                      [&](const MptcpEndpoint& e)
                      { return e.address == flag.address && e.id == flag.id && e.backup() != flag.before; }))
        kept.flags.push_back(flag);
    if (journal.limit && view.limits == journal.limit->set) kept.limit = journal.limit;
    if (kept == journal) return;
    journal = kept;
    if (std::string reason = write_journal(file, journal); !reason.empty())
      state.last_error = "what Tandem changed of MPTCP could not be noted for the next start: " + reason;
  }

  // What a killed run has noted is undone.
  void recover()
  {
    if (file.empty()) return;
    const ReadJournal read = read_journal(file);
    if (!read.fault.empty())
    {
      state.recovered = "the note of an earlier run in " + file + " is not usable (" + read.fault
                        + "): if that run was killed, its MPTCP endpoints are still there; see `ip mptcp endpoint`";
      return;
    }
    if (!read.journal.empty())
    {
      journal = read.journal;
      guide({});
      state.recovered = "an earlier run was killed: " + std::to_string(state.endpoints_deleted)
                        + " MPTCP endpoints removed, " + std::to_string(state.flag_changes) + " backup flags put back"
                        + (state.last_error.empty() ? "" : "; " + state.last_error);
      state.endpoints_deleted = state.flag_changes = 0;
    }
    if (journal.empty()) (void)write_journal(file, journal); // of before a reboot, or of another namespace
  }
};

Steerer::Steerer(const std::string& file) : parts_ { std::make_unique<Parts>() }
{
  if (CeMarker::is_left()) parts_->marker.emplace();
  parts_->file = file;
  parts_->recover();
}

Steerer::~Steerer()
{
  parts_->mark({});
  parts_->guide({});
}

void Steerer::carry_out(const SteeringPlan& plan)
{
  validate(plan);
  Parts& p = *parts_;
  p.plan = plan;
  p.state.suspended = false;
  p.state.refused.clear();
  p.state.last_error.clear();
  p.mark(plan.ce);
  p.guide(plan);
  ++p.state.plans;
}

bool Steerer::in_force() const
{
  const Parts& p = *parts_;
  return needs_attention(p.plan, p.state.ce, p.state.endpoints, p.journal);
}

void Steerer::suspend()
{
  Parts& p = *parts_;
  const SteeringPlan kept = unattended(p.plan);
  p.mark(kept.ce);
  p.guide(kept);
  p.state.suspended = true;
}

void Steerer::resume()
{
  const SteeringPlan plan = parts_->plan;
  carry_out(plan);
}

void Steerer::packets_wait(bool wait) noexcept
{
  parts_->packets_wait = wait;
  if (parts_->marker) parts_->marker->keep_hook(wait);
}

const SteeringState& Steerer::state() const
{
  return parts_->state;
}

void Steerer::clear(const std::string& file) noexcept
{
  try
  {
    Steerer { file };
  }
  catch (const std::exception&)
  {
    // No memory: the next start does it.
  }
}

} // namespace tandem::kernel
