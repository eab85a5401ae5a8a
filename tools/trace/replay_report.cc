#include "tools/trace/replay_report.h"

#include "src/wire/text.h"
#include "tools/trace/event.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <ostream>

namespace tandem::trace_tool
{
namespace
{

using Against = ReplayOptions::Against;
using nlohmann::json;

std::string joined(const std::vector<std::string>& words)
{
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string ends(const FlowKey& key)
{
  return wire::to_string(key.local, key.local_port) + " - " + wire::to_string(key.remote, key.remote_port);
}

const char* word(Against against)
{
  switch (against)
  {
  case Against::nothing:
    return "nothing";
  case Against::settings:
    return "settings";
  case Against::recording:
    return "recording";
  }
  return "?";
}

const char* before_word(Against against)
{
  return against == Against::recording ? "recorded" : "without";
}

const char* after_word(Against against)
{
  return against == Against::recording ? "replayed" : "with";
}

void write_difference(const Difference& one, const ReplayReport& report, std::int64_t start, std::ostream& out)
{
  out << "  " << seconds_text(one.time_ns - start) << ", packet " << one.packet
      << (one.segment.empty() ? "" : ": " + one.segment) << '\n';
  // A reason that was recorded may be anything, from whomever the file is.
  out << "    " << before_word(report.against) << ": " << shown(one.before) << '\n';
  out << "    " << after_word(report.against) << ": " << shown(one.after) << '\n';
}

void write_flow(const ReplayedFlow& one, const ReplayReport& report, std::int64_t start, std::ostream& out)
{
  out << "\nflow " << one.flow.number << ": " << ends(one.flow.key) << ", " << one.packets << " packets, " << one.bytes
      << " bytes arrived\n";
  if (!one.flow.handshake()) out << "  no handshake in the recording: modules leave such a flow alone\n";
  if (one.flow.side == Side::guessed)
    out << "  which end is the laptop is a guess (" << wire::to_string(one.flow.key.local) << "); --local says it\n";
  for (const auto& [why, count] : one.decisions)
    out << "  " << count << " x " << shown(why) << '\n';
  if (report.differences)
    for (const Difference& difference : one.differences)
      write_difference(difference, report, start, out);
  if (!one.first)
  {
    out << "  no decision that the sender would have noticed\n";
    return;
  }
  out << "  the first decision that the sender would have noticed; nothing is known of what follows it:\n";
  write_difference(*one.first, report, start, out);
}

json difference_json(const Difference& one, std::int64_t start)
{
  return {
    { "packet", one.packet },   { "time_ns", one.time_ns }, { "at_s", static_cast<double>(one.time_ns - start) * 1e-9 },
    { "segment", one.segment }, { "before", one.before },   { "after", one.after }
  };
}

} // namespace

std::string seconds_text(std::int64_t ns)
{
  std::array<char, 32> text {};
  std::snprintf(text.data(), text.size(), "%.6f s", static_cast<double>(ns) * 1e-9);
  return text.data();
}

void write_text(const ReplayReport& report, const Replay& replay, std::ostream& out)
{
  out << report.file.string() << ": " << replay.packets << " packets, " << replay.segments << " TCP segments of "
      << replay.flows.size() << " flows in " << seconds_text(replay.last_ns - replay.first_ns) << '\n';
  out << "modules: " << joined(report.modules);
  if (!report.settings.empty()) out << "; settings: " << joined(report.settings);
  out << '\n';
  if (replay.out_of_order != 0)
    out << replay.out_of_order << " packets are older than the one before them; they count as simultaneous with it\n";
  for (const std::string& sentence : replay.unread.words())
    out << sentence << '\n';
  for (const ReplayedFlow& flow : replay.flows)
    write_flow(flow, report, replay.first_ns, out);
  if (replay.segments == 0) out << "no TCP segment to replay\n";
}

void write_json(const ReplayReport& report, const Replay& replay, std::ostream& out)
{
  json all { { "file", report.file.string() },        { "modules", report.modules },
             { "settings", report.settings },         { "against", word(report.against) },
             { "packets", replay.packets },           { "segments", replay.segments },
             { "first_ns", replay.first_ns },         { "last_ns", replay.last_ns },
             { "out_of_order", replay.out_of_order }, { "flows", json::array() } };
  if (!replay.fault.empty()) all["fault"] = replay.fault;
  for (const ReplayedFlow& one : replay.flows)
  {
    json flow { { "flow", one.flow.number },
                { "local", wire::to_string(one.flow.key.local, one.flow.key.local_port) },
                { "remote", wire::to_string(one.flow.key.remote, one.flow.key.remote_port) },
                { "laptop_known_by", name(one.flow.side) },
                { "handshake", one.flow.handshake() },
                { "packets", one.packets },
                { "bytes", one.bytes },
                { "decisions", one.decisions },
                { "first", nullptr },
                { "reasons_differ", json::array() } };
    if (one.first) flow["first"] = difference_json(*one.first, replay.first_ns);
    for (const Difference& difference : one.differences)
      flow["reasons_differ"].push_back(difference_json(difference, replay.first_ns));
    all["flows"].push_back(std::move(flow));
  }
  out << all.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
}

} // namespace tandem::trace_tool
