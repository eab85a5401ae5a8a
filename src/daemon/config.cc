#include "src/daemon/config.h"

#include "src/control/literal.h"
#include "src/control/nearest.h"
#include "src/feeder/sources/source_name.h"

#include <tandem/link.h>

#include <arpa/inet.h>
// Without NDEBUG the library asserts where it also has an error to report ("[.a"): a file must never abort the daemon.
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>
#include <sstream>
#include <system_error>
#include <utility>
#include <variant>

namespace tandem::daemon
{
namespace
{

constexpr std::size_t largest_file = 1u << 20;
constexpr std::size_t most_fetch_ports = 16; // kernel::Tap::most_ports

// A TOML value, or the text of a command-line option standing for one.
struct Value
{
  std::variant<std::monostate, std::string, std::int64_t, double, bool, std::vector<Value>> what {};
  bool typed = false; // on the command line: a number is still text
};

// Control characters spelled out, long texts cut: a message is one line, whatever the file holds.
std::string in_one_line(std::string_view text, std::size_t longest)
{
  std::string out;
  for (const char letter : text.substr(0, longest))
  {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 0x20 || code == 0x7f)
    {
      constexpr std::string_view digits = "0123456789abcdef";
      ((out += "\\x") += digits[code >> 4]) += digits[code & 15];
    }
    else
      out += letter;
  }
  return out + (text.size() > longest ? "..." : "");
}

std::string in_quotes(std::string_view text)
{
  std::string escaped;
  for (const char letter : text.substr(0, 61))
  {
    if (letter == '"' || letter == '\\') escaped += '\\';
    escaped += letter;
  }
  return '"' + in_one_line(escaped, 60) + '"';
}

std::string shown(const Value& value)
{
  if (const auto* text = std::get_if<std::string>(&value.what)) return in_quotes(*text);
  if (const auto* integer = std::get_if<std::int64_t>(&value.what)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value.what))
  {
    std::array<char, 40> buffer {};
    const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), *real);
    return { buffer.data(), result.ptr };
  }
  if (const auto* boolean = std::get_if<bool>(&value.what)) return *boolean ? "true" : "false";
  if (const auto* list = std::get_if<std::vector<Value>>(&value.what))
  {
    std::string out = "[";
    for (std::size_t i = 0; i < list->size(); ++i)
    {
      out += (i == 0 ? "" : ", ") + shown((*list)[i]);
      if (out.size() > 80) return out + ", ...]";
    }
    return out + "]";
  }
  return "(a table or date)";
}

// The same as shown(), for settings of which only the text is kept.
std::string shown_text(std::string_view text)
{
  const bool bare =
      !text.empty()
      && (text == "true" || text == "false" || text.find_first_not_of("0123456789.-") == std::string_view::npos);
  return bare ? std::string { text } : in_quotes(text);
}

Value converted(const toml::node& node)
{
  if (const auto* text = node.as_string()) return { text->get() };
  if (const auto* integer = node.as_integer()) return { integer->get() };
  if (const auto* real = node.as_floating_point()) return { real->get() };
  if (const auto* boolean = node.as_boolean()) return { boolean->get() };
  if (const auto* array = node.as_array())
  {
    std::vector<Value> list;
    list.reserve(array->size());
    for (const toml::node& element : *array)
      list.push_back(converted(element));
    return { std::move(list) };
  }
  return {};
}

// ---- What a value may be ----

std::optional<std::string> as_text(const Value& value)
{
  const auto* text = std::get_if<std::string>(&value.what);
  // A zero byte would end the text early in every system call.
  if (!text || text->find('\0') != std::string::npos) return {};
  return *text;
}

std::optional<std::int64_t> as_integer(const Value& value)
{
  if (const auto* integer = std::get_if<std::int64_t>(&value.what)) return *integer;
  const auto* text = std::get_if<std::string>(&value.what);
  if (!text || !value.typed) return {};
  const bool hexadecimal = text->starts_with("0x");
  std::int64_t number = 0;
  const char* end = text->data() + text->size();
  const auto result = std::from_chars(text->data() + (hexadecimal ? 2 : 0), end, number, hexadecimal ? 16 : 10);
  if (result.ec != std::errc {} || result.ptr != end) return {};
  return number;
}

// A size with its unit, or a plain number of bytes.
std::optional<std::uint64_t> as_bytes(const Value& value)
{
  if (const auto* integer = std::get_if<std::int64_t>(&value.what); integer && *integer >= 0)
    return static_cast<std::uint64_t>(*integer);
  const auto text = as_text(value);
  return text ? parse_bytes(*text) : std::nullopt;
}

template <class Number>
bool put_integer(Number& out, const Value& value, std::int64_t from, std::int64_t to)
{
  const auto integer = as_integer(value);
  if (!integer || *integer < from || *integer > to) return false;
  out = static_cast<Number>(*integer);
  return true;
}

