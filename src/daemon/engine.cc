#include "src/daemon/engine.h"

#include "src/daemon/config.h"
#include "src/daemon/layout.h"
#include "src/daemon/metrics_json.h"
#include "src/daemon/module_loader.h"
#include "src/daemon/module_settings.h"
#include "src/daemon/packet_loop.h"
#include "src/daemon/piece_options.h"
#include "src/daemon/status.h"
#include "src/daemon/status_json.h"
#include "src/daemon/version.h"
#include "src/kernel/clock.h"
#include "src/trace/pcapng_writer.h"

#include <optional>
#include <sstream>
#include <utility>
#include <variant>

namespace tandem::daemon
{

using nlohmann::json;

namespace
{

// They must live as long as what is returned.
KnownSettings known_settings(const LoadedModules& loaded)
{
  return { .check = knob_check(loaded), .canonical = [&loaded](const SettingName& name, const std::string& value) {
            return shown_knob(loaded, name.module, name.knob, value);
          } };
}

} // namespace

Engine::Engine(const Config& config, ForKeeper for_keeper, evidence::Memory memory, SavedFile saved,
               SavedSettings settings)
    : file_ { std::move(saved) }, layers_ { config, std::move(settings) },
      exclusions_file_ { config.daemon.saved_directory }, saved_exclusions_ { exclusions_file_.load() },
      aps_file_ { config.daemon.saved_directory }, saved_aps_ { aps_file_.load() }, mptcp_setup_ { config.mptcp.setup }
{
  Config merged {};
  {
    // The loop loads its own, after it has forked the keeper.
    const LoadedModules loaded = load_modules(module_directory(config.daemon.module_dir));
    layers_.ask(known_settings(loaded));
    merged = layers_.merged();
    layers_.ask({});
  }
  loop_ = std::make_unique<PacketLoop>(with_saved(std::move(merged), saved_exclusions_), std::move(for_keeper),
                                       std::move(memory));
  layers_.ask(known_settings(loop_->loaded()));
  loop_->follow(layers_);
  make_associator(config);
}

Engine::~Engine() = default;

void Engine::run()
{
  loop_->run();
}

void Engine::stop() noexcept
{
  loop_->stop();
}

void Engine::reload(const Config& config)
{
  // All or nothing: names and values are checked before the first one is taken over.
  std::vector<Complaint> complaints = check_modules(config, loop_->loaded());
  if (!complaints.empty()) throw ConfigError { std::move(complaints) };
  const std::lock_guard guard { settings_mutex_ };
  ask_profile();
  SettingLayers fresh = layers_;
  fresh.rest_on(config);
  loop_->ask(
      [&]
      {
        loop_->follow(fresh);
        fresh.hold(loop_->profile()); // profiles may be others now
        loop_->take_over(with_saved(fresh.merged(), saved_exclusions_));
      });
  layers_ = std::move(fresh);
}

json Engine::status()
{
  json all = loop_->ask([this] { return status_json(loop_->sources()); });
  all["roaming"] = associator_->roaming();
  return all;
}

json Engine::links()
{
  return loop_->ask([this] { return links_json(loop_->sources()); });
}

json Engine::flows()
{
  return loop_->ask([this] { return loop_->flows_json(); });
}

std::string Engine::manual(const std::string& module)
{
  return loop_->ask([&] { return manual_text(loop_->chain().module(slot_of(loop_->chain(), module))); });
}

json Engine::metrics()
{
  const json now = status();
  return metrics_json(now, loop_->ask([this] { return loop_->watch().known_json(); }));
}

json Engine::networks()
{
  return loop_->ask([this] { return loop_->evidence().networks_json(kernel::now()); });
}

std::size_t Engine::forget_network(const std::string& name)
{
  const std::size_t count = loop_->ask([&] { return loop_->evidence_to_change().forget(name); });
  if (count == 0)
    throw control::Refused { control::Refused::Kind::bad_request,
                             "no network or cellular link \"" + name + "\" is known; `tandem networks` lists them" };
  return count;
}

std::size_t Engine::forget_networks()
{
  return loop_->ask([this] { return loop_->evidence_to_change().forget_all(); });
}

std::optional<std::string> Engine::fresh_evidence()
{
  return loop_->ask([this] { return loop_->fresh_evidence(); });
}

void Engine::on_fresh_evidence(std::function<void(bool rests)> tell)
{
  loop_->on_news(std::move(tell));
}

void Engine::announce(const std::string& what, double for_s)
{
  constexpr double longest = 60;
  const auto word = what == "risk"   ? std::optional { links::Announcement::risk }
                    : what == "down" ? std::optional { links::Announcement::down }
                    : what == "up"   ? std::optional { links::Announcement::up }
                                     : std::nullopt;
  if (!word)
    throw control::Refused { control::Refused::Kind::bad_request,
                             "what = \"" + what + "\": risk, down or up is needed" };
  if (!(for_s > 0 && for_s <= longest))
    throw control::Refused { control::Refused::Kind::bad_request,
                             "for_s: a number of seconds above 0 and up to 60 is needed" };
  loop_->ask([&] { loop_->watch().announce(*word, from_seconds(for_s)); });
}

std::string Engine::recording(const control::Part& wanted)
{
  // The copy is made by the packet thread in one stroke; the file is written by whoever asked.
  const std::optional<Snapshot> copy = loop_->ask([this] { return loop_->snapshot(); });
  if (!copy)
    throw control::Refused { control::Refused::Kind::conflict,
                             "the flight recorder is off; set recorder.seconds in the configuration" };
  const trace::Stretch stretch { .since = wanted.last > Duration {} ? kernel::now() - wanted.last : Tick::min(),
                                 .after = wanted.after.value_or(0) };
  std::ostringstream out {};
  if (!trace::write_pcapng(out, copy->recorder, copy->heading, kernel::realtime_offset(), stretch))
    throw control::Refused { control::Refused::Kind::conflict, "the recording could not be written" };
  return std::move(out).str();
}

json Engine::budget()
{
  return loop_->ask([this] { return loop_->budget().json(); });
}

json Engine::traps()
{
  return loop_->ask(
      [this]
      {
        json all = json::array();
        for (const Traps::One& one : loop_->traps().all())
        {
          json trap { { "id", one.id }, { "when", one.trap.text() }, { "save", one.save }, { "fired", one.fired } };
          if (one.fired > 0) trap["saw"] = one.saw;
          if (one.fired > 0) trap["ago_s"] = seconds(kernel::now() - one.fired_at);
          if (!one.file.empty()) trap["file"] = one.file;
          if (!one.problem.empty()) trap["problem"] = one.problem;
          all.push_back(std::move(trap));
        }
        return all;
      });
}

std::uint64_t Engine::add_trap(const std::string& when, bool save)
{
  using control::Refused;
  const auto parsed = parse_trap(when);
  if (const auto* wrong = std::get_if<std::string>(&parsed)) throw Refused { Refused::Kind::bad_request, *wrong };
  const auto added = loop_->ask(
      [&]() -> std::optional<std::uint64_t>
      {
        if (save && loop_->recorder() == nullptr)
          throw Refused { Refused::Kind::conflict,
                          "the flight recorder is off; set recorder.seconds in the configuration" };
        return loop_->traps().add(std::get<Trap>(parsed), save);
      });
  if (!added)
    throw Refused { Refused::Kind::conflict,
                    "there are " + std::to_string(Traps::most) + " traps already; remove one first" };
  return *added;
}

void Engine::remove_trap(std::uint64_t id)
{
  if (!loop_->ask([&] { return loop_->traps().remove(id); }))
    throw control::Refused { control::Refused::Kind::bad_request,
                             "no trap " + std::to_string(id) + "; `tandem trap list` shows them" };
}

} // namespace tandem::daemon
