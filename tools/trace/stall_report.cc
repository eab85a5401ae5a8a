#include "tools/trace/stall_report.h"

#include "src/wire/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <ostream>

namespace tandem::trace_tool
{
namespace
{

using nlohmann::json;

double seconds(std::int64_t ns)
{
  return static_cast<double>(ns) * 1e-9;
}

template <typename... Arguments>
std::string format(const char* pattern, Arguments... arguments)
{
  std::array<char, 200> text {};
  std::snprintf(text.data(), text.size(), pattern, arguments...);
  return text.data();
}

std::int64_t stalled_ns(const FlowStory& story)
{
  std::int64_t total = 0;
  for (const Stall& stall : story.stalls)
    total += stall.end_ns - stall.begin_ns;
  return total;
}

void write_head(const FlowStory& story, std::int64_t start, std::ostream& out)
{
  const BookedFlow& flow = story.flow;
  const double lasted = seconds(story.last_ns - story.first_ns);
  out << "\nflow " << flow.number << ": " << wire::to_string(flow.key.local, flow.key.local_port) << " - "
      << wire::to_string(flow.key.remote, flow.key.remote_port) << '\n';
  out << format("  from %.3f s on for %.3f s: %.3f MB arrived", seconds(story.first_ns - start), lasted,
                static_cast<double>(story.bytes_in) * 1e-6);
  if (lasted > 0 && story.bytes_in > 0)
    out << format(" (%.2f Mbit/s)", static_cast<double>(story.bytes_in) * 8e-6 / lasted);
  out << format(", %.3f MB left", static_cast<double>(story.bytes_out) * 1e-6);
  if (story.rtt_ns != 0) out << format("; shortest round trip %.1f ms", seconds(story.rtt_ns) * 1e3);
  if (story.repeated != 0) out << "; " << story.repeated << " segments arrived a second time";
  out << '\n';
  if (!flow.handshake())
    out << "  its handshake is not in the recording: the window's scale is not known, so a full window is not seen\n";
  if (flow.side == Side::guessed)
    out << "  which end is the laptop is a guess (" << wire::to_string(flow.key.local) << "); --local says it\n";
  if (!story.timestamps && story.bytes_in > 0)
    out << "  the server sends no timestamps: when it sent what came late is not known\n";
}

void write_decisions(const FlowStory& story, std::ostream& out)
{
  for (const auto& [why, count] : story.decisions)
    out << "  Tandem, " << count << (count == 1 ? " packet: " : " packets: ") << shown(why) << '\n';
  const auto gained = effects_in_words(story.effects);
  for (const std::string& sentence : gained)
    out << "  gained: " << sentence << '\n';
  if (!gained.empty()) out << "  how much faster that made it one recording cannot tell; `tandem ab` can\n";
}

void write_flow(const FlowStory& story, std::int64_t start, std::ostream& out)
{
  write_head(story, start, out);
  write_decisions(story, out);
  if (story.bytes_in == 0)
  {
    out << "  nothing was downloaded\n";
    return;
  }
  if (story.stalls.empty())
  {
    out << "  no stall\n";
    return;
  }
  std::map<Cause, std::pair<std::size_t, std::int64_t>> by_cause;
  for (const Stall& stall : story.stalls)
  {
    ++by_cause[stall.cause].first;
    by_cause[stall.cause].second += stall.end_ns - stall.begin_ns;
  }
  out << "  " << story.stalls.size() << (story.stalls.size() == 1 ? " stall, " : " stalls, ")
      << format("%.3f s together", seconds(stalled_ns(story)));
  for (const auto& [cause, sum] : by_cause)
    out << "; " << words(cause) << format(": %zu, %.3f s", sum.first, seconds(sum.second));
  out << '\n';
  for (const Stall& stall : story.stalls)
  {
    out << format("  %.3f s, for %.0f ms, after %.3f MB: ", seconds(stall.begin_ns - start),
                  seconds(stall.end_ns - stall.begin_ns) * 1e3, static_cast<double>(stall.after_bytes) * 1e-6)
        << words(stall.cause) << '\n';
    for (const std::string& sentence : stall.evidence)
      out << "    " << sentence << '\n';
  }
}

// What turned: values of the radio are for the plot.
void write_links(const StallReport& report, std::ostream& out)
{
  std::map<Link, const LinkMoment*> before;
  for (const LinkMoment& now : report.links)
  {
    const LinkMoment*& last = before[now.link];
    if (last != nullptr && last->up == now.up && last->at_risk == now.at_risk) continue;
    out << format("  %.3f s: ", seconds(now.time_ns - report.first_ns)) << name(now.link) << (now.up ? " up" : " down")
        << (now.at_risk ? ", a blackout is predicted" : "");
    if (now.signal_dbm) out << format(", signal %.0f dBm", static_cast<double>(*now.signal_dbm));
    out << '\n';
    last = &now;
  }
}

json links_json(const StallReport& report)
{
  json all = json::array();
  for (const LinkMoment& now : report.links)
  {
    json one { { "at_s", seconds(now.time_ns - report.first_ns) },
               { "link", name(now.link) },
               { "up", now.up },
               { "at_risk", now.at_risk } };
    if (now.signal_dbm) one["signal_dbm"] = *now.signal_dbm;
    if (now.delivery) one["delivery"] = *now.delivery;
    if (now.packet_time_us) one["packet_time_us"] = *now.packet_time_us;
    all.push_back(std::move(one));
  }
  return all;
}

json effects_json(const Effects& effects)
{
  json all { { "by_cellular", effects.by_cell },    { "by_cellular_bytes", effects.by_cell_bytes },
             { "acks_left_out", effects.left_out }, { "losses_hidden", effects.losses_hidden },
             { "resumed_ms", json::array() },       { "words", effects_in_words(effects) } };
  for (const std::int64_t ns : effects.resumed_ns)
    all["resumed_ms"].push_back(seconds(ns) * 1e3);
  return all;
}

json story_json(const FlowStory& story, std::int64_t start)
{
  json flow { { "flow", story.flow.number },
              { "local", wire::to_string(story.flow.key.local, story.flow.key.local_port) },
              { "remote", wire::to_string(story.flow.key.remote, story.flow.key.remote_port) },
              { "laptop_known_by", name(story.flow.side) },
              { "handshake", story.flow.handshake() },
              { "begin_s", seconds(story.first_ns - start) },
              { "end_s", seconds(story.last_ns - start) },
              { "packets", story.packets },
              { "bytes_in", story.bytes_in },
              { "bytes_out", story.bytes_out },
              { "repeated_segments", story.repeated },
              { "server_timestamps", story.timestamps },
              { "shortest_rtt_ms", nullptr },
              { "decisions", story.decisions },
              { "gained", effects_json(story.effects) },
              { "stalls", json::array() } };
  if (story.rtt_ns != 0) flow["shortest_rtt_ms"] = seconds(story.rtt_ns) * 1e3;
  for (const Stall& stall : story.stalls)
    flow["stalls"].push_back({ { "begin_s", seconds(stall.begin_ns - start) },
                               { "end_s", seconds(stall.end_ns - start) },
                               { "duration_ms", seconds(stall.end_ns - stall.begin_ns) * 1e3 },
                               { "after_bytes", stall.after_bytes },
                               { "cause", name(stall.cause) },
                               { "evidence", stall.evidence } });
  return flow;
}

} // namespace

StallReport find_stalls(const StallOptions& options)
{
  // Queues of one interface disorder packets by less.
  constexpr std::int64_t step_ns = 1'000'000'000;
  std::int64_t before_ns = 0;
  StallReport report {};
  StallFinder finder { options.shortest_ns };
  FlowBook book { options.locals };
  EventReader reader { options.file };
  try
  {
    for (Event event; reader.next(event);)
    {
      const trace::Recorded& packet = event.packet;
      if (report.packets++ == 0) report.first_ns = report.last_ns = before_ns = packet.time_ns;
      if (before_ns - packet.time_ns > step_ns && report.set_back++ == 0)
      {
        report.set_back_packet = packet.number;
        report.set_back_by_ns = before_ns - packet.time_ns;
      }
      before_ns = packet.time_ns;
      report.first_ns = std::min(report.first_ns, packet.time_ns);
      report.last_ns = std::max(report.last_ns, packet.time_ns);
      const FlowBook::Found found = book.take(packet);
      if (found.flow != nullptr) ++report.segments;
      report.unread.take(packet, found.parsed);
      report.repeats.take(packet, found.parsed);
      finder.take(event, found);
    }
  }
  catch (const trace::BadFile& bad)
  {
    if (report.packets == 0) throw;
    report.fault = bad.what();
  }
  if (reader.heading()) report.links = link_story(options.file);
  report.flows = finder.finish(wifi_returns(report.links));
  return report;
}

void write_text(const StallReport& report, const std::filesystem::path& file, std::ostream& out)
{
  out << file.string() << ": " << report.packets << " packets, " << report.segments << " TCP segments of "
      << report.flows.size() << " flows" << format(" in %.3f s\n", seconds(report.last_ns - report.first_ns));
  if (report.set_back != 0)
  {
    out << format("time goes back by %.3f s at packet %llu", seconds(report.set_back_by_ns),
                  static_cast<unsigned long long>(report.set_back_packet));
    if (report.set_back > 1) out << " (later on " << report.set_back - 1 << " times more)";
    out << ": the clock was set, or captures were joined; times and stalls across that are wrong\n";
  }
  for (const std::string& sentence : report.unread.words())
    out << sentence << '\n';
  if (const std::string sentence = report.repeats.words(); !sentence.empty()) out << sentence << '\n';
  write_links(report, out);
  for (const FlowStory& story : report.flows)
    write_flow(story, report.first_ns, out);
  if (report.segments == 0) out << "no TCP segment to explain\n";
}

void write_json(const StallReport& report, const std::filesystem::path& file, std::ostream& out)
{
  json all { { "file", file.string() },       { "packets", report.packets }, { "segments", report.segments },
             { "first_ns", report.first_ns }, { "last_ns", report.last_ns }, { "flows", json::array() } };
  if (!report.fault.empty()) all["fault"] = report.fault;
  if (const auto unread = report.unread.words(); !unread.empty()) all["unread"] = unread;
  if (const std::string sentence = report.repeats.words(); !sentence.empty()) all["repeated"] = sentence;
  if (report.set_back != 0)
    all["set_back"] = { { "times", report.set_back },
                        { "packet", report.set_back_packet },
                        { "by_s", seconds(report.set_back_by_ns) } };
  for (const FlowStory& story : report.flows)
    all["flows"].push_back(story_json(story, report.first_ns));
  if (!report.links.empty()) all["links"] = links_json(report);
  out << all.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
}

} // namespace tandem::trace_tool
