#include "tools/tandem/aps.h"

#include "tools/tandem/aps_view.h"
#include "tools/tandem/output.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace tandem::cli
{

using nlohmann::json;

namespace
{

int show(const Client& client, bool scan, bool as_json)
{
  if (scan)
  {
    client.post("/v1/aps/scan", json::object());
    std::this_thread::sleep_for(std::chrono::seconds { 4 }); // all channels of three bands
  }
  const json all = client.get_json("/v1/aps");
  print(as_json ? pretty(all) : show_aps(all, style_of_stdout()));
  return 0;
}

int keep(const Client& client, unsigned most, bool several_channels, bool save, bool as_json)
{
  json wanted { { "keep", most } };
  // Left out otherwise: an older daemon does not know them.
  if (save) wanted["save"] = true;
  if (several_channels) wanted["several_channels"] = true;
  const json answer = client.put("/v1/aps", wanted);
  const std::string kept = "up to " + std::to_string(most) + " access points are kept"
                           + (several_channels ? ", on several channels where the card can" : "");
  const std::string words = most == 0 ? std::string { "virtual stations are given up" } + (save ? ", saved\n" : "\n")
                            : save    ? kept + ", saved; `tandem aps` shows them\n"
                                      : kept + " until the daemon ends; `tandem aps` shows them\n";
  print(as_json ? pretty(answer) : words);
  return 0;
}

} // namespace

void attach_aps(CLI::App& app, std::function<int(const Client&)>& chosen, bool& as_json)
{
  struct Given
  {
    bool scan = false;
    bool save = false;
    bool several_channels = false;
    unsigned most = 0;
    std::string ap {};
  };
  const auto given = std::make_shared<Given>();
  CLI::App* aps = app.add_subcommand("aps", "access points in range, which are worth it, and being at several of them");
  aps->add_flag("--scan", given->scan, "look around first, which takes some seconds");
  aps->add_flag("--json", as_json, "print JSON");
  aps->callback(
      [aps, given, &chosen, &as_json]
      {
        if (aps->get_subcommands().empty())
          chosen = [given, &as_json](const Client& client) { return show(client, given->scan, as_json); };
      });

  CLI::App* sub = aps->add_subcommand("keep", "keep the card at up to N access points, for MPTCP");
  sub->add_option("N", given->most, "access points in all, 2 to 8")->required()->check(CLI::Range { 2, 8 });
  sub->add_flag("--several-channels", given->several_channels,
                "also on other channels than the card's own, in turns; needs a card that can");
  sub->add_flag("--save", given->save, "over restarts, too");
  sub->add_flag("--json", as_json, "print JSON");
  sub->callback(
      [given, &chosen, &as_json]
      {
        chosen = [given, &as_json](const Client& client)
        { return keep(client, given->most, given->several_channels, given->save, as_json); };
      });

  sub = aps->add_subcommand("off", "give the virtual stations up");
  sub->add_flag("--json", as_json, "print JSON");
  sub->add_flag("--save", given->save, "over restarts, too");
  sub->callback(
      [given, &chosen, &as_json]
      { chosen = [given, &as_json](const Client& client) { return keep(client, 0, false, given->save, as_json); }; });

  sub = aps->add_subcommand("roam", "move the card's own association to another access point");
  sub->add_option("AP", given->ap, "its address, as `tandem aps` shows it")->required();
  sub->add_flag("--json", as_json, "print JSON");
  sub->callback(
      [given, &chosen, &as_json]
      {
        chosen = [given, &as_json](const Client& client)
        {
          const json answer = client.post("/v1/aps/roam", { { "ap", given->ap } });
          print(as_json ? pretty(answer) : "wpa_supplicant roams to " + given->ap + "\n");
          return 0;
        };
      });
}

} // namespace tandem::cli
