#include "src/kernel/rules/placement_rules.h"

#include "src/kernel/clock.h"
#include "src/kernel/note_file.h"
#include "src/kernel/rules/nft_context.h"
#include "src/kernel/rules/placed_flows.h"
#include "src/kernel/rules/render_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

namespace tandem::kernel
{

using nlohmann::json;

namespace
{

constexpr Duration between_counts = std::chrono::seconds { 1 };
constexpr Duration between_looks_first = std::chrono::seconds { 1 }, between_looks_most = std::chrono::seconds { 60 };

// What of the plan living connections need.
PlacementPlan kept_of(const PlacementPlan& plan)
{
  return { .mark = plan.mark, .table = plan.table, .links = plan.links };
}

RoutePlan route_of(const PlacementPlan& plan, const PlacementLink& link)
{
  return { .cell = link.interface,
           .mark = { plan.on_wire(link.value), plan.mark.mask },
           .table = plan.table + link.value,
           .priority = placement_priority + link.value,
           .announce = false };
}

void check_loaded(const std::string& reason)
{
  if (!reason.empty())
    throw std::runtime_error {
      "nftables refused the rules (" + reason
      + "); the kernel modules nf_tables, nft_ct, nft_numgen, nft_masq and nft_chain_nat are needed (iptables has no "
        "way to take turns that sites keep)"
    };
}

} // namespace

struct Placer::Parts
{
  std::string file {};
  std::optional<NftContext> nft {}; // its socket owns the table that chooses
  bool owner = true;
  PlacementPlan kept {}; // what `tandem_placed` was made of; no links: it is not there
  std::map<std::uint32_t, std::unique_ptr<PolicyRoute>> routes {}; // by value
  PlacementState state {};
  std::map<std::uint32_t, PlacedCount> counted {}; // by the rules' own counters, when they were read last
  bool any_away = false;                           // connections on other links than home, at the last look
  bool rules_lost = false;                         // somebody has taken an ip rule away; put back at the next look
  bool unread = false;                             // the routes could not be read; again at the next look
  bool hooks_stay = true;                          // packets_wait()
  bool place_bare = false, placed_bare = false;    // the table is there for its hooks alone
  Tick next = Tick::max();
  Duration pause {};

  NftContext& context()
  {
    if (!nft) nft.emplace();
    return *nft;
  }

  void note(const PlacementPlan& plan)
  {
    const JournalPlace place = journal_place();
    // A bare table is noted as a plan without links: the next start takes it away.
    const bool nothing = plan.links.empty() && !place_bare && !placed_bare;
    const std::string text =
        nothing ? "" : json { { "boot", place.boot }, { "space", place.space }, { "plan", plan } }.dump() + "\n";
    if (const std::string reason = write_note(file, text); !reason.empty())
      throw std::runtime_error { "connections are not placed, since it could not be noted for the next start: "
                                 + reason };
  }

  static std::optional<PlacementPlan> noted(const Note& found)
  {
    if (!found.fault.empty()) throw std::runtime_error { found.fault };
    if (found.text.empty()) return {};
    const json all = json::parse(found.text);
    if (JournalPlace { .boot = all.at("boot").get<std::string>(), .space = all.at("space").get<std::uint64_t>() }
        != journal_place())
      return {};
    auto plan = all.at("plan").get<PlacementPlan>();
    validate(plan);
    return kept_of(plan);
  }

  // Links that living connections may be on stay beside those of the new plan.
  PlacementPlan joined(const PlacementPlan& fresh) const
  {
    PlacementPlan all = kept_of(fresh);
    if (kept.mark != all.mark || kept.table != all.table) return all;
    for (const PlacementLink& old : kept.links)
      if (std::none_of(all.links.begin(), all.links.end(),
                       [&](const PlacementLink& one) { return one.value == old.value; }))
        all.links.push_back(old);
    return all;
  }

