#include "src/daemon/engine.h"

#include "src/daemon/config.h"
#include "src/daemon/metrics_json.h"
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

namespace tandem::daemon
{

using nlohmann::json;

Engine::Engine(const Config& config, std::vector<int> locks, evidence::Memory memory)
    : loop_ { std::make_unique<PacketLoop>(config, std::move(locks), std::move(memory)) }
{
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
  std::vector<Complaint> complaints = check_modules(config, knob_check(loop_->loaded()));
  if (!complaints.empty()) throw ConfigError { std::move(complaints) };
  loop_->ask([&] { loop_->take_over(config); });
}

json Engine::status()
{
  return loop_->ask([this] { return status_json(loop_->sources()); });
}

json Engine::modules()
{
  return loop_->ask([this] { return all_modules_json(loop_->sources()); });
}

json Engine::links()
{
  return loop_->ask([this] { return links_json(loop_->sources()); });
}

json Engine::flows()
{
  return loop_->ask([this] { return flows_json(loop_->chain(), kernel::now()); });
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
  const std::size_t count = loop_->ask([&] { return loop_->evidence().forget(name); });
  if (count == 0)
    throw control::Refused { control::Refused::Kind::bad_request,
                             "no network \"" + name + "\" is known; `tandem networks` lists them" };
  return count;
}

std::size_t Engine::forget_networks()
{
  return loop_->ask([this] { return loop_->evidence().forget_all(); });
}

std::optional<std::string> Engine::fresh_evidence()
{
  return loop_->ask([this] { return loop_->evidence().fresh_text(); });
}

void Engine::enable(const std::string& module, bool on)
{
  loop_->ask([&] { loop_->switch_module(module, on); });
}

void Engine::set(const std::string& module, const std::string& knob, const std::string& value)
{
  loop_->ask([&] { loop_->set_knob(module, knob, value); });
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

std::string Engine::recording()
{
  PacketLoop& p = *loop_;
  // The copy is made by the packet thread in one stroke; the file is written by whoever asked.
  struct Copy
  {
    std::optional<trace::Recorder> recorder {};
    trace::Heading heading {};
  };
  Copy copy = p.ask(
      [&p]() -> Copy
      {
        trace::Recorder* recorder = p.recorder();
        if (recorder == nullptr) return {};
        recorder->expire(kernel::now());
        return { *recorder,
                 { .version = std::string { version },
                   .commit = {},
                   .command = "tandemd",
                   .kernel = kernel_name(),
                   .knobs = knobs_text(p.chain()),
                   .seed = p.seed(),
                   .wifi_device = p.roles().wifi,
                   .cell_device = p.roles().cell } };
      });
  if (!copy.recorder)
    throw control::Refused { control::Refused::Kind::conflict,
                             "the flight recorder is off; set recorder.seconds in the configuration" };
  std::ostringstream out {};
  if (!trace::write_pcapng(out, *copy.recorder, copy.heading, kernel::realtime_offset()))
    throw control::Refused { control::Refused::Kind::conflict, "the recording could not be written" };
  return std::move(out).str();
}

} // namespace tandem::daemon
