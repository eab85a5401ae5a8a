// The modules with their chain, in virtual time.
#include "src/chain/wanted.h"
#include "src/chain/worth.h"
#include "src/wire/build.h"
#include "src/wire/text.h"
#include "tools/trace/replay.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tandem::trace_tool
{
namespace
{

std::vector<Module*> pointers(const std::vector<std::shared_ptr<Module>>& modules)
{
  std::vector<Module*> all;
  for (const auto& module : modules)
    all.push_back(module.get());
  return all;
}

std::string injected_text(const Decision& decision)
{
  const wire::Parsed parsed = wire::parse(decision.bytes, Direction::egress, false, 0, 0);
  return "injected by " + std::string { name(decision.by) } + ": "
         + (parsed.ok() ? wire::describe(parsed.segment) : wire::hex_line(decision.bytes, 40));
}

} // namespace

std::string Decision::text() const
{
  std::string text;
  const auto add = [&text](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
  if (what == What::dropped)
    add("dropped");
  else if (what == What::injected)
    add(injected_text(*this));
  else
  {
    if (edit.ack) add("ack " + std::to_string(edit.ack->raw));
    if (edit.window) add("win " + std::to_string(*edit.window));
    if (edit.ts_value) add("TSval " + std::to_string(edit.ts_value->raw));
    if (edit.ts_echo) add("TSecr " + std::to_string(edit.ts_echo->raw));
    if (edit.ecn) add("ECN field " + std::to_string(static_cast<unsigned>(*edit.ecn)));
    if (edit.route) add("by " + std::string { name(*edit.route) });
    if (text.empty()) add("passed");
  }
  return why.empty() ? text : text + " | " + std::string { why };
}

Player::Player(const Settings& settings, std::vector<std::shared_ptr<Module>> modules)
    : modules_ { std::move(modules) }, chain_ { { .seed = settings.seed, .worth = chain::worth_bytes },
                                                pointers(modules_) }
{
  for (const KnobValue& one : settings.knobs)
    for (const auto& module : modules_)
      if (module->name() == one.module) module->set(one.knob, one.value);
  LinkStates links {};
  links[static_cast<std::size_t>(Link::wifi)] = { .present = true, .up = true, .route = true, .route_v6 = true };
  if (settings.cell) links[static_cast<std::size_t>(Link::cell)] = links[static_cast<std::size_t>(Link::wifi)];
  for (std::size_t i = 0; i < chain_.module_count(); ++i)
    chain_.enable(i, true, Tick {});
  chain_.links(links, Tick {});
  chain_.output().clear();
  wanted_ = chain::wanted(chain_);
}

void Player::carry_out(Tick now, const Injected& injected)
{
  chain::Output& output = chain_.output();
  if (output.empty()) return;
  std::array<std::byte, 256> buffer {};
  for (const chain::Injection& one : output.segments)
  {
    const std::size_t length = wire::build(buffer, one.key, one.segment, one.ip_class);
    chain_.sent(one, length);
    if (length == 0) continue;
    injected(one.key, now,
             { .what = Decision::What::injected,
               .bytes = { buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(length) },
               .by = one.segment.by,
               .why = one.why });
  }
  // What a second download would have brought is not in a recording.
  for (const chain::FetchRequest& one : output.fetches)
    chain_.fetch_refused(one);
  output.clear();
}

void Player::run(Tick until, const Injected& injected)
{
  if (next_ == Tick::min()) next_ = until; // nothing was before the first packet
  while (next_ <= until)
  {
    const Tick now = next_;
    next_ = chain_.advance(now);
    carry_out(now, injected);
    if (next_ <= now) next_ = now + std::chrono::microseconds { 100 }; // as the daemon's timer
  }
}

Decision Player::segment(const Segment& segment, bool queued, Tick now, const Injected& injected)
{
  const chain::Outcome outcome = chain_.segment(segment, queued, now);
  carry_out(now, injected);
  next_ = chain_.advance(now);
  carry_out(now, injected);
  if (next_ <= now) next_ = now + std::chrono::microseconds { 100 };
  Decision decision { .edit = outcome.edit, .why = outcome.why };
  if (outcome.verdict == Verdict::drop) decision.what = Decision::What::dropped, decision.edit = {};
  return decision;
}

} // namespace tandem::trace_tool