  void keep(const PlacementPlan& plan)
  {
    if (plan == kept) return;
    note(plan);
    try
    {
      set_up(plan);
    }
    catch (const std::exception&)
    {
      fall_back();
      throw;
    }
    kept = plan;
    state.kept = true;
  }

  void set_up(const PlacementPlan& plan)
  {
    std::erase_if(routes,
                  [&](const auto& one)
                  {
                    return plan.mark != kept.mark || plan.table != kept.table
                           || std::none_of(plan.links.begin(), plan.links.end(),
                                           [&](const PlacementLink& link) {
                                             return link.value == one.first
                                                    && link.interface == interface_of(one.first);
                                           });
                  });
    for (const PlacementLink& link : plan.links)
      if (!routes.contains(link.value)) routes.emplace(link.value, std::make_unique<PolicyRoute>(route_of(plan, link)));
    check_loaded(context().load(render::placed_nftables(plan)));
    placed_bare = false;
  }

  // The rules are those of `kept` still; what was set up beside them goes.
  void fall_back() noexcept
  {
    std::erase_if(routes, [&](const auto& one) { return interface_of(one.first).empty(); });
    if (kept.links.empty()) end_placed(); // of an earlier run
    note_kept();
  }

  void note_kept() noexcept
  {
    try
    {
      note(kept);
    }
    catch (const std::exception&)
    {
      // The next start finds no connection that needs what is noted, and takes the note away.
    }
  }

  std::string interface_of(std::uint32_t value) const
  {
    const auto found = std::find_if(kept.links.begin(), kept.links.end(),
                                    [&](const PlacementLink& link) { return link.value == value; });
    return found == kept.links.end() ? "" : found->interface;
  }

  void choose(const PlacementPlan& plan)
  {
    std::string reason = context().load(render::place_nftables(plan, owner));
    if (!reason.empty() && !state.in_force)
    {
      owner = !owner; // kernels before 5.12
      reason = context().load(render::place_nftables(plan, owner));
      if (!reason.empty()) owner = !owner; // it was something else
    }
    check_loaded(reason);
    state.in_force = true;
    place_bare = false;
  }

  void choose_no_more()
  {
    if (state.in_force || place_bare) count_last();
    place_bare = hooks_stay && (place_bare || state.in_force);
    end("tandem_place");
    state.in_force = false;
    if (!hooks_stay)
      for (auto& [value, last] : counted)
        last.connections = 0;
  }

  void end_placed() noexcept
  {
    placed_bare = hooks_stay && nft;
    end("tandem_placed");
    if (!hooks_stay)
      for (auto& [value, last] : counted)
        last = { .connections = last.connections };
  }

  void end(const std::string& table) noexcept
  {
    if (nft) nft->load(render::nft_end_of(table, hooks_stay));
  }

  void packets_wait(bool wait) noexcept
  {
    hooks_stay = wait;
    if (wait) return;
    const bool bare = place_bare || placed_bare;
    if (place_bare) choose_no_more();
    if (placed_bare) end_placed();
    if (bare) note_kept();
    rest();
  }

  void remove_kept() noexcept
  {
    if (kept.links.empty()) return;
    count_last();
    // First the marks, then the routes that they lead to.
    end_placed();
    routes.clear();
    kept = {};
    state.kept = false;
    note_kept();
  }

  // Connections on other links than home. Not known: some may be there.
  bool anyone_lives()
  {
    try
    {
      std::vector<PlacedFlow> flows = placed_flows(kept.mark.mask);
      measure(flows);
      for (auto& [value, of] : state.count)
        of.alive = of.rtt_us = 0;
      std::uint64_t away = 0;
      for (const PlacedFlow& flow : flows)
      {
        const std::uint32_t value = flow.mark >> std::countr_zero(kept.mark.mask);
        PlacedCount& of = state.count[value];
        ++of.alive;
        away += value == placed_at_home ? 0 : 1;
        if (!flow.rtt) continue;
        const auto rtt =
            static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(*flow.rtt).count());
        of.rtt_us = of.rtt_us == 0 ? rtt : std::min(of.rtt_us, rtt);
      }
      any_away = away > 0;
      return any_away;
    }
    catch (const std::exception& e)
    {
      state.last_error = e.what();
      return true;
    }
  }

