// What is left alone: by the configuration, and by what is saved beside it.
#include "src/daemon/config_value.h"
#include "src/daemon/engine.h"
#include "src/daemon/packet_loop.h"

#include <algorithm>
#include <ctime>
#include <optional>
#include <utility>
#include <vector>

namespace tandem::daemon
{

using control::Refused;
using nlohmann::json;

namespace
{

const Source from_saved { "saved", 0 };

Exclusion parsed(const std::string& kind, const std::string& what)
{
  const auto known = exclusion_kind(kind);
  if (!known) throw Refused { Refused::Kind::bad_request, in_quotes(kind) + ": to, user, service or ssid is needed" };
  auto one = parse_exclusion(*known, what);
  if (!one)
    throw Refused { Refused::Kind::bad_request, kind + " " + in_quotes(what) + ": " + std::string { needed(*known) } };
  return *one;
}

} // namespace

Config Engine::with_saved(Config config, const SavedExclusions& saved) const
{
  for (const auto& [one, at_s] : saved)
    config.exclude.push_back({ one, from_saved });
  return config;
}

// Into the file first: then "saved" means on the disk, and nothing has changed when it cannot be.
void Engine::take_exclusions(SavedExclusions fresh)
{
  const auto put = [&] { loop_->ask([&] { loop_->exclude(with_saved(layers_.merged(), fresh).exclude); }); };
  if (!exclusions_file_.save(fresh, saved_exclusions_, put))
    throw Refused { Refused::Kind::conflict, "nothing has changed: " + exclusions_file_.problem() };
  saved_exclusions_ = std::move(fresh);
}

json Engine::exclusions()
{
  const std::lock_guard guard { settings_mutex_ };
  json all = loop_->ask([this] { return loop_->exclusions().json(); });
  const Config config = layers_.merged();
  for (json& one : all)
  {
    const Exclusion what = parsed(one["kind"], one["what"]);
    const auto written = std::find_if(config.exclude.begin(), config.exclude.end(),
                                      [&](const ExclusionSetting& each) { return each.what == what; });
    const auto saved = saved_exclusions_.find(what);
    one["from"] = written != config.exclude.end() ? written->where.text() : from_saved.text();
    if (saved != saved_exclusions_.end()) one["saved_s"] = saved->second;
  }
  return { { "file", exclusions_file_.path().string() },
           { "problem", exclusions_file_.problem() },
           { "exclusions", std::move(all) } };
}

json Engine::add_exclusion(const std::string& kind, const std::string& what)
{
  const std::lock_guard guard { settings_mutex_ };
  const Exclusion one = parsed(kind, what);
  SavedExclusions fresh = saved_exclusions_;
  if (fresh.emplace(one, std::time(nullptr)).second)
  {
    if (fresh.size() > most_exclusions)
      throw Refused { Refused::Kind::conflict, "there are " + std::to_string(most_exclusions)
                                                   + " exclusions already; `tandem exclude remove` makes room" };
    take_exclusions(std::move(fresh));
  }
  return { { "kind", name(one.kind) }, { "what", one.what } };
}

json Engine::remove_exclusion(const std::string& kind, const std::string& what)
{
  const std::lock_guard guard { settings_mutex_ };
  const Exclusion one = parsed(kind, what);
  const Config config = layers_.merged();
  const auto written = std::find_if(config.exclude.begin(), config.exclude.end(),
                                    [&](const ExclusionSetting& each) { return each.what == one; });
  SavedExclusions fresh = saved_exclusions_;
  const bool saved = fresh.erase(one) > 0;
  if (saved) take_exclusions(std::move(fresh));
  if (written != config.exclude.end())
    throw Refused { saved ? Refused::Kind::conflict : Refused::Kind::bad_request,
                    one.text() + " is excluded by " + written->where.text()
                        + (written->where.line > 0 ? ": remove it there, then `systemctl reload tandemd`" : "") };
  if (!saved)
    throw Refused { Refused::Kind::bad_request, one.text() + " is not excluded; `tandem exclude list` shows what is" };
  return { { "kind", name(one.kind) }, { "what", one.what } };
}

} // namespace tandem::daemon
