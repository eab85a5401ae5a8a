#include "src/feeder/recording/record.h"

#include "src/feeder/recording/record_value.h"

#include <array>
#include <exception>
#include <string>

namespace tandem::feeder
{
namespace
{

constexpr std::string_view format_name = "tandem-reports";

// What the fields are called, once for both ways: calls `each` with every name and member.

template <class Each>
void fields(const Frame&, Each&& each)
{
  using R = Frame;
  each("type", &R::kind);
  each("receiver", &R::receiver);
  each("transmitter", &R::transmitter);
  each("to_ap", &R::to_ap);
  each("from_ap", &R::from_ap);
  each("damaged", &R::damaged);
  each("sequence", &R::sequence);
  each("retry", &R::retry);
  each("tid", &R::tid);
  each("payload", &R::payload);
  each("signal", &R::signal);
  each("noise", &R::noise);
  each("frequency", &R::frequency);
  each("mbps", &R::mbps);
  each("mcs", &R::mcs);
  each("streams", &R::streams);
  each("aggregate", &R::aggregate);
  each("beacon_interval", &R::beacon_interval);
  each("bytes", &R::bytes);
  each("sent", &R::sent);
}

template <class Each>
void fields(const StationStats&, Each&& each)
{
  using R = StationStats;
  each("ap", &R::ap);
  each("signal", &R::signal);
  each("signal_average", &R::signal_average);
  each("inactive_ns", &R::inactive);
  each("rx_mbps", &R::rx_mbps);
  each("tx_mbps", &R::tx_mbps);
  each("rx_mcs", &R::rx_mcs);
  each("tx_mcs", &R::tx_mcs);
  each("rx_streams", &R::rx_streams);
  each("rx_bytes", &R::rx_bytes);
  each("tx_bytes", &R::tx_bytes);
  each("rx_packets", &R::rx_packets);
  each("tx_packets", &R::tx_packets);
  each("tx_retries", &R::tx_retries);
  each("tx_failed", &R::tx_failed);
  each("beacon_loss", &R::beacon_loss);
  each("beacons", &R::beacons);
  each("rx_duration_ns", &R::rx_duration);
  each("beacon_interval_ns", &R::beacon_interval);
}

template <class Each>
void fields(const Survey&, Each&& each)
{
  using R = Survey;
  each("frequency", &R::frequency);
  each("in_use", &R::in_use);
  each("noise", &R::noise);
  each("active_ns", &R::active);
  each("busy_ns", &R::busy);
  each("receiving_ns", &R::receiving);
  each("sending_ns", &R::sending);
}

template <class Each>
void fields(const WifiChange&, Each&& each)
{
  using R = WifiChange;
  each("change", &R::kind);
  each("ap", &R::ap);
  each("reason", &R::reason);
  each("by_ap", &R::by_ap);
  each("signal", &R::signal);
  each("packets", &R::packets);
}

template <class Each>
void fields(const Candidate&, Each&& each)
{
  using R = Candidate;
  each("ap", &R::ap);
  each("ssid", &R::ssid);
  each("frequency", &R::frequency);
  each("signal", &R::signal);
  each("age_ns", &R::age);
  each("associated", &R::associated);
}

template <class Each>
void fields(const ModemStats&, Each&& each)
{
  using R = ModemStats;
  each("modem", &R::modem);
  each("state", &R::state);
  each("technology", &R::technology);
  each("rssi", &R::rssi);
  each("rsrp", &R::rsrp);
  each("rsrq", &R::rsrq);
  each("snr", &R::snr);
  each("quality", &R::quality);
  each("gone", &R::gone);
}

template <class Each>
void fields(const InterfaceChange&, Each&& each)
{
  using R = InterfaceChange;
  each("interface", &R::interface);
  each("ifindex", &R::ifindex);
  each("up", &R::up);
  each("carrier", &R::carrier);
  each("gone", &R::gone);
}

// In the order of Report::what.
constexpr std::array<std::string_view, 7> kinds { "frame",     "station", "survey",   "wifi",
                                                  "candidate", "modem",   "interface" };
static_assert(kinds.size() == std::variant_size_v<decltype(Report::what)>);

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;

template <class What>
void write(Json& to, const What& what)
{
  const What unset {};
  fields(what,
         [&](const char* name, const auto member)
         {
           const auto& value = what.*member;
           if (value == unset.*member) return;
           if constexpr (is_optional<std::remove_cvref_t<decltype(value)>>)
           {
             if (auto json = written(*value)) to[name] = std::move(*json);
           }
           else if (auto json = written(value))
             to[name] = std::move(*json);
         });
}

template <class T>
T required(const Json& from, const char* name)
{
  const auto found = from.find(name);
  if (found == from.end()) throw RecordFault { std::string { name } + " is missing" };
  return read<T>(name, *found);
}

template <std::size_t i = 0>
void make_kind(std::string_view kind, Report& report)
{
  if constexpr (i == kinds.size())
  {
    std::string all {};
    for (const auto name : kinds)
      all += (all.empty() ? "" : ", ") + std::string { name };
    throw RecordFault { "kind: one of " + all + " is expected, not " + shown(Json(escaped(kind))) };
  }
  else if (kind == kinds[i])
    report.what.template emplace<i>();
  else
    make_kind<i + 1>(kind, report);
}

template <class What>
void read_fields(const Json& from, What& what)
{
  std::size_t used = 3; // at_ns, source, kind
  fields(what,
         [&](const char* name, const auto member)
         {
           const auto found = from.find(name);
           if (found == from.end()) return;
           ++used;
           auto& value = what.*member;
           using T = std::remove_cvref_t<decltype(value)>;
           if constexpr (is_optional<T>)
             value = read<typename T::value_type>(name, *found);
           else
             value = read<T>(name, *found);
         });
  if (used == from.size()) return;
  for (const auto& [name, value] : from.items())
  {
    bool known = name == "at_ns" || name == "source" || name == "kind";
    fields(what, [&, key = std::string_view { name }](std::string_view field, auto) { known = known || field == key; });
    if (!known) throw RecordFault { "unknown field " + shown(Json(escaped(name))) };
  }
}

RecordHeader header_of(const Json& record)
{
  if (required<std::string>(record, "format") != format_name)
    throw RecordFault { "this is no recording of reports: its format is " + shown(record["format"]) };
  if (const auto version = required<unsigned>(record, "version"); version != record_version)
    throw RecordFault { "it has version " + std::to_string(version) + ", this program reads version "
                        + std::to_string(record_version) };
  return { Tick { required<Duration>(record, "start_ns") },
           record.contains("start") ? required<std::string>(record, "start") : "" };
}

RecordedReport report_of(const Json& record)
{
  RecordedReport result {};
  result.report.at = Tick { required<Duration>(record, "at_ns") };
  result.source = required<std::string>(record, "source");
  make_kind(required<std::string>(record, "kind"), result.report);
  std::visit([&](auto& what) { read_fields(record, what); }, result.report.what);
  return result;
}

Record record_of(const Json& record)
{
  if (!record.is_object()) throw RecordFault { "an object is expected, not " + shown(record) };
  if (record.contains("format")) return header_of(record);
  if (record.contains("note"))
    return RecordNote { Tick { required<Duration>(record, "at_ns") }, required<std::string>(record, "note") };
  return report_of(record);
}

} // namespace

Json to_json(const RecordHeader& header)
{
  return { { "format", format_name },
           { "version", record_version },
           { "start_ns", header.start.time_since_epoch().count() },
           { "start", escaped(header.wall_clock) } };
}

Json to_json(std::string_view source, const Report& report)
{
  Json json { { "at_ns", report.at.time_since_epoch().count() },
              { "source", escaped(source) },
              { "kind", kinds[report.what.index()] } };
  std::visit([&](const auto& what) { write(json, what); }, report.what);
  return json;
}

Json to_json(const RecordNote& note)
{
  return { { "at_ns", note.at.time_since_epoch().count() }, { "note", escaped(note.text) } };
}

std::string to_line(const Json& record)
{
  return record.dump();
}

ReadRecord from_json(std::string_view line)
{
  if (line.size() > longest_record)
    return { .fault = "the line is longer than " + std::to_string(longest_record) + " bytes" };
  try
  {
    // Records are flat. What is not could be nested deeply enough to overflow the stack of whoever walks it.
    const auto flat = [](int depth, Json::parse_event_t event, const Json&)
    {
      const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
      if (opens && depth > 0) throw RecordFault { "a value is an object or a list; a record has none" };
      return true;
    };
    return { .record = record_of(Json::parse(line, flat)) };
  }
  catch (const Json::parse_error& error)
  {
    // "[json.exception.parse_error.101] parse error at line 1, column 3: syntax error ..."
    std::string_view why { error.what() };
    if (const auto bracket = why.find("] "); bracket != why.npos) why.remove_prefix(bracket + 2);
    return { .fault = "no JSON: " + escaped(why.substr(0, 200)) };
  }
  catch (const std::exception& error)
  {
    return { .fault = error.what() };
  }
}

} // namespace tandem::feeder