  // Counters begin anew with their table.
  static void add(std::uint64_t& total, std::uint64_t& seen, std::uint64_t now)
  {
    total += now >= seen ? now - seen : now;
    seen = now;
  }

  void count()
  {
    std::map<std::string, render::NftCounter> all {}, of_kept {};
    if (state.in_force || place_bare)
      all = render::nft_counters(context().list("list counters table inet tandem_place"));
    if (!kept.links.empty() || placed_bare)
      of_kept = render::nft_counters(context().list("list counters table inet tandem_placed"));
    // Nobody owns that table, so whoever flushes everything flushes it.
    if (of_kept.empty() && !kept.links.empty()) check_loaded(context().load(render::placed_nftables(kept)));
    all.merge(of_kept);
    for (auto& [value, of] : state.count)
    {
      const std::string number = std::to_string(value);
      PlacedCount& last = counted[value];
      add(of.connections, last.connections, all["begun_" + number].packets);
      add(of.answered, last.answered, all["answered_" + number].packets);
      add(of.bytes_in, last.bytes_in, all["in_" + number].bytes);
      add(of.bytes_out, last.bytes_out, all["out_" + number].bytes);
    }
  }

  // Before counters go: what came since the last look is charged, too.
  void count_last() noexcept
  {
    try
    {
      count();
    }
    catch (const std::exception& e)
    {
      state.last_error = e.what();
    }
  }

  // Counts for the link from now on: what an earlier run placed is none of this one's.
  void expect(std::uint32_t value)
  {
    if (!state.count.try_emplace(value).second) return;
    count();
    state.count[value] = {};
  }

  // Takes over what an earlier run left for connections that lived then. Packets may wait in the queues of other
  // programs: tables that go stay for their hooks until Tandem's own rules go, or until the end.
  void recover()
  {
    // Everything is noted before it is done.
    const Note found = read_note(file);
    if (!file.empty() && found.text.empty() && found.fault.empty()) return;
    place_bare = context().load(render::nft_end_of("tandem_place", true)).empty(); // of a kernel without table owners
    std::optional<PlacementPlan> before {};
    try
    {
      before = noted(found);
    }
    catch (const std::exception& e)
    {
      state.last_error =
          "the note of placed connections cannot be read (" + std::string { e.what() } + "); what lives of them ends";
      const PlacementPlan usual {};
      for (std::uint32_t value = placed_at_home + 1; value < 1u << std::popcount(usual.mark.mask); ++value)
        PolicyRoute::clear(usual.table + value, placement_priority + value);
    }
    if (before && !before->links.empty())
    {
      keep(*before);
      for (const PlacementLink& link : kept.links)
        expect(link.value);
    }
    else
    {
      placed_bare = context().load(render::nft_end_of("tandem_placed", true)).empty();
      note_kept();
    }
    settle();
  }

  // Without choices: what nobody needs goes, the rest is looked at again.
  void settle()
  {
    if (!kept.links.empty() && !anyone_lives()) remove_kept();
    pause = between_looks_first;
    next = kept.links.empty() ? Tick::max() : now() + pause;
    rest();
  }

  // Without choices the next look may be a minute away.
  void look_soon() { next = std::min(next, now() + between_counts); }

  // With nothing in place no socket is needed.
  void rest()
  {
    if (kept.links.empty() && !state.in_force && !place_bare && !placed_bare) nft.reset();
  }
};