bool put_path(std::filesystem::path& out, const Value& value, std::size_t longest = 4000)
{
  const auto text = as_text(value);
  if (!text || text->empty() || text->front() != '/' || text->size() > longest) return false;
  out = *text;
  return true;
}

// What the kernel's dev_valid_name allows, and nothing that would upset a rule file or a terminal.
bool is_interface_name(std::string_view name)
{
  if (name.empty() || name.size() > 15 || name == "." || name == "..") return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return c > ' ' && c < 0x7f && std::strchr("/:\"'\\;{}", c) == nullptr; });
}

std::optional<Network> as_network(std::string_view text)
{
  const std::size_t slash = text.find('/');
  const std::string address { text.substr(0, slash) };
  Network network;
  network.address.v6 = address.find(':') != std::string::npos;
  const unsigned longest = network.address.v6 ? 128 : 32;
  network.prefix = longest;
  if (inet_pton(network.address.v6 ? AF_INET6 : AF_INET, address.c_str(), network.address.bytes.data()) != 1) return {};
  if (slash != std::string_view::npos)
  {
    const std::string_view digits = text.substr(slash + 1);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), network.prefix);
    if (result.ec != std::errc {} || result.ptr != digits.data() + digits.size() || network.prefix > longest) return {};
  }
  for (unsigned bit = network.prefix; bit < longest; ++bit)
    network.address.bytes[bit / 8] = static_cast<std::uint8_t>(network.address.bytes[bit / 8] & ~(0x80u >> (bit % 8)));
  return network;
}

std::optional<Listen> as_loopback(std::string_view text)
{
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {};
  Listen listen;
  listen.host = text.substr(0, colon);
  const bool bracketed = listen.host.size() > 2 && listen.host.front() == '[' && listen.host.back() == ']';
  if (bracketed) listen.host = listen.host.substr(1, listen.host.size() - 2);
  const auto network = as_network(listen.host);
  if (!network || listen.host.find('/') != std::string::npos || network->address.v6 != bracketed) return {};
  const auto& bytes = network->address.bytes;
  const bool loopback =
      bracketed ? bytes[15] == 1 && std::all_of(bytes.begin(), bytes.end() - 1, [](auto b) { return b == 0; })
                : bytes[0] == 127;
  const std::string_view digits = text.substr(colon + 1);
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), listen.port);
  if (!loopback || result.ec != std::errc {} || result.ptr != digits.data() + digits.size() || listen.port == 0)
    return {};
  return listen;
}

// A list of values; on the command line, one text with commas.
std::optional<std::vector<Value>> as_list(const Value& value)
{
  if (const auto* list = std::get_if<std::vector<Value>>(&value.what)) return *list;
  const auto* text = std::get_if<std::string>(&value.what);
  if (!text || !value.typed) return {};
  std::vector<Value> list;
  std::istringstream words { *text };
  for (std::string word; std::getline(words, word, ',');)
    list.push_back({ word, true });
  return list;
}

// Names of sources of driver statistics: a list, or one text with commas.
std::optional<std::vector<std::string>> as_sources(const Value& value)
{
  std::vector<std::string> names;
  constexpr std::size_t most = 8;
  const auto* list = std::get_if<std::vector<Value>>(&value.what);
  for (const Value& one : list ? *list : std::vector<Value> { value })
  {
    const auto text = as_text(one);
    if (!text) return {};
    std::istringstream words { *text };
    for (std::string word; std::getline(words, word, ',');)
    {
      const auto from = word.find_first_not_of(' '), to = word.find_last_not_of(' ');
      names.push_back(from == std::string::npos ? std::string {} : word.substr(from, to - from + 1));
    }
  }
  if (names.empty() || names.size() > most || !std::all_of(names.begin(), names.end(), feeder::is_source_name))
    return {};
  std::erase(names, "none");
  return names;
}

bool put_duration(Duration& out, const Value& value, Duration from, Duration to)
{
  const auto text = as_text(value);
  const auto duration = text ? parse_duration(*text) : std::nullopt;
  if (!duration || *duration < from || *duration > to) return false;
  out = *duration;
  return true;
}

// A number, whole or not.
std::optional<double> as_real(const Value& value)
{
  if (const auto* integer = std::get_if<std::int64_t>(&value.what)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value.what)) return *real;
  const auto* text = std::get_if<std::string>(&value.what);
  if (!text || !value.typed) return {};
  double number = 0;
  const auto result = std::from_chars(text->data(), text->data() + text->size(), number);
  if (result.ec != std::errc {} || result.ptr != text->data() + text->size()) return {};
  return number;
}

// On the command line every value is text.
bool put_flag(bool& out, const Value& value)
{
  const std::string text = shown(value);
  out = text == "true" || text == "\"true\"";
  return out || text == "false" || text == "\"false\"";
}

constexpr std::size_t longest_list = 256;

