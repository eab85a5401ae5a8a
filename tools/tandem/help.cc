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

std::vector<std::string> commands_of(const CLI::App& app)
{
  std::vector<std::string> names {};
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(each->get_name());
  return names;
}

std::string command_near_to(const CLI::App& app, const std::string& word)
{
  const std::vector<std::string> names = commands_of(app);
  return std::string { closest(word, std::vector<std::string_view> { names.begin(), names.end() }) };
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
  {
    const std::string near = command_near_to(*at, *word);
    return *word + ": no such command; "
           + (near.empty() ? "`" + whole + " --help` lists them" : "did you mean " + near + "?");
  }
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
  const std::string near = command_near_to(app, topic);
  const std::string no_command = topic + ": no such command" + (near.empty() ? "" : " (did you mean " + near + "?)");
  try
  {
    print(client.get("/v1/modules/" + topic + "/manual"));
  }
  catch (const NotRunning& failure)
  {
    throw Failure { no_command + "; if it is a module: its manual is the running daemon's, and " + failure.what() };
  }
  catch (const Failure& failure)
  {
    if (failure.exit_code != exit_bad_input) throw;
    throw Failure { no_command + "; nor a module: " + failure.what(), exit_bad_input };
  }
}

} // namespace tandem::cli
