#include "tools/trace/explain.h"

#include "tools/trace/event.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <ostream>
#include <vector>

namespace tandem::trace_tool
{
namespace
{

void count_link(Summary& summary, const Event& event, const wire::Parsed& parsed)
{
  if (event.disposition() == trace::Disposition::dropped) return;
  const trace::Recorded& sent = event.after ? *event.after : event.packet;
  const std::string interface = sent.interface.empty() ? "-" : sent.interface;
  const std::string link = sent.link != Link::other ? std::string { name(sent.link) } : interface;
  const std::string direction = !sent.direction ? "-" : *sent.direction == Direction::ingress ? "in" : "out";
  LinkCount& count = summary.links[{ link, direction }];
  ++count.all.packets;
  count.all.bytes += sent.length;
  if (parsed.ok() && parsed.segment.is_pure_ack()) ++count.pure_acks;
}

std::string utc(std::int64_t time_ns)
{
  const auto seconds = static_cast<std::time_t>(time_ns / 1'000'000'000);
  std::tm parts {};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text {};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

template <typename... Arguments>
void write_line(std::ostream& out, const char* format, Arguments... arguments)
{
  std::array<char, 160> text {};
  std::snprintf(text.data(), text.size(), format, arguments...);
  out << text.data();
}

void count(Summary& summary, const Event& event)
{
  if (summary.all.packets == 0) summary.first_ns = summary.last_ns = event.packet.time_ns;
  summary.first_ns = std::min(summary.first_ns, event.packet.time_ns);
  summary.last_ns = std::max(summary.last_ns, event.packet.time_ns);
  ++summary.all.packets;
  summary.all.bytes += event.packet.length;
  // A free comment of another program is no reason to count by.
  const std::string disposition = event.disposition() ? std::string { name(*event.disposition()) } : "-";
  Count& reason = summary.reasons[{ disposition, event.disposition() ? event.why() : "" }];
  ++reason.packets;
  reason.bytes += event.packet.length;
  const wire::Parsed parsed = parse(event.packet);
  if (!parsed.ok()) ++summary.faults[std::string { name(parsed.fault) }];
  summary.unread.take(event.packet, parsed);
  summary.repeats.take(event.packet, parsed);
  count_link(summary, event, parsed);
}

} // namespace

Summary summarise(const std::filesystem::path& file)
{
  EventReader reader { file };
  Summary summary;
  try
  {
    for (Event event; reader.next(event);)
      count(summary, event);
  }
  catch (const trace::BadFile& bad)
  {
    if (summary.all.packets == 0) throw;
    summary.fault = bad.what();
  }
  summary.heading = reader.heading();
  return summary;
}

void write_table(const Summary& summary, const std::filesystem::path& file, std::ostream& out)
{
  out << file.string() << ": " << summary.all.packets << " packets";
  if (summary.all.packets != 0)
  {
    write_line(out, " in %.3f s", static_cast<double>(summary.last_ns - summary.first_ns) * 1e-9);
    out << " from " << utc(summary.first_ns);
  }
  out << '\n';
  if (const auto& heading = summary.heading)
  {
    out << shown(name_of(*heading)) << '\n';
    if (!heading->command.empty()) out << shown(heading->command) << '\n';
    if (!heading->knobs.empty()) out << shown(heading->knobs) << '\n';
  }

  // The most frequent reason first: that is what one looks for.
  std::vector<std::pair<std::pair<std::string, std::string>, Count>> reasons(summary.reasons.begin(),
                                                                             summary.reasons.end());
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.second.packets > b.second.packets; });
  out << "\ndisposition        packets         bytes  why\n";
  for (const auto& [what, count] : reasons)
  {
    write_line(out, "%-8s %10llu %13llu  ", what.first.c_str(), static_cast<unsigned long long>(count.packets),
               static_cast<unsigned long long>(count.bytes));
    out << (what.second.empty() ? "-" : shown(what.second)) << '\n';
  }
  // A foreign interface may have a name of any length.
  std::size_t widest = 5;
  for (const auto& [where, count] : summary.links)
    widest = std::min<std::size_t>(std::max(widest, where.first.size()), 40);
  const int width = static_cast<int>(widest);
  write_line(out, "\n%-*s dir     packets         bytes  pure ACKs\n", width, "link");
  for (const auto& [where, count] : summary.links)
    write_line(out, "%-*.60s %-3s  %10llu %13llu %10llu\n", width, shown(where.first).c_str(), where.second.c_str(),
               static_cast<unsigned long long>(count.all.packets), static_cast<unsigned long long>(count.all.bytes),
               static_cast<unsigned long long>(count.pure_acks));
  if (const std::string sentence = summary.repeats.words(); !sentence.empty()) out << '\n' << sentence << '\n';
  if (summary.faults.empty()) return;
  out << "\nno segment            packets\n";
  for (const auto& [fault, packets] : summary.faults)
    write_line(out, "%-18s %10llu\n", fault.c_str(), static_cast<unsigned long long>(packets));
  for (const std::string& sentence : summary.unread.words())
    out << sentence << '\n';
}

void write_json(const Summary& summary, const std::filesystem::path& file, std::ostream& out)
{
  nlohmann::json all { { "file", file.string() },
                       { "packets", summary.all.packets },
                       { "bytes", summary.all.bytes },
                       { "first_ns", summary.first_ns },
                       { "last_ns", summary.last_ns },
                       { "reasons", nlohmann::json::array() },
                       { "links", nlohmann::json::array() },
                       { "faults", summary.faults } };
  if (!summary.fault.empty()) all["fault"] = summary.fault;
  if (const std::string sentence = summary.repeats.words(); !sentence.empty()) all["repeated"] = sentence;
  if (const auto& heading = summary.heading)
    all["heading"] = { { "version", heading->version }, { "commit", heading->commit }, { "command", heading->command },
                       { "kernel", heading->kernel },   { "knobs", heading->knobs },   { "seed", heading->seed } };
  for (const auto& [what, count] : summary.reasons)
    all["reasons"].push_back({ { "disposition", what.first },
                               { "why", what.second },
                               { "packets", count.packets },
                               { "bytes", count.bytes } });
  for (const auto& [where, count] : summary.links)
    all["links"].push_back({ { "link", where.first },
                             { "direction", where.second },
                             { "packets", count.all.packets },
                             { "bytes", count.all.bytes },
                             { "pure_acks", count.pure_acks } });
  out << all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

} // namespace tandem::trace_tool