bool put_more_wifi(Config& config, const Value& value)
{
  const auto word = as_text(value);
  if (word == "auto" || word == "none")
  {
    config.links.more_wifi.reset();
    if (word == "none") config.links.more_wifi.emplace();
    return true;
  }
  const auto list = as_list(value);
  if (!list || list->size() >= most_wifi) return false;
  std::vector<std::string> names;
  for (const Value& one : *list)
  {
    const auto name = as_text(one);
    if (!name || !is_interface_name(*name) || *name == "auto" || *name == "none") return false;
    if (std::find(names.begin(), names.end(), *name) != names.end()) return false;
    names.push_back(*name);
  }
  config.links.more_wifi = std::move(names);
  return true;
}

// ---- The settings ----

struct Setting
{
  std::string_view key;
  bool (*put)(Config&, const Value&);
  std::string_view needed;
};

constexpr std::array settings {
  Setting { "links.wifi",
            [](Config& c, const Value& v)
            {
              const auto name = as_text(v);
              if (!name || !is_interface_name(*name) || *name == "none") return false;
              c.links.wifi = *name;
              return true;
            },
            "an interface name of 1 to 15 characters, or \"auto\", is needed" },
  Setting { "links.cell",
            [](Config& c, const Value& v)
            {
              const auto name = as_text(v);
              if (!name || !is_interface_name(*name)) return false;
              c.links.cell = *name;
              return true;
            },
            "an interface name of 1 to 15 characters, \"auto\" or \"none\" is needed" },
  Setting { "links.more_wifi", put_more_wifi,
            "\"auto\", \"none\", or a list of at most 7 interface names, each once, such as [\"wlan1\", \"wlan2\"] is "
            "needed" },
  Setting { "links.radio",
            [](Config& c, const Value& v)
            {
              const auto names = as_sources(v);
              if (names) c.links.radio = *names;
              return names.has_value();
            },
            "\"auto\", \"none\", or names with commas between them are needed: \"nl80211\", \"monitor\", "
            "\"monitor:INTERFACE\", \"lab:PATH\", \"replay:PATH\" (absolute paths of at most 100 characters)" },
  Setting { "links.modem",
            [](Config& c, const Value& v)
            {
              const auto text = as_text(v);
              if (!text || (*text != "auto" && *text != "none")) return false;
              c.links.modem = *text == "auto";
              return true;
            },
            "\"auto\" or \"none\" is needed" },
  Setting { "links.record",
            [](Config& c, const Value& v)
            {
              const auto text = as_text(v);
              if (!text || (!text->empty() && !text->starts_with('/'))) return false;
              c.links.record = *text;
              return true;
            },
            "an absolute path, or an empty text, is needed" },
  Setting { "detector.watch",
            [](Config& c, const Value& v)
            {
              const auto name = as_text(v);
              if (name == "needed")
                c.detector.watch = BlackoutWatch::needed;
              else if (name == "always")
                c.detector.watch = BlackoutWatch::always;
              else if (name == "never")
                c.detector.watch = BlackoutWatch::never;
              else
                return false;
              return true;
            },
            "\"needed\", \"always\" or \"never\" is needed" },
  Setting { "detector.busy_packets",
            [](Config& c, const Value& v) { return put_integer(c.detector.blackout.busy_packets, v, 2, 10000); },
            "a number of packets from 2 to 10000 is needed" },
  Setting { "detector.silence",
            [](Config& c, const Value& v) {
              return put_duration(c.detector.blackout.silence, v, std::chrono::milliseconds { 20 },
                                  std::chrono::seconds { 2 });
            },
            "a duration from \"20ms\" to \"2s\" is needed" },
  Setting { "detector.silence_longest",
            [](Config& c, const Value& v)
            {
              return put_duration(c.detector.blackout.silence_longest, v, std::chrono::milliseconds { 20 },
                                  std::chrono::seconds { 10 });
            },
            "a duration from \"20ms\" to \"10s\" is needed" },
  Setting { "detector.verdict_after",
            [](Config& c, const Value& v)
            {
              return put_duration(c.detector.blackout.verdict_after, v, std::chrono::milliseconds { 20 },
                                  std::chrono::seconds { 10 });
            },
            "a duration from \"20ms\" to \"10s\" is needed" },
  Setting { "detector.verdict_probes",
            [](Config& c, const Value& v) { return put_integer(c.detector.blackout.verdict_probes, v, 2, 10); },
            "a number of probes from 2 to 10 is needed" },
  Setting { "detector.radio_silence",
            [](Config& c, const Value& v)
            {
              return put_duration(c.detector.blackout.radio_silence, v, std::chrono::milliseconds { 5 },
                                  std::chrono::seconds { 1 });
            },
            "a duration from \"5ms\" to \"1s\" is needed" },
  Setting { "detector.radio_verdict",
            [](Config& c, const Value& v)
            {
              return put_duration(c.detector.blackout.radio_verdict, v, std::chrono::milliseconds { 10 },
                                  std::chrono::seconds { 2 });
            },
            "a duration from \"10ms\" to \"2s\" is needed" },
  Setting { "detector.critical_signal",
            [](Config& c, const Value& v)
            {
              const auto dbm = as_real(v);
              if (!dbm || !(*dbm >= -110 && *dbm <= -30)) return false;
              c.detector.risk.critical_dbm = *dbm;
              return true;
            },
            "a signal in dBm from -110 to -30 is needed" },
  Setting { "detector.horizon",
            [](Config& c, const Value& v) {
              return put_duration(c.detector.risk.horizon, v, std::chrono::milliseconds { 100 },
                                  std::chrono::seconds { 5 });
            },
            "a duration from \"100ms\" to \"5s\" is needed" },
  Setting { "daemon.socket",
            // sun_path has 108 bytes, the last one a zero; the lock file's name is as long.
            [](Config& c, const Value& v)
            { return put_path(c.daemon.socket, v, 100) && c.daemon.socket.has_filename(); },
            "an absolute path of a file, at most 100 characters, is needed" },
  Setting { "daemon.socket_group",
            [](Config& c, const Value& v)
            {
              const auto name = as_text(v);
              if (!name || name->size() > 32 || name->find_first_of(" \t\n:") != std::string::npos) return false;
              c.daemon.socket_group = *name;
              return true;
            },
            "a group name, or \"\" for root only, is needed" },
  Setting { "daemon.module_dir", [](Config& c, const Value& v) { return put_path(c.daemon.module_dir, v); },
            "an absolute path of a directory is needed" },
  Setting { "recorder.everything", [](Config& c, const Value& v) { return put_flag(c.recorder.everything, v); },
            "true or false is needed" },
  Setting { "daemon.queue", [](Config& c, const Value& v) { return put_integer(c.daemon.queue, v, 0, 65535); },
            "an NFQUEUE number from 0 to 65535 is needed" },
  Setting { "daemon.queue_length",
            [](Config& c, const Value& v) { return put_integer(c.daemon.queue_length, v, 16, 65536); },
            "a number of packets from 16 to 65536 is needed" },
  Setting { "daemon.mark_mask",
            [](Config& c, const Value& v)
            {
              std::uint32_t mask = 0;
              if (!put_integer(mask, v, 1, 0xffffffff) || std::popcount(mask) != 3) return false;
              c.daemon.mark_mask = mask;
              return true;
            },
            "three bits of the 32-bit firewall mark, such as 0x70000000, are needed" },
  Setting { "daemon.route_table",
            [](Config& c, const Value& v)
            {
              std::uint32_t table = 0;
              if (!put_integer(table, v, 1, 0xfffffffe) || (table >= 253 && table <= 255)) return false;
              c.daemon.route_table = table;
              return true;
            },
            "a routing table number from 1 to 4294967294, other than 253 to 255 (default, main, local), is needed" },
  Setting { "daemon.rule_priority",
            [](Config& c, const Value& v) { return put_integer(c.daemon.rule_priority, v, 1, 32765); },
            "a priority from 1 to 32765 (before the main table's) is needed" },
  Setting { "daemon.backend",
            [](Config& c, const Value& v)
            {
              const auto name = as_text(v);
              if (name == "auto")
                c.daemon.backend = RuleBackend::automatic;
              else if (name == "nft")
                c.daemon.backend = RuleBackend::nft;
              else if (name == "iptables")
                c.daemon.backend = RuleBackend::iptables;
              else
                return false;
              return true;
            },
            "\"auto\", \"nft\" or \"iptables\" is needed" },
  Setting { "daemon.max_flows",
            [](Config& c, const Value& v) { return put_integer(c.daemon.max_flows, v, 16, 1 << 20); },
            "a number of flows from 16 to 1048576 is needed" },
  Setting { "daemon.flow_idle",
            [](Config& c, const Value& v)
            {
              const auto text = as_text(v);
              const auto idle = text ? parse_duration(*text) : std::nullopt;
              if (!idle || *idle < std::chrono::seconds { 1 } || *idle > std::chrono::hours { 24 }) return false;
              c.daemon.flow_idle = *idle;
              return true;
            },
            "a duration from \"1s\" to \"24h\" is needed" },
  Setting { "daemon.observe_sample",
            [](Config& c, const Value& v) { return put_integer(c.daemon.observe_sample, v, 1, 65535); },
            "a whole number from 1 (every packet) to 65535 is needed" },
  Setting { "daemon.exempt_networks",
            [](Config& c, const Value& v)
            {
              const auto list = as_list(v);
              if (!list || list->size() > longest_list) return false;
              std::vector<Network> networks;
              for (const Value& element : *list)
              {
                const auto text = as_text(element);
                const auto network = text ? as_network(*text) : std::nullopt;
                if (!network) return false;
                networks.push_back(*network);
              }
              c.daemon.exempt_networks = std::move(networks);
              return true;
            },
            "a list of at most 256 networks such as [\"10.0.0.0/8\", \"2001:db8::/32\"] is needed" },
  Setting { "daemon.exempt_ports",
            [](Config& c, const Value& v)
            {
              const auto list = as_list(v);
              if (!list || list->size() > longest_list) return false;
              std::vector<std::uint16_t> ports(list->size());
              for (std::size_t i = 0; i < ports.size(); ++i)
                if (!put_integer(ports[i], (*list)[i], 1, 65535)) return false;
              c.daemon.exempt_ports = std::move(ports);
              return true;
            },
            "a list of at most 256 ports from 1 to 65535 such as [22, 5060] is needed" },
  Setting { "recorder.seconds", [](Config& c, const Value& v) { return put_integer(c.recorder.seconds, v, 0, 3600); },
            "a whole number of seconds from 0 (off) to 3600 is needed" },
  Setting { "recorder.bytes",
            [](Config& c, const Value& v)
            {
              const auto bytes = as_bytes(v);
              if (!bytes || *bytes < (1u << 16) || *bytes > (1u << 30)) return false;
              c.recorder.bytes = *bytes;
              return true;
            },
            "a size from \"64KiB\" to \"1GiB\" is needed" },
  Setting { "recorder.snap", [](Config& c, const Value& v) { return put_integer(c.recorder.snap, v, 64, 65535); },
            "a number of bytes from 64 to 65535 is needed" },
  Setting { "recorder.directory", [](Config& c, const Value& v) { return put_path(c.recorder.directory, v); },
            "an absolute path of a directory is needed" },
  Setting {
      "metrics.listen",
      [](Config& c, const Value& v)
      {
        const auto text = as_text(v);
        if (!text) return false;
        if (text->empty())
        {
          c.metrics.listen.reset();
          return true;
        }
        auto listen = as_loopback(*text);
        if (!listen) return false;
        c.metrics.listen = std::move(listen);
        return true;
      },
      "a loopback address with a port such as \"127.0.0.1:9101\" or \"[::1]:9101\", or \"\" for none, is needed" },
  Setting { "fetch.ports",
            [](Config& c, const Value& v)
            {
              const auto list = as_list(v);
              if (!list || list->size() > most_fetch_ports) return false;
              std::vector<std::uint16_t> ports(list->size());
              for (std::size_t i = 0; i < ports.size(); ++i)
                if (!put_integer(ports[i], (*list)[i], 1, 65535)) return false;
              c.fetch.ports = std::move(ports);
              return true;
            },
            "a list of at most 16 ports from 1 to 65535 such as [80, 8080] is needed" },
  Setting { "fetch.max_pieces", [](Config& c, const Value& v) { return put_integer(c.fetch.max_pieces, v, 1, 256); },
            "a number of pieces from 1 to 256 is needed" },
  Setting { "fetch.piece_bytes",
            [](Config& c, const Value& v)
            {
              const auto bytes = as_bytes(v);
              if (!bytes || *bytes < (4u << 10) || *bytes > (4u << 20)) return false;
              c.fetch.piece_bytes = *bytes;
              return true;
            },
            "a size from \"4KiB\" to \"4MiB\" is needed" },
  Setting { "fetch.total_bytes",
            [](Config& c, const Value& v)
            {
              const auto bytes = as_bytes(v);
              if (!bytes || *bytes < (64u << 10) || *bytes > (256u << 20)) return false;
              c.fetch.total_bytes = *bytes;
              return true;
            },
            "a size from \"64KiB\" to \"256MiB\" is needed" },
  Setting { "fetch.credentials", [](Config& c, const Value& v) { return put_flag(c.fetch.credentials, v); },
            "true or false is needed" },
  Setting { "fetch.replay_guard",
            [](Config& c, const Value& v)
            { return put_duration(c.fetch.replay_guard, v, Duration {}, std::chrono::seconds { 2 }); },
            "a duration from \"0ms\" to \"2s\" is needed" },
  Setting { "fetch.replay_early_guard",
            [](Config& c, const Value& v) { return put_flag(c.fetch.replay_early_guard, v); },
            "true or false is needed" },
  Setting { "fetch.replay_sweep_rate",
            [](Config& c, const Value& v)
            {
              const auto text = as_text(v);
              const auto rate = text ? parse_rate(*text) : std::nullopt;
              if (!rate || rate->bits_per_second < 1e6 || rate->bits_per_second > 1e10) return false;
              c.fetch.replay_sweep_rate = *rate;
              return true;
            },
            "a rate from \"1Mbit\" to \"10Gbit\" is needed" },
  Setting { "fetch.replay_sweep_window",
            [](Config& c, const Value& v)
            {
              const auto bytes = as_bytes(v);
              if (!bytes || *bytes < (64u << 10) || *bytes > (64u << 20)) return false;
              c.fetch.replay_sweep_window = *bytes;
              return true;
            },
            "a size from \"64KiB\" to \"64MiB\" is needed" },
  Setting { "mptcp.setup", [](Config& c, const Value& v) { return put_flag(c.mptcp.setup, v); },
            "true or false is needed" },
  Setting { "mptcp.foreign", [](Config& c, const Value& v) { return put_flag(c.mptcp.foreign, v); },
            "true or false is needed" },
  Setting { "budget.cell_bytes",
            [](Config& c, const Value& v)
            {
              if (as_text(v) == "")
              {
                c.budget.cell_bytes.reset();
                return true;
              }
              const auto bytes = as_bytes(v);
              if (!bytes) return false;
              c.budget.cell_bytes = *bytes;
              return true;
            },
            "a size such as \"500MB\", or \"\" for no limit, is needed" },
};

