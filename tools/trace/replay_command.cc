#include "tools/trace/replay_command.h"

#include "src/control/literal.h"
#include "src/daemon/layout.h"
#include "src/daemon/module_loader.h"
#include "src/trace/reader.h"
#include "tools/trace/bad_request.h"
#include "tools/trace/live_report.h"
#include "tools/trace/local_option.h"
#include "tools/trace/replay_report.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <ostream>
#include <utility>

namespace tandem::trace_tool
{
namespace
{

struct Given
{
  std::filesystem::path file {};
  std::vector<std::string> modules {};
  std::vector<std::string> settings {};
  std::vector<std::string> locals {};
  std::filesystem::path module_dir {};
  bool diff = false, json = false, no_cell = false;
};

std::string words(const std::vector<std::string>& all)
{
  std::string text;
  for (const std::string& one : all)
    text += (text.empty() ? "" : ", ") + one;
  return text;
}

// Fresh modules from their libraries, those that are wanted.
class Library
{
public:
  explicit Library(const std::filesystem::path& directory) : directory_ { module_directory(directory) }
  {
    std::error_code fault;
    for (const auto& entry : std::filesystem::directory_iterator { directory_, fault })
      if (entry.path().extension() == ".so") files_.push_back(entry.path());
    std::sort(files_.begin(), files_.end());
    for (const auto& one : load())
      names_.emplace_back(one->name());
    if (names_.empty())
      throw BadRequest { directory_.string() + ": no module is there; --module-dir names another directory"
                         + (problem_.empty() ? "" : " (" + problem_ + ")") };
  }

  const std::vector<std::string>& names() const { return names_; }

