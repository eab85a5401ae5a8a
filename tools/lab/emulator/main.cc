// tandem-air: the lab's link emulator.

#include "src/control/standard_output.h"
#include "tools/lab/emulator/engine.h"
#include "tools/lab/emulator/load_scenario.h"

#include <CLI/CLI.hpp>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace
{

// Where profiles are, the first that has one wins: --profiles, $TANDEM_PROFILES, beside the binary (installed or
// built), the build directory this comes from.
std::vector<std::filesystem::path> profile_dirs(const std::string& given)
{
  namespace fs = std::filesystem;
  std::vector<fs::path> dirs;
  if (!given.empty()) dirs.emplace_back(given);
  if (const char* from_environment = std::getenv("TANDEM_PROFILES")) dirs.emplace_back(from_environment);
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error).parent_path();
  dirs.push_back(binary / "../share/tandem/profiles");
  dirs.emplace_back(TANDEM_BUILT_PROFILES);
  return dirs;
}

} // namespace

int main(int argc, char** argv)
{
  CLI::App app { "Carries the lab's packets over an emulated Wi-Fi and cellular air, in real time." };
  app.name("tandem-air");
  std::string scenario_file, profiles;
  tandem::lab::EngineOptions options;
  std::vector<std::string> overrides;
  std::uint64_t seed = 0;
  std::int64_t spin_us = 0;
  bool check_only = false, die_with_parent = false, no_real_time = false;
  app.add_option("--scenario", scenario_file, "scenario file (docs/lab-scenarios.md)")->required();
  app.add_option("--prefix", options.prefix, "prefix of the network namespaces' names")->capture_default_str();
  app.add_option("--state", options.state, "directory for control.sock, frames.sock and ready");
  auto* seed_option = app.add_option("--seed", seed, "instead of the scenario's seed");
  app.add_option("--set", overrides, "SECTION.KEY=VALUE: change the scenario, like wifi.loss=0.003")->take_all();
  app.add_option("--profiles", profiles, "directory of the link profiles");
  app.add_option("--spin", spin_us, "microseconds to wait busily before an event that is near")->capture_default_str();
  app.add_flag("--check", check_only, "only say whether the scenario is well-formed");
  app.add_flag("--die-with-parent", die_with_parent, "end when the process that started this one ends");
  app.add_flag("--no-real-time", no_real_time, "do not ask for real-time priority and locked memory");
  try
  {
    app.parse(argc, argv);
  }
  catch (const CLI::ParseError& e)
  {
    return app.exit(e) == 0 ? tandem::control::written_out("tandem-air") : 2;
  }
  // Before anything slow, so that no death of the parent is missed.
  const pid_t parent = ::getppid();
  if (die_with_parent) ::prctl(PR_SET_PDEATHSIG, SIGTERM);

  try
  {
    const auto scenario = tandem::lab::load_scenario(scenario_file, overrides, profile_dirs(profiles));
    if (check_only)
    {
      std::printf("%s: well-formed: %s\n", scenario_file.c_str(), scenario.name.c_str());
      return 0;
    }
    if (options.state.empty())
    {
      std::fprintf(stderr, "tandem-air: --state DIR is needed to run (a directory for the sockets)\n");
      return 2;
    }
    options.seed = *seed_option ? seed : scenario.seed;
    options.spin_ns = spin_us * 1000;
    std::filesystem::create_directories(options.state);
    tandem::lab::Engine engine(scenario, options);
    engine.open();
    if (!no_real_time)
      if (const std::string missing = tandem::lab::become_real_time(); !missing.empty())
        std::fprintf(stderr, "tandem-air: without %s- release times may be less exact\n", missing.c_str());
    if (die_with_parent && ::getppid() != parent) return 0;
    // Complete or not there at all: readers wait for the name.
    const auto ready = options.state / "ready";
    std::ofstream(ready.string() + ".new") << engine.describe() << '\n';
    std::filesystem::rename(ready.string() + ".new", ready);
    std::printf("ready\n");
    std::fflush(stdout);
    engine.run();
    std::error_code ignored;
    std::filesystem::remove(ready, ignored);
    return 0;
  }
  catch (const tandem::lab::BadInput& e)
  {
    // Plain lines, as a compiler prints them: editors jump to FILE:LINE.
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  catch (const std::exception& e)
  {
    std::fprintf(stderr, "tandem-air: %s\n", e.what());
    return 1;
  }
}