constexpr std::array<std::string_view, 9> sections { "links", "daemon", "recorder", "detector", "metrics",
                                                     "fetch", "mptcp",  "budget",   "modules" };

const Setting* find_setting(std::string_view key)
{
  const auto found = std::find_if(settings.begin(), settings.end(), [&](const Setting& s) { return s.key == key; });
  return found == settings.end() ? nullptr : &*found;
}

// ---- Names that do not exist ----

// "did you mean X?" when one is near, else all there are.
std::string suggestion(std::string_view name, std::span<const std::string_view> known)
{
  if (const std::string_view nearest = closest(name, known); !nearest.empty())
    return "did you mean " + std::string { nearest } + "?";
  std::string all = "known here: ";
  for (std::size_t i = 0; i < known.size(); ++i)
    all += (i == 0 ? "" : ", ") + std::string { known[i] };
  return all;
}

std::string shortened(std::string_view name)
{
  const std::string text = in_quotes(name);
  return text.substr(1, text.size() - 2);
}

bool is_module_name(std::string_view name)
{
  return !name.empty() && name.size() <= 32 && name[0] >= 'a' && name[0] <= 'z'
         && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

// ---- Reading ----

// The line of the first character beyond ASCII outside strings and comments, or behind a backslash; 0 when there is
// none. Never valid TOML, and toml++ 3.3 has undefined behaviour for U+00A1 to U+0499 where it looks for white space
// (is_non_ascii_horizontal_whitespace).
std::uint32_t misplaced_character(std::string_view text)
{
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3); // byte order mark
  std::uint32_t line = 1;
  char quote = 0;       // of the string we are in
  bool tripled = false; // by three quotes
  bool comment = false;
  for (std::size_t i = 0; i < text.size(); ++i)
  {
    const char c = text[i];
    const auto three = [&] { return i + 2 < text.size() && text[i + 1] == c && text[i + 2] == c; };
    if (c == '\n')
    {
      ++line;
      comment = false;
      if (!tripled) quote = 0;
    }
    else if (comment)
      continue;
    else if (quote == 0)
    {
      if (static_cast<unsigned char>(c) >= 0x80) return line;
      comment = c == '#';
      if (c != '"' && c != '\'') continue;
      quote = c;
      tripled = three();
      if (tripled) i += 2;
    }
    else if (c == '\\' && quote == '"')
    {
      std::size_t next = i + 1;
      if (tripled) next = std::min(text.find_first_not_of(" \t\r\n", next), text.size()); // white space it swallows
      if (next < text.size() && static_cast<unsigned char>(text[next]) >= 0x80) return line;
      if (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    }
    else if (c == quote && (!tripled || three()))
    {
      if (tripled) i += 2;
      quote = 0;
      // Up to two further quotes are still part of the string.
      for (int more = 0; tripled && more < 2 && i + 1 < text.size() && text[i + 1] == c; ++more)
        ++i;
      tripled = false;
    }
  }
  return 0;
}

class Reader
{
public:
  Reader(const std::string& file, const KnobCheck& check) : check_ { check } { result.config.file = file; }

  ConfigResult result;

  void read(std::string_view text)
  {
    if (const auto line = misplaced_character(text))
    {
      complain(line, "not valid TOML: a character beyond ASCII stands outside quotes or behind a backslash");
      return;
    }
    toml::table root;
    try
    {
      root = toml::parse(text, std::string_view { result.config.file });
    }
    catch (const toml::parse_error& error)
    {
      // A file that is not TOML has no settings to look at: the one complaint that can come alone.
      complain(error.source().begin.line, "not valid TOML: " + in_one_line(error.description(), 300));
      return;
    }
    for (const auto& [name, node] : root)
    {
      const auto line = name.source().begin.line;
      const std::string section { name.str() };
      if (std::find(sections.begin(), sections.end(), section) == sections.end())
        complain(line, shortened(section) + ": no such section; " + suggestion(section, sections));
      else if (const auto* table = node.as_table(); !table)
        complain(line, section + " = " + shown(converted(node)) + ": a section [" + section + "] is needed");
      else if (section == "modules")
        read_modules(*table);
      else
        read_section(section, *table);
    }
    check_together();
    for (Complaint& complaint : check_modules(result.config, check_))
      result.complaints.push_back(std::move(complaint));
    std::stable_sort(result.complaints.begin(), result.complaints.end(),
                     [](const Complaint& a, const Complaint& b) { return a.where.line < b.where.line; });
  }

private:
  const KnobCheck& check_;

  Source at(std::uint32_t line) const { return { result.config.file, static_cast<int>(line) }; }
  void complain(std::uint32_t line, std::string what) { result.complaints.push_back({ at(line), std::move(what) }); }

  void read_section(const std::string& section, const toml::table& table)
  {
    for (const auto& [name, node] : table)
    {
      const auto line = name.source().begin.line;
      const std::string key = section + "." + std::string { name.str() };
      const Setting* setting = find_setting(key);
      if (!setting)
      {
        std::vector<std::string_view> known;
        for (const Setting& each : settings)
          if (each.key.starts_with(section + ".")) known.push_back(each.key.substr(section.size() + 1));
        complain(line, shortened(key) + ": no such setting; " + suggestion(name.str(), known));
        continue;
      }
      const Value value = converted(node);
      if (!setting->put(result.config, value))
        complain(line, key + " = " + shown(value) + ": " + std::string { setting->needed });
      else if (key == "links.wifi")
        result.config.links.wifi_where = at(line);
      else if (key == "links.cell")
        result.config.links.cell_where = at(line);
      else if (key == "links.more_wifi")
        result.config.links.more_wifi_where = at(line);
    }
  }

  void read_modules(const toml::table& table)
  {
    for (const auto& [name, node] : table)
    {
      const auto line = name.source().begin.line;
      const std::string module { name.str() };
      const std::string key = "modules." + shortened(module);
      if (!is_module_name(module))
      {
        complain(line, key + ": a module's name has 1 to 32 letters a-z, digits or _");
        continue;
      }
      const auto* knobs = node.as_table();
      if (!knobs)
      {
        complain(line, key + " = " + shown(converted(node)) + ": a table is needed, e.g. [modules." + module
                           + "] and below it enabled = true");
        continue;
      }
      ModuleSetting setting { .name = module, .where = at(line) };
      for (const auto& [knob, value] : *knobs)
        read_knob(setting, std::string { knob.str() }, value, knob.source().begin.line);
      result.config.modules.push_back(std::move(setting));
    }
  }

  void read_knob(ModuleSetting& module, const std::string& knob, const toml::node& node, std::uint32_t line)
  {
    const Value value = converted(node);
    const std::string key = "modules." + module.name + "." + shortened(knob);
    if (knob == "enabled")
    {
      if (const auto* on = std::get_if<bool>(&value.what))
        module.enabled = *on;
      else
        complain(line, key + " = " + shown(value) + ": true or false is needed");
      return;
    }
    if (!is_module_name(knob))
    {
      complain(line, key + ": a knob's name has 1 to 32 letters a-z, digits or _");
      return;
    }
    if (value.what.index() == 0 || std::holds_alternative<std::vector<Value>>(value.what))
    {
      complain(line, key + " = " + shown(value) + ": a number, a text, true or false is needed");
      return;
    }
    const auto* text = std::get_if<std::string>(&value.what);
    result.config.knobs.push_back({ module.name, knob, text ? *text : shown(value), at(line) });
  }

  // Rules between settings are reported where the one that is to change stands, or the later of both.
  void check_together()
  {
    for (Complaint& complaint : conflicts(result.config))
      complain(static_cast<std::uint32_t>(std::max(0, complaint.where.line)), std::move(complaint.what));
  }
};

std::string joined(const std::vector<Complaint>& complaints)
{
  std::string out;
  for (const Complaint& complaint : complaints)
    out += (out.empty() ? "" : "\n") + complaint.text();
  return out;
}

std::string read_file(const std::filesystem::path& path)
{
  const auto refuse = [&](const std::string& why) -> std::string {
    throw ConfigError { { { { path.string(), 0 }, why } } };
  };

  std::error_code fault;
  const auto status = std::filesystem::status(path, fault);
  if (!std::filesystem::exists(status)) return refuse("no such file");
  if (std::filesystem::is_directory(status)) return refuse("is a directory; a TOML file is needed");
  std::ifstream in { path, std::ios::binary };
  if (!in) return refuse(std::string { "cannot be read: " } + std::strerror(errno));
  std::string text(largest_file + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > largest_file) return refuse("is larger than 1 MiB; is this the right file?");
  return text;
}

} // namespace