  std::vector<std::shared_ptr<Module>> load(const std::vector<std::string>& wanted = {})
  {
    daemon::LoadedModules loaded {};
    for (const auto& file : files_)
      if (std::string problem = daemon::load_module(file, loaded); !problem.empty()) problem_ = std::move(problem);
    std::vector<std::shared_ptr<Module>> modules;
    for (const daemon::LoadedModule& one : loaded.modules)
    {
      const auto is_it = [&](const std::string& name) { return name == one.module->name(); };
      if (wanted.empty() || std::any_of(wanted.begin(), wanted.end(), is_it)) modules.push_back(one.module);
    }
    return modules;
  }

private:
  std::filesystem::path directory_;
  std::vector<std::filesystem::path> files_ {};
  std::vector<std::string> names_ {};
  std::string problem_ {};
};

KnobValue knob_value(const std::string& text, const std::vector<std::shared_ptr<Module>>& modules)
{
  const std::size_t dot = text.find('.'), equals = text.find('=');
  if (dot == std::string::npos || equals == std::string::npos || dot > equals)
    throw BadRequest { "--set " + text + ": a setting is written module.knob=value" };
  const std::string module = text.substr(0, dot), knob = text.substr(dot + 1, equals - dot - 1);
  for (const auto& one : modules)
  {
    if (one->name() != module) continue;
    for (const Knob& each : one->knobs())
    {
      if (each.name != knob) continue;
      const auto value = parse_knob(each, text.substr(equals + 1));
      if (const auto* needed = std::get_if<std::string>(&value)) throw BadRequest { "--set " + text + ": " + *needed };
      return { module, knob, std::get<double>(value) };
    }
    throw BadRequest { "--set " + text + ": " + daemon::no_such_knob(*one, knob) };
  }
  throw BadRequest { "--set " + text + ": module " + module + " is not replayed; --module adds it" };
}

// What a recording says of its run: modules and settings are repeated unless the user says otherwise.
std::vector<std::string> split(const std::string& text)
{
  std::vector<std::string> parts;
  std::istringstream in { text };
  for (std::string part; in >> part;)
    parts.push_back(part);
  return parts;
}

std::optional<trace::Heading> heading_of(const std::filesystem::path& file)
{
  trace::Reader reader { file };
  return reader.heading();
}

// Tandem's own recording, and nothing else is wanted than what happened.
bool as_it_happened(const Given& given)
{
  return given.modules.empty() && given.settings.empty() && !given.no_cell && given.locals.empty()
         && has_chain_inputs(given.file);
}

int run_live(const Given& given, std::ostream& out, std::ostream& err)
{
  Library library { given.module_dir };
  const LiveReplay replay =
      replay_live(given.file, [&](const std::vector<std::string>& names) { return library.load(names); });
  given.json ? write_json(given.file, replay, out) : write_text(given.file, replay, out);
  out.flush();
  if (!replay.fault.empty()) err << "tandem trace: " << replay.fault << "; replayed up to there\n";
  if (!replay.fault.empty()) return 2;
  return replay.same() ? 0 : 1;
}

Replay run(const Given& given, ReplayReport& report)
{
  const auto heading = heading_of(given.file);
  Library library { given.module_dir };
  for (const std::string& name : given.modules)
    if (std::find(library.names().begin(), library.names().end(), name) == library.names().end())
      throw BadRequest { "--module " + name + ": no such module; there are: " + words(library.names()) };

  ReplayOptions options { .file = given.file };
  report = { .file = given.file, .modules = given.modules, .settings = given.settings, .differences = given.diff };
  if (report.modules.empty()) report.modules = library.names();
  const auto modules = library.load(report.modules);
  if (heading)
  {
    options.with.seed = heading->seed;
    for (const std::string& setting : split(heading->knobs))
      try
      {
        options.with.knobs.push_back(knob_value(setting, modules));
      }
      catch (const BadRequest&)
      {
        // Of a module that is not replayed, or of another release.
      }
  }
  options.with.cell = !given.no_cell;
  options.without = options.with;
  for (const std::string& setting : given.settings)
    options.with.knobs.push_back(knob_value(setting, modules));
  options.locals = addresses(given.locals);
  options.against = given.diff && !given.settings.empty() ? ReplayOptions::Against::settings
                    : heading                             ? ReplayOptions::Against::recording
                                                          : ReplayOptions::Against::nothing;
  report.against = options.against;
  return replay(options, [&] { return library.load(report.modules); });
}

} // namespace

void attach_replay(CLI::App& trace, std::ostream& out, std::ostream& err, int& exit_code)
{
  const auto given = std::make_shared<Given>();
  CLI::App* command = trace.add_subcommand(
      "replay",
      "Tandem's own recording: the same decisions once more. With --module or --set, or of another capture: what "
      "modules would have done, up to what the sender would have noticed");
  command->add_option("file", given->file, "Recording or capture")->required();
  command->add_option("--module", given->modules, "Only these modules, comma-separated; default all that are installed")
      ->delimiter(',');
  command->add_option("--set", given->settings, "module.knob=value");
  command->add_flag("--diff", given->diff,
                    "With --set: without against with the settings; else recorded against replayed. Lists also "
                    "decisions that differ in the reason only");
  add_local_option(*command, given->locals);
  command->add_flag("--no-cell", given->no_cell, "As if there were no cellular link");
  command->add_option("--module-dir", given->module_dir, "Directory of the modules");
  command->add_flag("--json", given->json, "As JSON");
  command->callback(
      [given, &out, &err, &exit_code]
      {
        try
        {
          if (as_it_happened(*given))
          {
            exit_code = run_live(*given, out, err);
            if (out.good()) return;
            err << "tandem trace: the output cannot be written\n";
            exit_code = 1;
            return;
          }
          ReplayReport report {};
          const Replay replay = run(*given, report);
          given->json ? write_json(report, replay, out) : write_text(report, replay, out);
          out.flush();
          if (!replay.fault.empty()) err << "tandem trace: " << replay.fault << "; replayed up to there\n";
          exit_code = replay.fault.empty() ? 0 : 2;
          if (out.good()) return;
          err << "tandem trace: the output cannot be written\n";
          exit_code = 1;
        }
        catch (const trace::BadFile& bad)
        {
          err << "tandem trace: " << bad.what() << '\n';
          exit_code = 2;
        }
        catch (const BadRequest& bad)
        {
          err << "tandem trace: " << bad.what() << '\n';
          exit_code = 2;
        }
      });
}

} // namespace tandem::trace_tool
