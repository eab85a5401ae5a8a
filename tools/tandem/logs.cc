#include "tools/tandem/logs.h"

#include "tools/tandem/settings.h"
#include "tools/tandem/whole_number.h"

#include <CLI/CLI.hpp>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace tandem::cli
{

namespace
{

namespace fs = std::filesystem;

struct Options
{
  std::string since {}, module {};
  std::uint64_t lines = 0; // 0: all
  bool follow = false, as_json = false;
};

std::vector<std::string> journal_command(const Options& options)
{
  std::vector<std::string> words { "journalctl", "--identifier=tandemd" };
  if (options.follow) words.emplace_back("--follow");
  if (!options.since.empty()) words.push_back("--since=" + options.since);
  if (options.lines > 0) words.push_back("--lines=" + std::to_string(options.lines));
  if (options.as_json) words.emplace_back("--output=json");
  if (!options.module.empty()) words.push_back("MODULE=" + options.module);
  return words;
}

// What a daemon writes that was started by `tandem up` on a machine without its unit; empty: there is none.
fs::path own_log(const Client& client)
{
  std::error_code fault {};
  fs::path log = client.socket().parent_path() / "tandemd.log";
  return fs::exists(log, fault) ? log : fs::path {};
}

// In a directory of this machine's number. Packages make the outer directory where no journald ever runs.
bool journal_is_here()
{
  std::error_code fault {};
  for (const char* place : { "/run/log/journal", "/var/log/journal" })
    for (const auto& machine : fs::directory_iterator { place, fault })
    {
      for (const auto& file : fs::directory_iterator { machine.path(), fault })
        if (file.path().extension() == ".journal") return true;
      if (fault == std::errc::permission_denied) return true; // journalctl has the words for it
    }
  return false;
}

// Becomes journalctl.
int logs(const Options& options, const Client& client)
{
  if (!options.module.empty()) need_name(options.module, "module");
  const fs::path log = own_log(client);
  const std::string elsewhere = log.empty()
                                    ? "the daemon's messages went where its standard error did"
                                    : "a daemon that `tandem up` started without systemd writes to " + log.string();
  if (!journal_is_here())
    throw Failure {
      "no journal is kept here (neither in /run/log/journal nor in /var/log/journal): systemd-journald does not "
      "run; "
      + elsewhere
    };
  if (!log.empty()) std::cerr << "tandem: " << elsewhere << "; this is the journal\n";
  std::vector<std::string> words = journal_command(options);
  std::vector<char*> list {};
  for (std::string& word : words)
    list.push_back(word.data());
  list.push_back(nullptr);
  std::cerr.flush();
  ::execvp(list[0], list.data());
  throw Failure { std::string { "journalctl: " } + std::strerror(errno) + "; " + elsewhere };
}

} // namespace

void attach_logs(CLI::App& app, std::function<int(const Client&)>& chosen)
{
  const auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("logs", "what the daemon has said, from the journal");
  sub->add_flag("-f,--follow", options->follow, "go on with what it says, until Ctrl-C");
  sub->add_option("--since", options->since, "e.g. -1h, today or '2026-01-31 12:00', as journalctl(1) takes it")
      ->type_name("TIME");
  sub->add_option("-n,--lines", options->lines, "the latest so many only")->check(whole_number_from_1());
  sub->add_option("--module", options->module, "what is about this module only")->type_name("NAME");
  sub->add_flag("--json", options->as_json, "an object a line, with MODULE, FLOW and REASON where there are any");
  sub->callback([options, &chosen] { chosen = [options](const Client& client) { return logs(*options, client); }; });
}

} // namespace tandem::cli