std::string Source::text() const
{
  return line > 0 ? file + ":" + std::to_string(line) : file;
}

ConfigError::ConfigError(std::vector<Complaint> all) : std::runtime_error { joined(all) }, complaints { std::move(all) }
{
}

bool Network::contains(const Address& other) const
{
  if (other.v6 != address.v6) return false;
  const unsigned whole = prefix / 8;
  if (!std::equal(address.bytes.begin(), address.bytes.begin() + whole, other.bytes.begin())) return false;
  const unsigned rest = prefix % 8;
  return rest == 0 || (address.bytes[whole] ^ other.bytes[whole]) >> (8 - rest) == 0;
}

bool Config::Daemon::exempts(const FlowKey& flow) const
{
  const auto listed = [&](std::uint16_t port)
  { return std::find(exempt_ports.begin(), exempt_ports.end(), port) != exempt_ports.end(); };
  return listed(flow.remote_port) || listed(flow.local_port)
         || std::any_of(exempt_networks.begin(), exempt_networks.end(),
                        [&](const Network& network) { return network.contains(flow.remote); });
}

bool Config::module_enabled(std::string_view name) const
{
  return std::any_of(modules.begin(), modules.end(),
                     [&](const ModuleSetting& module) { return module.name == name && module.enabled; });
}

