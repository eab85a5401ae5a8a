#include "tools/trace/live_report.h"

#include "src/wire/text.h"
#include "tools/trace/event.h"
#include "tools/trace/replay_report.h"

#include <nlohmann/json.hpp>

#include <ostream>

namespace tandem::trace_tool
{
namespace
{

using nlohmann::json;

void write_flow(const LiveFlow& one, std::size_t number, std::int64_t start, std::ostream& out)
{
  out << "\nflow " << number << ": " << wire::to_string(one.key.local, one.key.local_port) << " - "
      << wire::to_string(one.key.remote, one.key.remote_port) << ", " << one.packets << " packets: ";
  if (one.differing != 0)
    out << one.differing << " of " << one.decided + one.injected << " decisions differ\n";
  else if (!one.unclaimed.empty() && one.unclaimed_from == 0)
    out << "not replayed: " << one.unclaimed << '\n';
  else
    out << "identical, " << one.decided << " decisions and " << one.injected << " injected segments\n";
  if (!one.unclaimed.empty() && one.unclaimed_from != 0)
    out << "  nothing is said of what follows packet " << one.unclaimed_from << ": " << one.unclaimed << '\n';
  for (const auto& [why, count] : one.decisions)
    out << "  " << count << " x " << shown(why) << '\n';
  if (!one.first) return;
  out << "  the first difference: " << seconds_text(one.first->time_ns - start) << ", packet " << one.first->packet
      << (one.first->segment.empty() ? "" : ": " + one.first->segment) << '\n';
  // What was recorded may be anything, from whomever the file is.
  out << "    recorded: " << shown(one.first->before) << '\n';
  out << "    replayed: " << shown(one.first->after) << '\n';
}

} // namespace

void write_text(const std::filesystem::path& file, const LiveReplay& replay, std::ostream& out)
{
  out << file.string() << ": " << replay.packets << " packets and " << replay.inputs << " other inputs in "
      << seconds_text(replay.last_ns - replay.first_ns) << ", recorded from "
      << (replay.whole ? "the daemon's start" : "the middle of its run") << '\n';
  if (replay.skipped != 0)
    out << replay.skipped << " packets came before the first state of links and settings, and are left out\n";
  std::size_t number = 0, claimed = 0;
  for (const LiveFlow& flow : replay.flows)
  {
    write_flow(flow, ++number, replay.first_ns, out);
    if (flow.unclaimed.empty()) ++claimed;
  }
  out << '\n';
  if (replay.unmatched != 0) out << replay.unmatched << " recorded segments belong to no flow of the recording\n";
  if (replay.requests != 0)
    out << replay.requests << " requests of links, " << replay.requests_differing << " differ\n";
  if (replay.compared() == 0)
    out << "nothing to compare\n";
  else if (replay.same())
    out << "identical: " << replay.compared() << " decisions of " << claimed << " flows\n";
  else
    out << "not identical"
        << (replay.whole ? "" : "; flows that began before the recording may have shared state with these") << '\n';
}

void write_json(const std::filesystem::path& file, const LiveReplay& replay, std::ostream& out)
{
  json all { { "file", file.string() },         { "against", "live" },
             { "whole", replay.whole },         { "packets", replay.packets },
             { "inputs", replay.inputs },       { "skipped", replay.skipped },
             { "first_ns", replay.first_ns },   { "last_ns", replay.last_ns },
             { "requests", replay.requests },   { "requests_differing", replay.requests_differing },
             { "unmatched", replay.unmatched }, { "compared", replay.compared() },
             { "same", replay.same() },         { "flows", json::array() } };
  if (!replay.fault.empty()) all["fault"] = replay.fault;
  for (const LiveFlow& one : replay.flows)
  {
    json flow { { "local", wire::to_string(one.key.local, one.key.local_port) },
                { "remote", wire::to_string(one.key.remote, one.key.remote_port) },
                { "packets", one.packets },
                { "decided", one.decided },
                { "injected", one.injected },
                { "decisions", one.decisions },
                { "differing", one.differing },
                { "not_replayed", nullptr },
                { "first", nullptr } };
    if (!one.unclaimed.empty())
      flow["not_replayed"] = { { "from_packet", one.unclaimed_from }, { "why", one.unclaimed } };
    if (one.first)
      flow["first"] = { { "packet", one.first->packet },
                        { "time_ns", one.first->time_ns },
                        { "segment", one.first->segment },
                        { "recorded", one.first->before },
                        { "replayed", one.first->after } };
    all["flows"].push_back(std::move(flow));
  }
  out << all.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
}

} // namespace tandem::trace_tool