std::string probe_placement()
{
  try
  {
    const PlacementPlan plan { .choose = true,
                               .home = "lo",
                               .home_addresses = { "127.0.0.1", "::1" },
                               .links = { { .value = placed_at_home + 1, .interface = "lo" } },
                               .turns_v4 = { placed_at_home, placed_at_home + 1 },
                               .turns_v6 = { placed_at_home, placed_at_home + 1 } };
    validate(plan);
    static_cast<void>(placed_flows(plan.mark.mask));
    NftContext nft {};
    if (!nft.list("list table inet tandem_place").empty()) return {}; // of a Tandem that runs: nobody else may touch it
    check_loaded(nft.try_out(render::placed_nftables(plan)));
    if (!nft.try_out(render::place_nftables(plan, true)).empty()) // kernels before 5.12
      check_loaded(nft.try_out(render::place_nftables(plan, false)));
    return {};
  }
  catch (const std::exception& e)
  {
    return e.what();
  }
}

Placer::Placer(const std::string& file) : parts_ { std::make_unique<Parts>() }
{
  parts_->file = file;
  try
  {
    parts_->recover();
  }
  catch (const std::exception& e)
  {
    parts_->state.last_error = e.what();
  }
}

Placer::~Placer()
{
  Parts& p = *parts_;
  p.packets_wait(false); // nobody comes later to take bare tables away
  p.choose_no_more();
  if (p.kept.links.empty()) return;
  if (!p.anyone_lives())
    p.remove_kept();
  else
    for (auto& [value, route] : p.routes)
      route->leave();
}

void Placer::carry_out(const PlacementPlan& plan)
{
  validate(plan);
  Parts& p = *parts_;
  p.state.why.clear();
  p.state.last_error.clear();
  try
  {
    if (!plan.choose)
    {
      p.choose_no_more();
      if (plan.let_go) p.remove_kept();
      p.settle();
      return;
    }
    static_cast<void>(placed_flows(plan.mark.mask)); // who cannot tell what lives cannot clean up
    p.keep(p.joined(plan));
    p.choose(plan);
    p.expect(placed_at_home);
    for (const PlacementLink& link : p.kept.links)
      p.expect(link.value);
    p.next = now() + between_counts;
  }
  catch (const std::exception& e)
  {
    p.choose_no_more();
    p.state.why = e.what();
    p.settle();
  }
}

std::vector<int> Placer::fds() const
{
  std::vector<int> all {};
  for (const auto& [value, route] : parts_->routes)
    all.push_back(route->fd());
  return all;
}

void Placer::refresh()
{
  for (const auto& [value, route] : parts_->routes)
  {
    try
    {
      route->refresh();
    }
    catch (const std::exception& e)
    {
      parts_->unread = true;
      parts_->state.last_error = e.what();
    }
    if (route->has_rules()) continue;
    parts_->rules_lost = true;
    parts_->look_soon();
  }
}

void Placer::packets_wait(bool wait) noexcept
{
  parts_->packets_wait(wait);
}

void Placer::rules_changed()
{
  if (parts_->state.kept) parts_->look_soon();
}

bool Placer::look(Tick now)
{
  Parts& p = *parts_;
  if (now < p.next) return false;
  const PlacementState before = p.state;
  if (std::exchange(p.unread, false)) refresh();
  try
  {
    if (p.rules_lost)
      for (const auto& [value, route] : p.routes)
        route->put_rules_back();
    p.rules_lost = false;
    if (p.state.in_force)
    {
      const auto known = p.state.count;
      p.count();
      if (p.state.count != known || p.any_away) static_cast<void>(p.anyone_lives());
      p.next = now + between_counts;
    }
    else
    {
      p.pause = std::min(2 * p.pause, between_looks_most);
      p.count();
      if (!p.anyone_lives()) p.remove_kept();
      p.next = p.kept.links.empty() ? Tick::max() : now + p.pause;
      p.rest();
    }
  }
  catch (const std::exception& e)
  {
    p.state.last_error = e.what();
    p.next = now + between_looks_most;
  }
  return p.state != before;
}

Tick Placer::next() const
{
  return parts_->next;
}

const PlacementState& Placer::state() const
{
  return parts_->state;
}

void Placer::clear(const std::string& file) noexcept
{
  try
  {
    Placer { file };
  }
  catch (const std::exception&)
  {
    // No memory: the next start does it.
  }
}

} // namespace tandem::kernel