ConfigResult parse_config(std::string_view text, const std::string& file, const KnobCheck& check)
{
  Reader reader { file, check };
  reader.read(text);
  return std::move(reader.result);
}

Config load_config(const std::filesystem::path& path, const KnobCheck& check)
{
  ConfigResult result = parse_config(read_file(path), path.string(), check);
  if (!result.complaints.empty()) throw ConfigError { std::move(result.complaints) };
  return std::move(result.config);
}

std::vector<Complaint> conflicts(const Config& config)
{
  std::vector<Complaint> complaints;
  const Config::Links& links = config.links;
  const auto complain = [&](const Source& one, const Source& other, std::string what)
  {
    // What the command line says is on top of the file, and is at fault.
    const bool in_file = one.line > 0 && (other.line > 0 || other.file.empty());
    const Source later = one.line > other.line ? one : other;
    complaints.push_back({ in_file ? later : Source { "command line", 0 }, std::move(what) });
  };

  if (links.wifi == links.cell && links.wifi != "auto")
    complain(links.cell_where, links.wifi_where,
             "links.cell = " + in_quotes(links.cell) + ": another interface than links.wifi is needed");
  if (links.more_wifi)
    for (const std::string& name : *links.more_wifi)
    {
      if (name == links.wifi)
        complain(links.more_wifi_where, links.wifi_where,
                 "links.more_wifi: " + in_quotes(name) + " is links.wifi already; other interfaces are needed");
      if (name == links.cell)
        complain(links.more_wifi_where, links.cell_where,
                 "links.more_wifi: " + in_quotes(name) + " is links.cell already; other interfaces are needed");
    }
  return complaints;
}

