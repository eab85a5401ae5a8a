// tandem: the command line.
#include "src/control/literal.h"
#include "src/daemon/layout.h"
#include "src/daemon/version.h"
#include "src/daemon/whole_file.h"
#include "tools/tandem/aps.h"
#include "tools/tandem/budget_view.h"
#include "tools/tandem/client.h"
#include "tools/tandem/exclude.h"
#include "tools/tandem/help.h"
#include "tools/tandem/json_values.h"
#include "tools/tandem/life.h"
#include "tools/tandem/links_view.h"
#include "tools/tandem/logs.h"
#include "tools/tandem/networks_view.h"
#include "tools/tandem/output.h"
#include "tools/tandem/python_tool.h"
#include "tools/tandem/settings.h"
#include "tools/tandem/show.h"
#include "tools/tandem/top.h"
#include "tools/tandem/traps.h"
#include "tools/trace/no_nan.h"

#ifdef TANDEM_WITH_TRACE
#include "tools/trace/command.h"
#endif
#ifdef TANDEM_WITH_HEALTH
#include "src/daemon/config.h"
#include "src/daemon/health.h"
#endif

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::cli
{
namespace
{

using nlohmann::json;

// Shows once, or again every second until Ctrl-C. With --json a watch is one document a line.
int show(const Client& client, const std::string& target, bool as_json, bool watch,
         const std::function<std::string(const json&, const Style&)>& text)
{
  const Style style = style_of_stdout();
  while (true)
  {
    const json value = client.get_json(target);
    if (as_json)
      print(pretty(value, watch ? -1 : 2));
    else
      // Home, then clear what is left below: no flicker.
      print((watch && stdout_is_screen() ? "\x1b[H\x1b[2J" : "") + text(value, style));
    if (!watch) return 0;
    std::this_thread::sleep_for(std::chrono::seconds { 1 });
  }
}

#ifdef TANDEM_WITH_HEALTH
json examine_here(const std::string& file)
{
  daemon::Config config;
  try
  {
    std::error_code fault;
    if (!file.empty())
      config = daemon::load_config(file);
    else if (std::filesystem::exists(default_config_file(), fault))
      config = daemon::load_config(default_config_file());
  }
  catch (const daemon::ConfigError& error)
  {
    throw Failure { error.what(), exit_bad_input };
  }
  return daemon::machine_health(config);
}
#endif

// A running daemon knows its own configuration; without one this process looks.
int doctor_command(const Client& client, const std::string& file, bool as_json)
{
  json doctor;
#ifdef TANDEM_WITH_HEALTH
  bool from_daemon = false;
  try
  {
    if (file.empty())
    {
      doctor = client.get_json("/v1/doctor", std::chrono::seconds { 20 });
      from_daemon = true;
    }
  }
  catch (const NotRunning&)
  {
  }
  catch (const Failure& failure)
  {
    // Not permitted, or hanging: all the more reason to look, but what this process may do is not what the daemon may.
    std::cerr << "tandem: the running daemon could not be asked (" << failure.what()
              << "); this is what this process finds\n";
  }
  if (!from_daemon) doctor = examine_here(file);
#else
  if (!file.empty()) throw Failure { "this build can only ask a running daemon: leave out --config" };
  doctor = client.get_json("/v1/doctor", std::chrono::seconds { 20 });
#endif
  print(as_json ? pretty(doctor) : show_doctor(doctor, style_of_stdout()));
  return doctor.value("health", "fail") == "fail" ? 1 : 0;
}

int forget_command(const Client& client, const std::string& network, bool all, bool as_json)
{
  if (network.empty() && !all) throw Failure { "which network? a NAME or --all is needed", exit_bad_input };
  const json answer = client.post("/v1/networks/forget", all ? json { { "all", true } } : json { { "name", network } });
  const std::string count = answer.value("forgotten", json {}).dump();
  print(as_json ? pretty(answer) : count + (count == "1" ? " network" : " networks") + " forgotten\n");
  return 0;
}

// A pipe or a device stays what it is.
void write_to_device(const std::string& file, std::string_view bytes)
{
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  while (descriptor >= 0 && !bytes.empty())
  {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  if (descriptor < 0 || !bytes.empty() || ::close(descriptor) != 0)
    throw Failure { file + ": " + std::strerror(errno) };
}

int save_recording(const Client& client, const std::string& file, const std::string& last = {})
{
  std::string target = "/v1/recording";
  if (!last.empty())
  {
    const auto span = parse_duration(last);
    if (!span || *span <= Duration {} || *span > std::chrono::hours { 1 })
      throw Failure { "--last " + last + ": a duration such as 30s is needed, up to 1h", exit_bad_input };
    target += "?last_s=" + CLI::detail::to_string(seconds(*span));
  }
  const std::string bytes = client.get(target, std::chrono::seconds { 30 });
  if (file == "-")
  {
    print(bytes);
    return 0;
  }
  // It holds packets: for its owner only. Half of it is not left, and what was there before is kept when it fails.
  std::error_code fault;
  const auto there = std::filesystem::status(file, fault);
  const auto whole = std::filesystem::weakly_canonical(file, fault); // a link stays one
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    write_to_device(file, bytes);
  else
    daemon::write_whole(fault ? std::filesystem::path { file } : whole, bytes);
  std::cerr << file << ": " << bytes.size() << " bytes\n";
  return 0;
}

int version_command(const Client& client, bool as_json)
{
  json all { { "tandem", version }, { "tandemd", nullptr } };
  std::string words = "not running";
  try
  {
    words = words_of(client.get_json("/v1/status"), "version");
    if (words.empty()) words = "unknown";
    all["tandemd"] = words;
  }
  catch (const NotRunning&)
  {
  }
  catch (const Failure& failure)
  {
    // It may well run: no permission, or no answer.
    all["problem"] = failure.what();
    words = std::string { "unknown: " } + failure.what();
  }
  print(as_json ? pretty(all) : "tandem " + std::string { version } + "\ntandemd " + words + '\n');
  return 0;
}

int main(int argc, char** argv)
{
  CLI::App app { "tandem: faster and steadier downloads over Wi-Fi plus cellular.\n"
                 "Start with `tandem doctor`, then `tandem up`." };
  app.name("tandem");
  app.require_subcommand(1);
  app.set_version_flag("--version", "tandem " + std::string { version });
  std::string socket = default_socket;
  app.add_option("--socket", socket, "control socket of the daemon")->envname("TANDEM_SOCKET")->capture_default_str();

  int exit_code = 0;
  std::function<int(const Client&)> chosen;
  bool as_json = false;
  bool watch = false;
  const auto command = [&](const char* name, const char* help, std::function<int(const Client&)> work)
  {
    CLI::App* sub = app.add_subcommand(name, help);
    if (work) sub->callback([&chosen, work] { chosen = work; });
    return sub;
  };
  const auto with_json = [&](CLI::App* sub) { sub->add_flag("--json", as_json, "print JSON"); };

  UpOptions starting;
  CLI::App* sub = command("up", "start the daemon", [&](const Client& c) { return up(starting, c); });
  // The value of a variable that is not set would be taken for an option that is not there: --cell "" for auto.
  const CLI::Validator not_empty { [](const std::string& text)
                                   { return text.empty() ? "an empty text names nothing; a value is needed" : ""; },
                                   "" };
  sub->add_option("--wifi", starting.wifi, "Wi-Fi interface, or auto")->check(not_empty);
  sub->add_option("--cell", starting.cell, "cellular interface, auto or none")->check(not_empty);
  sub->add_option("--module", starting.modules, "switch this module on (may be repeated)")
      ->allow_extra_args(false)
      ->check(not_empty);
  sub->add_flag_callback(
      "--mptcp", [&starting] { starting.settings.insert(starting.settings.begin(), "mptcp.setup=true"); },
      "set MPTCP up while the daemon runs: endpoints on the links, limits");
  sub->add_option("--set", starting.settings, "any setting of tandem.toml (may be repeated)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->check(not_empty);
  sub->add_option("-c,--config", starting.config, "configuration file")->check(not_empty);
  sub->add_flag("--foreground", starting.foreground, "stay attached to the terminal");

  command("down", "stop the daemon", [](const Client& c) { return down(c); });

  sub = command("status", "links, modules and counters",
                [&](const Client& c) { return show(c, "/v1/status", as_json, watch, show_status); });
  with_json(sub);
  sub->add_flag("-w,--watch", watch, "again every second, until Ctrl-C");

  attach_settings(app, chosen, as_json);
  attach_exclude(app, chosen, as_json);
  attach_aps(app, chosen, as_json);

  sub = command("flows", "TCP connections and what is done to each",
                [&](const Client& c) { return show(c, "/v1/flows", as_json, watch, show_flows); });
  with_json(sub);
  sub->add_flag("-w,--watch", watch, "again every second, until Ctrl-C");

  command("top", "links, modules and flows on one screen; keys switch modules", [](const Client& c) { return top(c); });

  std::string server;
  sub = command("why", "what is done to the connections to a server, by which module and why",
                [&](const Client& c) { return why(c, server, as_json); });
  sub->add_option("HOST", server, "name or address, with :PORT if only that one")->required();
  with_json(sub);

  sub = command("links", "what driver statistics tell of access points and modem: packet time, delivery, signal",
                [&](const Client& c)
                {
                  LinksView view {};
                  return show(c, "/v1/links", as_json, watch,
                              [&view](const json& links, const Style& style) { return view.show(links, style); });
                });
  with_json(sub);
  sub->add_flag("-w,--watch", watch, "again every second, with how it went lately, until Ctrl-C");

  sub = command("budget", "what Tandem has put on the cellular link, per day, month and module, and what is left",
                [&](const Client& c) { return show(c, "/v1/budget", as_json, false, show_budget); });
  with_json(sub);

  std::string network;
  bool every = false;
  CLI::App* networks = command(
      "networks", "what was learnt: where modules gain, harm and rest; cellular paths known, and not tried", {});
  with_json(networks);
  networks->callback(
      [&]
      {
        if (networks->get_subcommands().empty())
          chosen = [&](const Client& c) { return show(c, "/v1/networks", as_json, false, show_networks); };
      });
  sub = networks->add_subcommand("forget", "forget a network, a cellular link's paths, or all of it");
  CLI::Option* which =
      sub->add_option("NAME", network, "SSID, gateway, cellular link or its interface, as `tandem networks` shows it");
  sub->add_flag("--all", every, "every network and cellular link")->excludes(which);
  with_json(sub);
  sub->callback([&] { chosen = [&](const Client& c) { return forget_command(c, network, every, as_json); }; });

  std::string word;
  double for_s = 0.5;
  CLI::App* link = command("link", "what you know of the Wi-Fi link and Tandem does not", {});
  link->require_subcommand(1);
  sub = link->add_subcommand("announce", "a blackout is near (risk), there (down) or over (up); for scripts that roam");
  sub->add_option("WHAT", word, "risk, down or up")->required()->check(CLI::IsMember { { "risk", "down", "up" } });
  sub->add_option("--for", for_s, "seconds that this counts; then evidence counts again")
      ->capture_default_str()
      ->check(CLI::Range { 0.001, 60.0 })
      ->check(no_nan());
  with_json(sub);
  sub->callback(
      [&]
      {
        chosen = [&](const Client& c)
        {
          const json answer = c.post("/v1/links/wifi/announce", { { "what", word }, { "for_s", for_s } });
          print(as_json ? pretty(answer) : word + " counts for " + CLI::detail::to_string(for_s) + " s\n");
          return 0;
        };
      });

  std::string doctor_file;
  sub = command("doctor", "what this machine offers, what is in the way, and what to do",
                [&](const Client& c) { return doctor_command(c, doctor_file, as_json); });
  sub->add_option("-c,--config", doctor_file, "configuration file to go by");
  with_json(sub);

  std::string topic;
  sub = command("help", "this overview, a command's options, or a module's manual", {});
  sub->add_option("TOPIC", topic, "command or module");
  sub->callback(
      [&]
      {
        chosen = [&](const Client& c)
        {
          show_help(app, topic, c);
          return 0;
        };
      });

  attach_logs(app, chosen);
  attach_traps(app, chosen, as_json);
  CLI::App* trace = command("trace", "recordings of the daemon's decisions", {});
  trace->require_subcommand(1);
  std::string recording;
  sub = trace->add_subcommand("save", "save the daemon's flight recorder as pcapng");
  sub->add_option("FILE", recording, "file to write, or - for standard output")->required()->check(not_empty);
  sub->callback([&] { chosen = [&](const Client& c) { return save_recording(c, recording); }; });
  std::string last;
  sub = trace->add_subcommand("dump", "save the last seconds of the flight recorder");
  sub->add_option("--last", last, "how long, e.g. 30s")->required();
  sub->add_option("-o,--output", recording, "file to write, or - for standard output")->required()->check(not_empty);
  sub->callback([&] { chosen = [&](const Client& c) { return save_recording(c, recording, last); }; });
#ifdef TANDEM_WITH_TRACE
  trace_tool::attach(*trace, std::cout, std::cerr, exit_code);
#endif
  for (const auto& [name, help] : python_trace_actions)
  {
    CLI::App* python = trace->add_subcommand(name, help);
    python->prefix_command();
    python->set_help_flag(); // --help is for the program
    python->callback(
        [python, action = std::string { name }, &chosen, &socket]
        {
          chosen = [python, action, &socket](const Client&) -> int
          {
            ::setenv("TANDEM_SOCKET", socket.c_str(), 1); // for what asks the daemon
            become_python("trace", python->remaining(), action);
          };
        });
  }

  std::vector<std::string> passed {};
  for (const auto& [name, help] : python_tools)
  {
    CLI::App* python = command(name, help, {});
    python->set_help_flag(); // --help is for the program
    python->callback(
        [tool = std::string { name }, &chosen, &socket, &passed]
        {
          chosen = [tool, &socket, &passed](const Client&) -> int
          {
            ::setenv("TANDEM_SOCKET", socket.c_str(), 1); // for what asks the daemon
            become_python(tool, passed);
          };
        });
  }

  sub = command("version", "versions of tandem and of the running daemon",
                [&](const Client& c) { return version_command(c, as_json); });
  with_json(sub);

  try
  {
    const int own = own_words(argc, argv);
    passed.assign(argv + own, argv + argc);
    app.parse(own, argv);
    if (chosen) exit_code = chosen(Client { socket });
    return exit_code;
  }
  catch (const CLI::RequiredError& error)
  {
    // An argument of a command, or the command itself: only that is named better here.
    if (error.what() != std::string_view { CLI::RequiredError::Subcommand(1).what() })
      app.exit(error);
    else
      std::cerr << "tandem: " << lacking_command(app) << '\n';
    return exit_bad_input;
  }
  catch (const CLI::ParseError& error)
  {
    return app.exit(error) == 0 ? 0 : exit_bad_input;
  }
  catch (const Failure& failure)
  {
    if (*failure.what() != '\0') std::cerr << "tandem: " << failure.what() << '\n';
    return failure.exit_code;
  }
  catch (const json::exception&)
  {
    std::cerr << "tandem: the daemon's answer is not understood; is it another version? `tandem version` says\n";
    return 1;
  }
  catch (const std::exception& error)
  {
    std::cerr << "tandem: " << error.what() << '\n';
    return 1;
  }
}

} // namespace
} // namespace tandem::cli

int main(int argc, char** argv)
{
  const int code = tandem::cli::main(argc, argv);
  if (code != 0) return code;
  // What did not go by print(): --help and --version, and a line after the work.
  const auto problem = tandem::cli::output_problem();
  if (problem && !problem->empty()) std::cerr << "tandem: " << *problem << '\n';
  return problem ? 1 : 0;
}
