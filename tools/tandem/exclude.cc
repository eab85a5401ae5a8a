#include "tools/tandem/exclude.h"

#include "tools/tandem/exclude_view.h"
#include "tools/tandem/json_values.h"
#include "tools/tandem/output.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <string>

namespace tandem::cli
{

using nlohmann::json;

namespace
{

// Cgroups that systemd has not made may have any name: only worth a remark.
bool is_no_unit(const std::string& name)
{
  return !name.ends_with('*') && !name.ends_with(".service") && !name.ends_with(".scope") && !name.ends_with(".slice");
}

// It is saved all the same: the user, say, may be made later.
void tell_problem(const Client& client, const json& added)
{
  json all {};
  try
  {
    all = client.get_json("/v1/exclusions");
  }
  catch (const Failure&)
  {
    return; // it is excluded, whether this is known or not
  }
  for (const json& one : list(all, "exclusions"))
    if (const std::string problem = words_of(one, "problem"); !problem.empty()
                                                              && member(one, "kind") == member(added, "kind")
                                                              && member(one, "what") == member(added, "what"))
      std::cerr << "tandem: it excludes nothing now: " << problem
                << "; `tandem exclude list` tells when that changes\n";
}

} // namespace

void attach_exclude(CLI::App& app, std::function<int(const Client&)>& chosen, bool& as_json)
{
  struct Given
  {
    std::string kind {}, what {};
  };
  const auto given = std::make_shared<Given>();
  CLI::App* exclude =
      app.add_subcommand("exclude", "destinations, users, services and Wi-Fi networks that are left alone");
  exclude->require_subcommand(1);

  for (const bool add : { true, false })
  {
    CLI::App* sub = exclude->add_subcommand(
        add ? "add" : "remove", add ? "leave it alone from now on, over restarts, too" : "leave it alone no longer");
    sub->add_option("KIND", given->kind, "to, user, service or ssid")
        ->required()
        ->check(CLI::IsMember { { "to", "user", "service", "ssid" } });
    sub->add_option(
           "WHAT", given->what,
           "to: a network, an address or a host name; user: a name or number; service: a systemd unit, scope or "
           "slice; ssid: the name of a Wi-Fi network")
        ->required();
    sub->add_flag("--json", as_json, "print JSON");
    sub->callback(
        [given, add, &chosen, &as_json]
        {
          chosen = [given, add, &as_json](const Client& client)
          {
            const json answer = client.post(add ? "/v1/exclusions" : "/v1/exclusions/remove",
                                            { { "kind", given->kind }, { "what", given->what } });
            const std::string text = words_of(answer, "kind") + " " + words_of(answer, "what");
            print(as_json ? pretty(answer) : text + (add ? " is excluded, saved\n" : " is excluded no longer\n"));
            if (add) tell_problem(client, answer);
            if (add && given->kind == "service" && is_no_unit(given->what))
              std::cerr << "tandem: systemd's units end in .service, .scope or .slice; did you mean " << given->what
                        << ".service? `tandem exclude remove " << text << "` takes it back\n";
            return 0;
          };
        });
  }

  CLI::App* sub = exclude->add_subcommand("list", "what is excluded, by whom, and how many flows that were");
  sub->add_flag("--json", as_json, "print JSON");
  sub->callback(
      [&chosen, &as_json]
      {
        chosen = [&as_json](const Client& client)
        {
          const json all = client.get_json("/v1/exclusions");
          print(as_json ? pretty(all) : show_exclusions(all, style_of_stdout()));
          return 0;
        };
      });
}

} // namespace tandem::cli