std::vector<Complaint> check_modules(const Config& config, const KnobCheck& check)
{
  std::vector<Complaint> complaints;
  if (!check) return complaints;
  for (const ModuleSetting& module : config.modules)
  {
    if (const auto fault = check({ module.name, "", "", module.where }))
    {
      complaints.push_back({ module.where, "modules." + module.name + ": " + *fault });
      continue; // its knobs are as unknown as it is
    }
    for (const KnobSetting& setting : config.knobs)
      if (setting.module == module.name)
        if (const auto wrong = check(setting))
          complaints.push_back({ setting.where, "modules." + setting.module + "." + setting.knob + " = "
                                                    + shown_text(setting.text) + ": " + *wrong });
  }
  return complaints;
}

std::optional<Complaint> override_setting(Config& config, std::string_view key, std::string_view value)
{
  const Source where { "command line", 0 };
  const auto complaint = [&](const std::string& what) { return Complaint { where, what }; };

  if (key.starts_with("modules."))
  {
    const std::string_view rest = key.substr(8);
    const std::size_t dot = rest.find('.');
    const std::string module { rest.substr(0, dot) };
    const std::string knob { dot == std::string_view::npos ? "" : rest.substr(dot + 1) };
    if (!is_module_name(module) || !is_module_name(knob))
      return complaint(shortened(key) + ": modules.NAME.enabled or modules.NAME.KNOB is needed");
    auto found = std::find_if(config.modules.begin(), config.modules.end(),
                              [&](const ModuleSetting& each) { return each.name == module; });
    if (knob == "enabled")
    {
      if (value != "true" && value != "false")
        return complaint(std::string { key } + " = " + in_quotes(value) + ": true or false is needed");
      if (found == config.modules.end())
        config.modules.push_back({ module, value == "true", where });
      else
        found->enabled = value == "true";
      return {};
    }
    // Knobs of a module that no table switches on do not switch it on.
    if (found == config.modules.end()) config.modules.push_back({ module, false, where });
    std::erase_if(config.knobs, [&](const KnobSetting& each) { return each.module == module && each.knob == knob; });
    config.knobs.push_back({ module, knob, std::string { value }, where });
    return {};
  }

  const Setting* setting = find_setting(key);
  if (!setting)
  {
    std::vector<std::string_view> known;
    for (const Setting& each : settings)
      known.push_back(each.key);
    return complaint(shortened(key) + ": no such setting; " + suggestion(key, known));
  }
  Config changed = config;
  if (!setting->put(changed, { std::string { value }, true }))
    return complaint(std::string { key } + " = " + in_quotes(value) + ": " + std::string { setting->needed });
  if (key == "links.wifi") changed.links.wifi_where = where;
  if (key == "links.cell") changed.links.cell_where = where;
  if (key == "links.more_wifi") changed.links.more_wifi_where = where;
  config = std::move(changed);
  return {};
}

} // namespace tandem::daemon
