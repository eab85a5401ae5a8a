#include "tools/trace/command.h"

#include "src/trace/reader.h"
#include "tools/trace/bad_request.h"
#include "tools/trace/explain.h"
#include "tools/trace/local_option.h"
#include "tools/trace/no_nan.h"
#include "tools/trace/print.h"
#include "tools/trace/replay_command.h"
#include "tools/trace/stall_report.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>

namespace tandem::trace_tool
{
namespace
{

struct ExplainOptions
{
  std::filesystem::path file {};
  bool json = false;
  bool stalls = false;
  double shortest_ms = 200;
  std::vector<std::string> locals {};
};

// Options that take one of a few words. CLI11's own transformer would show the enumerators' bytes in help and faults.
template <typename Value>
void add_word(CLI::App& command, const std::string& option, const std::map<std::string, Value>& words,
              std::optional<Value>& to, const std::string& help)
{
  std::vector<std::string> allowed;
  for (const auto& [word, value] : words)
    allowed.push_back(word);
  command
      .add_option_function<std::string>(
          option, [words, &to](const std::string& word) { to = words.at(word); }, help)
      ->check(CLI::IsMember(allowed));
}

// CLI11 itself takes -1 for the largest one.
CLI::Validator whole_number()
{
  return { [](const std::string& text)
           {
             const bool digits =
                 !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
             return digits ? std::string {} : text + ": a whole number is needed";
           },
           "" };
}

std::map<std::string, trace::Disposition> dispositions()
{
  std::map<std::string, trace::Disposition> all;
  for (std::size_t i = 0; i < trace::disposition_count; ++i)
    all.emplace(name(static_cast<trace::Disposition>(i)), static_cast<trace::Disposition>(i));
  return all;
}

std::map<std::string, Link> links()
{
  return { { "wifi", Link::wifi }, { "cell", Link::cell } };
}

template <typename Work>
int guarded(std::ostream& out, std::ostream& err, Work&& work)
{
  try
  {
    work();
  }
  catch (const trace::BadFile& bad)
  {
    out.flush();
    err << "tandem trace: " << bad.what() << '\n';
    return 2;
  }
  catch (const BadRequest& bad)
  {
    err << "tandem trace: " << bad.what() << '\n';
    return 2;
  }
  out.flush();
  if (out.good()) return 0;
  err << "tandem trace: the output cannot be written\n";
  return 1;
}

void up_to(const std::string& fault, std::ostream& out)
{
  if (fault.empty()) return;
  out.flush();
  throw BadRequest { fault + "; explained up to there" };
}

void explain(const ExplainOptions& options, std::ostream& out)
{
  if (!options.stalls)
  {
    const Summary summary = summarise(options.file);
    options.json ? write_json(summary, options.file, out) : write_table(summary, options.file, out);
    up_to(summary.fault, out);
    return;
  }
  const StallReport report = find_stalls({ .file = options.file,
                                           .shortest_ns = static_cast<std::int64_t>(options.shortest_ms * 1e6),
                                           .locals = addresses(options.locals) });
  options.json ? write_json(report, options.file, out) : write_text(report, options.file, out);
  up_to(report.fault, out);
}

} // namespace

void attach(CLI::App& trace, std::ostream& out, std::ostream& err, int& exit_code)
{
  trace.require_subcommand(1);

  const auto shown = std::make_shared<PrintOptions>();
  CLI::App* print_command = trace.add_subcommand("print", "Print the packets of a recording, one line each");
  print_command->add_option("file", shown->file, "Recording: pcapng of the flight recorder, or any pcap or pcapng")
      ->required();
  print_command->add_flag("--json", shown->json, "One JSON object a line");
  print_command->add_flag("--bytes", shown->bytes, "With --json: also the bytes, from the IP header on")
      ->needs("--json");
  add_word(*print_command, "--disposition", dispositions(), shown->disposition, "Only packets of this disposition");
  add_word(*print_command, "--link", links(), shown->link, "Only packets that came or left by this link");
  print_command->add_option("--port", shown->port, "Only segments with this TCP port at either end");
  print_command->add_option("--why", shown->why, "Only packets whose reason contains this text");
  print_command->add_option("--flow", shown->flow, "Only packets of the flow with this number")->check(whole_number());
  print_command->add_option("--limit", shown->limit, "Stop after so many packets (0: all)")->check(whole_number());
  print_command->callback([&out, &err, &exit_code, shown]
                          { exit_code = guarded(out, err, [&] { print(*shown, out); }); });

  const auto explained = std::make_shared<ExplainOptions>();
  CLI::App* explain_command =
      trace.add_subcommand("explain", "Count what was done in a recording, by reason and by link");
  explain_command->add_option("file", explained->file, "Recording")->required();
  explain_command->add_flag("--stalls", explained->stalls,
                            "Per flow: what happened, when it stood still, and why, with the evidence");
  explain_command->add_option("--stall-ms", explained->shortest_ms, "Shorter ones are no stalls")
      ->capture_default_str()
      ->check(CLI::Range { 1.0, 3'600'000.0 })
      ->check(cli::no_nan());
  add_local_option(*explain_command, explained->locals);
  explain_command->add_flag("--json", explained->json, "As JSON");
  explain_command->callback([&out, &err, &exit_code, explained]
                            { exit_code = guarded(out, err, [&] { explain(*explained, out); }); });
  attach_replay(trace, out, err, exit_code);
}

int trace_main(std::vector<std::string> arguments, std::ostream& out, std::ostream& err)
{
  CLI::App app { "Show what the flight recorder or another recording holds", "tandem trace" };
  int exit_code = 0;
  attach(app, out, err, exit_code);
  try
  {
    std::reverse(arguments.begin(), arguments.end()); // CLI11 takes them from the back
    app.parse(std::move(arguments));
  }
  catch (const CLI::ParseError& error)
  {
    // Help is no fault; everything else is a usage fault.
    return app.exit(error, out, err) == 0 ? 0 : 2;
  }
  return exit_code;
}

} // namespace tandem::trace_tool
