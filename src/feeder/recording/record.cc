#include "src/feeder/recording/record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <type_traits>

namespace tandem::feeder
{
namespace
{

using Json = nlohmann::ordered_json;

constexpr std::string_view format_name = "tandem-reports";

// The sentence that from_json() gives back.
struct Fault : std::runtime_error
{
  using std::runtime_error::runtime_error;
};

// What the fields are called, once for both ways.

template <class Kind, std::size_t n>
struct Names
{
  std::array<std::pair<Kind, std::string_view>, n> pairs;
};

constexpr Names<Frame::Kind, 5> names_of(Frame::Kind)
{
  using enum Frame::Kind;
  return { { { { data, "data" },
               { acknowledgement, "acknowledgement" },
               { beacon, "beacon" },
               { goodbye, "goodbye" },
               { other, "other" } } } };
}

constexpr Names<WifiChange::Kind, 7> names_of(WifiChange::Kind)
{
  using enum WifiChange::Kind;
  return { { { { connected, "connected" },
               { roamed, "roamed" },
               { disconnected, "disconnected" },
               { signal_low, "signal_low" },
               { signal_high, "signal_high" },
               { beacon_loss, "beacon_loss" },
               { packet_loss, "packet_loss" } } } };
}

template <class R, class Each>
void fields(Each&& each)
{
  if constexpr (std::is_same_v<R, Frame>)
  {
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
  else if constexpr (std::is_same_v<R, StationStats>)
  {
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
  else if constexpr (std::is_same_v<R, Survey>)
  {
    each("frequency", &R::frequency);
    each("in_use", &R::in_use);
    each("noise", &R::noise);
    each("active_ns", &R::active);
    each("busy_ns", &R::busy);
    each("receiving_ns", &R::receiving);
    each("sending_ns", &R::sending);
  }
  else if constexpr (std::is_same_v<R, WifiChange>)
  {
    each("change", &R::kind);
    each("ap", &R::ap);
    each("reason", &R::reason);
    each("by_ap", &R::by_ap);
    each("signal", &R::signal);
    each("packets", &R::packets);
  }
  else if constexpr (std::is_same_v<R, Candidate>)
  {
    each("ap", &R::ap);
    each("ssid", &R::ssid);
    each("frequency", &R::frequency);
    each("signal", &R::signal);
    each("age_ns", &R::age);
    each("associated", &R::associated);
  }
  else if constexpr (std::is_same_v<R, ModemStats>)
  {
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
  else
  {
    static_assert(std::is_same_v<R, InterfaceChange>);
    each("interface", &R::interface);
    each("ifindex", &R::ifindex);
    each("up", &R::up);
    each("carrier", &R::carrier);
    each("gone", &R::gone);
  }
}

// In the order of Report::what.
constexpr std::array<std::string_view, 7> kinds { "frame",     "station", "survey",   "wifi",
                                                  "candidate", "modem",   "interface" };
static_assert(kinds.size() == std::variant_size_v<decltype(Report::what)>);

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;

// A float as the double that is written with the same few digits: -61.3, not -61.29999923706055.
double widened(float value)
{
  std::array<char, 64> buffer {};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  double result = value;
  std::from_chars(buffer.data(), end, result);
  return result;
}

// Nothing where JSON has no word for it.
template <class T>
std::optional<Json> written(const T& value)
{
  if constexpr (std::is_same_v<T, Mac>)
    return text(value);
  else if constexpr (std::is_same_v<T, std::string>)
    return escaped(value);
  else if constexpr (std::is_same_v<T, Duration>)
    return value.count();
  else if constexpr (std::is_enum_v<T>)
  {
    for (const auto& [kind, name] : names_of(value).pairs)
      if (kind == value) return name;
    return {};
  }
  else if constexpr (std::is_floating_point_v<T>)
  {
    if (!std::isfinite(value)) return {};
    if constexpr (std::is_same_v<T, float>) return widened(value);
    return value;
  }
  else
    return value;
}

template <class What>
void write(Json& to, const What& what)
{
  const What unset {};
  fields<What>(
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

// A value as people type it, short.
std::string shown(const Json& value)
{
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  // What was cut through is no character any more.
  while (!text.empty() && text.size() == 40 && (static_cast<unsigned char>(text[36]) & 0x80) != 0)
    text.erase(36, 1);
  return text;
}

[[noreturn]] void wrong(std::string_view name, std::string_view expected, const Json& value)
{
  throw Fault { std::string { name } + ": " + std::string { expected } + " is expected, not " + shown(value) };
}

template <class T>
T integer(std::string_view name, const Json& value)
{
  using Limits = std::numeric_limits<T>;
  const std::string range =
      "a whole number from " + std::to_string(Limits::min()) + " to " + std::to_string(Limits::max());
  if (value.is_number_unsigned())
  {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(Limits::max())) wrong(name, range, value);
    return static_cast<T>(number);
  }
  if (!value.is_number_integer()) wrong(name, range, value);
  const auto number = value.get<std::int64_t>(); // negative
  if (std::is_unsigned_v<T> || number < static_cast<std::int64_t>(Limits::min())) wrong(name, range, value);
  return static_cast<T>(number);
}

std::string string_of(std::string_view name, const Json& value)
{
  if (!value.is_string()) wrong(name, "text", value);
  auto bytes = unescaped(value.get_ref<const std::string&>());
  if (!bytes) wrong(name, "text with \\\\ and \\xNN as its only escapes", value);
  return std::move(*bytes);
}

Mac mac_of(std::string_view name, const Json& value)
{
  std::optional<Mac> mac {};
  if (value.is_string()) mac = parse_mac(value.get_ref<const std::string&>());
  if (!mac) wrong(name, "an address like 02:00:00:00:01:00", value);
  return *mac;
}

template <class T>
T read(std::string_view name, const Json& value)
{
  if constexpr (std::is_same_v<T, Mac>)
    return mac_of(name, value);
  else if constexpr (std::is_same_v<T, std::string>)
    return string_of(name, value);
  else if constexpr (std::is_same_v<T, Duration>)
    return Duration { integer<std::int64_t>(name, value) };
  else if constexpr (std::is_enum_v<T>)
  {
    std::string all {};
    for (const auto& [kind, word] : names_of(T {}).pairs)
    {
      if (value == word) return kind;
      all += (all.empty() ? "" : ", ") + std::string { word };
    }
    wrong(name, "one of " + all, value);
  }
  else if constexpr (std::is_same_v<T, bool>)
  {
    if (!value.is_boolean()) wrong(name, "true or false", value);
    return value.get<bool>();
  }
  else if constexpr (std::is_floating_point_v<T>)
  {
    if (!value.is_number()) wrong(name, "a number", value);
    const double number = value.get<double>();
    // The largest float is written with a few digits, which are a little more; half a step above it is too much.
    constexpr double end = std::is_same_v<T, float> ? 0x1.ffffffp127 : std::numeric_limits<double>::infinity();
    if (!(std::abs(number) < end)) wrong(name, "a smaller number", value);
    return static_cast<T>(number);
  }
  else
    return integer<T>(name, value);
}

template <class T>
T required(const Json& from, const char* name)
{
  const auto found = from.find(name);
  if (found == from.end()) throw Fault { std::string { name } + " is missing" };
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
    throw Fault { "kind: one of " + all + " is expected, not " + shown(Json(escaped(kind))) };
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
  fields<What>(
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
    fields<What>([&, key = std::string_view { name }](std::string_view field, auto) { known = known || field == key; });
    if (!known) throw Fault { "unknown field " + shown(Json(escaped(name))) };
  }
}

RecordHeader header_of(const Json& record)
{
  if (required<std::string>(record, "format") != format_name)
    throw Fault { "this is no recording of reports: its format is " + shown(record["format"]) };
  if (const auto version = required<unsigned>(record, "version"); version != record_version)
    throw Fault { "it has version " + std::to_string(version) + ", this program reads version "
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
  if (!record.is_object()) throw Fault { "an object is expected, not " + shown(record) };
  if (record.contains("format")) return header_of(record);
  if (record.contains("note"))
    return RecordNote { Tick { required<Duration>(record, "at_ns") }, required<std::string>(record, "note") };
  return report_of(record);
}

// Length of the character in UTF-8 at the start of `text`; 0 when it is none (RFC 3629, section 4).
std::size_t character(std::string_view text)
{
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&](std::size_t i) { return (at(i) & 0xc0) == 0x80; };
  const unsigned head = at(0);
  if (head < 0x80) return 1;
  if (head >= 0xc2 && head <= 0xdf) return tail(1) ? 2 : 0;
  if (head >= 0xe0 && head <= 0xef)
  {
    const bool second = head == 0xe0 ? at(1) >= 0xa0 : head == 0xed ? at(1) <= 0x9f : true;
    return second && tail(1) && tail(2) ? 3 : 0;
  }
  if (head >= 0xf0 && head <= 0xf4)
  {
    const bool second = head == 0xf0 ? at(1) >= 0x90 : head == 0xf4 ? at(1) <= 0x8f : true;
    return second && tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

} // namespace

std::string escaped(std::string_view bytes)
{
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result {};
  result.reserve(bytes.size());
  while (!bytes.empty())
  {
    const std::size_t length = character(bytes);
    if (bytes.front() == '\\')
      result += "\\\\";
    else if (length != 0)
      result += bytes.substr(0, length);
    else
    {
      const auto byte = static_cast<unsigned char>(bytes.front());
      result += { '\\', 'x', digits[byte >> 4], digits[byte & 15] };
    }
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::optional<std::string> unescaped(std::string_view text)
{
  std::string result {};
  result.reserve(text.size());
  while (!text.empty())
  {
    if (text.front() != '\\')
    {
      result += text.front();
      text.remove_prefix(1);
    }
    else if (text.starts_with("\\\\"))
    {
      result += '\\';
      text.remove_prefix(2);
    }
    else if (text.starts_with("\\x") && text.size() >= 4)
    {
      unsigned char byte = 0;
      const auto [end, error] = std::from_chars(text.data() + 2, text.data() + 4, byte, 16);
      if (error != std::errc {} || end != text.data() + 4) return {};
      result += static_cast<char>(byte);
      text.remove_prefix(4);
    }
    else
      return {};
  }
  return result;
}

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
      if (opens && depth > 0) throw Fault { "a value is an object or a list; a record has none" };
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
