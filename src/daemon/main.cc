// tandemd: read the configuration, take the lock, give up privileges, run the packet loop.
#include "src/control/server.h"
#include "src/control/standard_output.h"
#include "src/daemon/config.h"
#include "src/daemon/engine.h"
#include "src/daemon/evidence_driver.h"
#include "src/daemon/evidence_file.h"
#include "src/daemon/health.h"
#include "src/daemon/layout.h"
#include "src/daemon/lock.h"
#include "src/daemon/module_loader.h"
#include "src/daemon/piece_options.h"
#include "src/daemon/privileges.h"
#include "src/daemon/restart_pause.h"
#include "src/daemon/saved_file.h"
#include "src/daemon/service.h"
#include "src/daemon/signals.h"
#include "src/daemon/version.h"
#include "src/daemon/whole_file.h"
#include "src/kernel/clock.h"

#include <CLI/CLI.hpp>
#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::daemon
{
namespace
{

constexpr int exit_failure = 1;
constexpr int exit_bad_input = 2;

struct Options
{
  std::string file;
  std::string wifi;
  std::string cell;
  std::string socket;
  std::vector<std::string> modules;
  std::vector<std::string> default_modules;
  std::vector<std::string> settings;
  bool check = false;
};

// What the file and the command line on top of it say, and what is wrong with either.
ConfigResult configured(const Options& options)
{
  ConfigResult result;
  Config& config = result.config;
  std::vector<Complaint>& complaints = result.complaints;
  if (!options.file.empty())
    result = read_config(options.file);
  else if (std::filesystem::exists(default_config_file()))
    result = read_config(default_config_file());

  // Built in, so to speak: whatever anybody says of them is above it.
  for (const std::string& name : options.default_modules)
    if (std::none_of(config.modules.begin(), config.modules.end(), [&](const auto& one) { return one.name == name; }))
      config.modules.push_back({ .name = name, .where = { "built-in", 0 } });

  const auto take = [&](const std::string& key, const std::string& value)
  {
    if (auto complaint = override_setting(config, key, value)) complaints.push_back(std::move(*complaint));
  };
  if (!options.wifi.empty()) take("links.wifi", options.wifi);
  if (!options.cell.empty()) take("links.cell", options.cell);
  if (!options.socket.empty()) take("daemon.socket", options.socket);
  for (const std::string& module : options.modules)
    take("modules." + module + ".enabled", "true");
  for (const std::string& setting : options.settings)
  {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos)
      complaints.push_back({ { "command line", 0 }, "--set " + setting + ": KEY=VALUE is needed" });
    else
      take(setting.substr(0, equals), setting.substr(equals + 1));
  }
  if (complaints.empty()) complaints = conflicts(config); // those of the file alone are among its mistakes
  return result;
}

struct Checked
{
  Config config {};
  std::vector<Complaint> warnings {}; // what has no effect any more
};

// Names and values of modules and knobs, too, against the modules that would be loaded. Throws ConfigError with
// everything that is wrong.
Checked checked(const Options& options)
{
  auto [config, complaints] = configured(options);
  const LoadedModules loaded = load_modules(module_directory(config.daemon.module_dir));
  std::vector<Complaint> warnings = config.warnings;
  for (Complaint& complaint : check_modules(config, loaded, &warnings))
    complaints.push_back(std::move(complaint));
  if (complaints.empty()) return { std::move(config), std::move(warnings) };
  // As one reads the file, then the command line (it has no lines).
  const auto line = [](const Complaint& one) { return one.where.line > 0 ? one.where.line : INT_MAX; };
  std::stable_sort(complaints.begin(), complaints.end(),
                   [&](const Complaint& a, const Complaint& b) { return line(a) < line(b); });
  throw ConfigError { std::move(complaints) };
}

// Under another name until it is whole, so that nobody reads half a recording.
void save_recording(control::Backend& engine, const std::filesystem::path& directory)
{
  const std::string bytes = engine.recording({});
  const auto file = directory / ("tandem-" + file_stamp(std::time(nullptr)) + ".pcapng");
  ::mkdir(directory.c_str(), 0750);
  try
  {
    write_whole(file, bytes);
  }
  catch (const std::exception& error)
  {
    throw std::runtime_error { std::string { "recording " } + error.what() };
  }
  log(Severity::notice, "recording saved: " + file.string() + " (" + std::to_string(bytes.size()) + " bytes)");
}

struct EvidenceKept
{
  std::optional<EvidenceFile> file {}; // without it nothing is remembered
  evidence::Memory memory {};
};

EvidenceKept remember(const Config::Evidence& config)
{
  EvidenceKept kept {};
  if (!config.remembers()) return kept;
  kept.file.emplace(config.directory);
  if (kept.file->problem().empty()) kept.memory = kept.file->load(wall(kernel::now()));
  if (!kept.file->problem().empty()) log(Severity::warning, kept.file->problem());
  return kept;
}

// What a signal asks for must never end the daemon.
template <class Work>
void logged(const char* what, Work work)
{
  try
  {
    work();
  }
  catch (const std::exception& error)
  {
    log(Severity::error, std::string { what } + " failed, nothing was changed: " + error.what());
  }
}

void tell_warnings(const Checked& given)
{
  for (const Complaint& each : given.warnings)
    log(Severity::warning, each.text());
}

void tell_remarks(Engine& engine)
{
  for (const SettingLayers::Remark& each : engine.remarks())
    log(Severity::warning, each.text, { .module = each.module });
}

void reload(Engine& engine, const Options& options)
{
  notify_service_manager("RELOADING=1");
  const Checked fresh = checked(options);
  engine.reload(fresh.config);
  tell_warnings(fresh);
  tell_remarks(engine);
  log(Severity::notice, "module switches, knobs, exclusions, profiles, placement and limits of days and months taken "
                        "over; other settings need a restart");
}

// Alive means that packets are looked at, so it is the packet thread that must answer.
bool give_sign_of_life(Engine& engine)
{
  try
  {
    engine.status();
    notify_service_manager("WATCHDOG=1");
    return true;
  }
  catch (const control::Refused& refused)
  {
    log(Severity::warning, std::string { "no sign of life to the watchdog: " } + refused.what());
    return false;
  }
}

void run(const Options& options)
{
  hold_requests();
  const Checked given = checked(options);
  const Config& config = given.config;
  tell_warnings(given);

  // Root's or the service's directory: the lock is where the socket is.
  const std::filesystem::path run_directory = config.daemon.socket.parent_path();
  const InstanceLock lock { run_directory / "tandemd.lock" };
  const InstanceLock alone { namespace_lock_file(run_directory) };
  require_privileges();
  // Loading it needs more than is kept, running it does not.
  const kernel::PacingProgram pacing = config.daemon.pacing == Pacing::automatic
                                           ? kernel::load_pacing_program()
                                           : kernel::PacingProgram { .why = "daemon.pacing is \"interface\"" };
  drop_privileges(config.daemon.socket_group);

  EvidenceKept kept = remember(config.evidence);
  SavedFile saved { config.daemon.saved_directory };
  SavedSettings settings = saved.load();
  if (!saved.problem().empty()) log(Severity::warning, saved.problem());
  Engine engine { config,
                  { { lock.descriptor(), alone.descriptor() }, pacing },
                  std::move(kept.memory),
                  std::move(saved),
                  std::move(settings) };
  tell_remarks(engine);
  control::ServerOptions serving { .socket = config.daemon.socket, .group = config.daemon.socket_group };
  if (const auto& listen = config.metrics.listen) serving.tcp = { listen->host, listen->port };
  serving.doctor = [&config, &pacing] { return machine_health(config, &pacing); };
  serving.log = [](const std::string& line, const std::string& module)
  { log(Severity::info, line, { .module = module }); };
  const control::Server server { engine, std::move(serving) };

  const Duration watchdog = watchdog_period();
  const Signals signals { {
      .stop = [&engine] { engine.stop(); },
      .reload =
          [&]
      {
        logged("reloading the configuration", [&] { reload(engine, options); });
        notify_service_manager("READY=1");
      },
      .save = [&] { logged("saving the recording", [&] { save_recording(engine, config.recorder.directory); }); },
      .heartbeat = [&engine] { return give_sign_of_life(engine); },
      .period = watchdog / 2,
  } };

  std::optional<EvidenceSaver> saver {};
  if (kept.file)
  {
    saver.emplace(
        *kept.file, [&engine] { return engine.fresh_evidence(); },
        [](const std::string& problem) { log(Severity::warning, problem); });
    engine.on_fresh_evidence([&saver](bool rests) { saver->news(rests); });
  }

  notify_service_manager("READY=1");
  log(Severity::notice,
      "version " + std::string { version } + " ready, control socket " + config.daemon.socket.string());
  engine.run();
  notify_service_manager("STOPPING=1");
  log(Severity::notice, "stopped");
}

// Answers of megabytes (a recording, ten thousand flows) come and go rarely; without this a daemon of months keeps what
// they took. glibc raises the size from which a block has a mapping of its own to the largest one that was given back,
// so that the next ones leave holes in the heap (mallopt(3), M_MMAP_THRESHOLD: set, it stays), and gives each thread a
// heap: two are enough, the packet loop's and one for all others.
void give_back_memory()
{
  constexpr int block = 256 * 1024, top = 1024 * 1024;
  mallopt(M_MMAP_THRESHOLD, block);
  mallopt(M_TRIM_THRESHOLD, top);
  mallopt(M_ARENA_MAX, 2);
}

// systemd starts it again a second after a failure, whatever the cause and however often (docs/confinement.md): one
// that stays is met ever more seldom. SIGTERM ends the wait. Nobody waits whose run directory is not systemd's.
void wait_for_restart(const std::string& file, Duration lived)
{
  if (file.empty()) return;
  const unsigned failures = count_failure(file, lived);
  const Duration pause = restart_pause(failures);
  if (pause == Duration {}) return;
  const std::string text = "failed at once, " + std::to_string(failures) + " times in a row: ends in "
                           + std::to_string(std::chrono::ceil<std::chrono::seconds>(pause).count())
                           + " s, to be started again";
  log(Severity::notice, text);
  notify_service_manager("STATUS=" + text);
  std::this_thread::sleep_for(pause);
}

int main(int argc, char** argv)
{
  const Tick started = kernel::now();
  give_back_memory();
  std::signal(SIGCHLD, SIG_DFL); // else who started it may have it ignored, and no child's end is told (wait(2))
  Options options;
  bool foreground = false;
  CLI::App app { "tandemd: makes downloads over Wi-Fi plus cellular faster and steadier.\n"
                 "Started by `tandem up` or systemd; see tandemd(8) and tandem.toml(5)." };
  app.set_version_flag("--version", "tandemd " + std::string { version });
  app.add_option("-c,--config", options.file,
                 "configuration file (default " + default_config_file().string() + " when it exists)");
  app.add_option("--wifi", options.wifi, "Wi-Fi interface, or auto");
  app.add_option("--cell", options.cell, "cellular interface, auto or none");
  app.add_option("--socket", options.socket, "control socket");
  app.add_option("--module", options.modules, "switch this module on (may be repeated)")->allow_extra_args(false);
  app.add_option(
         "--default-module", options.default_modules,
         "switch this module on where neither the configuration file nor a saved setting says on or off (may be "
         "repeated)")
      ->allow_extra_args(false);
  app.add_option("--set", options.settings, "any setting, e.g. --set daemon.queue=7 (may be repeated)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--check", options.check, "check the configuration and end");
  app.add_flag("--foreground", foreground, "stay attached to the terminal (tandemd always does)");
  try
  {
    app.parse(argc, argv);
  }
  catch (const CLI::ParseError& error)
  {
    const int code = app.exit(error);
    return code == 0 ? control::written_out("tandemd") : exit_bad_input;
  }

  const char* kept_between_runs = std::getenv("RUNTIME_DIRECTORY"); // systemd.exec(5)
  const std::string failures = kept_between_runs ? std::string { kept_between_runs } + "/failures" : "";
  try
  {
    if (options.check)
    {
      for (const Complaint& each : checked(options).warnings)
        std::cerr << each.text() << '\n';
      std::cout << "the configuration is fine\n";
      return control::written_out("tandemd");
    }
    run(options);
    forget_failures(failures);
    return 0;
  }
  catch (const ConfigError& error)
  {
    // Plain lines, as a compiler prints them: editors jump to FILE:LINE.
    std::cerr << error.what() << '\n';
    return exit_bad_input;
  }
  catch (const std::exception& error)
  {
    log(Severity::error, error.what());
    if (!options.check) wait_for_restart(failures, kernel::now() - started);
    return exit_failure;
  }
}

} // namespace
} // namespace tandem::daemon

int main(int argc, char** argv)
{
  return tandem::daemon::main(argc, argv);
}
