#include "tools/tandem/traps.h"

#include "tools/tandem/json_values.h"
#include "tools/tandem/output.h"
#include "tools/tandem/whole_number.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <memory>

namespace tandem::cli
{

using nlohmann::json;

std::string show_traps(const json& traps, const Style& style)
{
  if (!traps.is_array() || traps.empty()) return "no trap is set\n";
  Table table { { ">ID", "WHEN", ">FIRED", ">AGO", "SAW", "SAVED" } };
  for (const json& one : traps)
  {
    const double fired = number(one, "fired");
    const bool saves = one.is_object() && one.value("save", false);
    const std::string problem = words_of(one, "problem"), file = words_of(one, "file");
    Table::Cell saved { problem.empty() ? file.empty() ? saves ? "nothing yet" : "no" : file : problem,
                        problem.empty() ? Tone::plain : Tone::warning };
    table.add({ fixed(number(one, "id"), 0), words_of(one, "when"), fixed(fired, 0),
                fired > 0 ? duration_of(number(one, "ago_s")) : "-", fired > 0 ? words_of(one, "saw") : "-",
                std::move(saved) });
  }
  return table.text(style);
}

void attach_traps(CLI::App& app, std::function<int(const Client&)>& chosen, bool& as_json)
{
  struct Given
  {
    std::string when {};
    bool save = false;
    std::uint64_t id = 0;
  };
  const auto given = std::make_shared<Given>();
  CLI::App* trap = app.add_subcommand("trap", "thresholds on flows and links at which the recording is kept");
  trap->require_subcommand(1);

  CLI::App* sub = trap->add_subcommand("add", "set a trap, e.g. 'flow.gap > 500ms'");
  sub->add_option("WHEN", given->when,
                  "flow.gap, flow.rtt, flow.goodput, link.signal, link.silence or link.down, then > or <, then a value")
      ->required();
  sub->add_flag("--save", given->save, "save the flight recorder when it fires");
  sub->add_flag("--json", as_json, "print JSON");
  sub->callback(
      [given, &chosen, &as_json]
      {
        chosen = [given, &as_json](const Client& client)
        {
          const json answer = client.post("/v1/traps", { { "when", given->when }, { "save", given->save } });
          print(as_json ? pretty(answer) : "trap " + fixed(number(answer, "id"), 0) + " is set\n");
          return 0;
        };
      });

  sub = trap->add_subcommand("list", "the traps that are set, and what they have caught");
  sub->add_flag("--json", as_json, "print JSON");
  sub->callback(
      [&chosen, &as_json]
      {
        chosen = [&as_json](const Client& client)
        {
          const json traps = client.get_json("/v1/traps");
          print(as_json ? pretty(traps) : show_traps(traps, style_of_stdout()));
          return 0;
        };
      });

  sub = trap->add_subcommand("remove", "remove a trap; what it has saved stays");
  sub->add_option("ID", given->id, "its number, as `tandem trap list` shows it")
      ->required()
      ->check(whole_number_from_1());
  sub->add_flag("--json", as_json, "print JSON");
  sub->callback(
      [given, &chosen, &as_json]
      {
        chosen = [given, &as_json](const Client& client)
        {
          const json answer = client.post("/v1/traps/remove", { { "id", given->id } });
          print(as_json ? pretty(answer) : "trap " + std::to_string(given->id) + " is removed\n");
          return 0;
        };
      });
}

} // namespace tandem::cli
