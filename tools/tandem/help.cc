#include "tools/tandem/help.h"

#include "src/control/nearest.h"
#include "tools/tandem/output.h"
#include "tools/tandem/python_tool.h"
#include "tools/tandem/settings.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

namespace tandem::cli
{
namespace
{

constexpr int exit_bad_input = 2;

std::vector<std::string> commands_of(const CLI::App& app)
{
  std::vector<std::string> names {};
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(each->get_name());
  return names;
}

// "stat: no such command; did you mean status?"
std::string no_such_command(const CLI::App& app, const std::string& word, const std::string& whole)
{
  const std::vector<std::string> names = commands_of(app);
  const std::string_view near = closest(word, std::vector<std::string_view> { names.begin(), names.end() });
  return word + ": no such command; "
         + (near.empty() ? "`" + whole + " --help` lists them" : "did you mean " + std::string { near } + "?");
}

} // namespace

std::string lacking_command(const CLI::App& app)
{
  const CLI::App* at = &app;
  std::string whole = app.get_name();
  while (!at->get_subcommands().empty())
  {
    at = at->get_subcommands().front();
    whole += " " + at->get_name();
  }
  const std::vector<std::string> left = at->remaining();
  const auto option = [](const std::string& word) { return word.starts_with('-'); };
  if (const auto word = std::ranges::find_if_not(left, option); word != left.end())
    return no_such_command(*at, *word, whole);
  if (!left.empty()) return left.front() + ": no such option; `" + whole + " --help` lists them";
  if (at == &app) return "a command is needed; `" + whole + " --help` lists them";
  std::string names {};
  for (const std::string& name : commands_of(*at))
    names += (names.empty() ? "" : ", ") + name;
  return whole + ": one of " + names + " is needed";
}

void show_help(CLI::App& app, const std::string& topic, const Client& client)
{
  if (topic.empty())
  {
    // help() would show this command's
    print(app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
    return;
  }
  if (std::ranges::any_of(python_tools, [&](const auto& tool) { return topic == tool.first; }))
    become_python(topic, { "--help" });
  const auto named = app.get_subcommands([&](const CLI::App* each) { return each->get_name() == topic; });
  if (!named.empty())
  {
    print(named.front()->help(app.get_name()));
    return;
  }
  need_name(topic, "topic");
  try
  {
    print(client.get("/v1/modules/" + topic + "/manual"));
  }
  catch (const NotRunning& failure)
  {
    throw Failure { no_such_command(app, topic, app.get_name())
                    + " If it is a module: its manual is the running daemon's, and " + failure.what() };
  }
  catch (const Failure& failure)
  {
    if (failure.exit_code != exit_bad_input) throw;
    throw Failure { no_such_command(app, topic, app.get_name()) + " Nor a module: " + failure.what(), exit_bad_input };
  }
}

} // namespace tandem::cli
