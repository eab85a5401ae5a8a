#include "src/daemon/config_value.h"

#include "src/control/literal.h"
#include "src/feeder/sources/source_name.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <sstream>
#include <system_error>

namespace tandem::daemon
{

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

std::string shortened(std::string_view name)
{
  const std::string text = in_quotes(name);
  return text.substr(1, text.size() - 2);
}

// The same as shown(), for settings of which only the text is kept.
std::string shown_text(std::string_view text)
{
  const bool bare =
      !text.empty()
      && (text == "true" || text == "false" || text.find_first_not_of("0123456789.-") == std::string_view::npos);
  return bare ? std::string { text } : in_quotes(text);
}

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

// A size with its unit: who writes 10 means 10 MB, not 10 bytes. Nothing is 0 in every unit.
std::optional<std::uint64_t> as_bytes(const Value& value)
{
  if (const auto* integer = std::get_if<std::int64_t>(&value.what); integer && *integer == 0) return 0;
  const auto text = as_text(value);
  return text ? parse_bytes(*text) : std::nullopt;
}

bool put_path(std::filesystem::path& out, const Value& value, std::size_t longest)
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

bool is_module_name(std::string_view name)
{
  return !name.empty() && name.size() <= 32 && name[0] >= 'a' && name[0] <= 'z'
         && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
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

std::optional<std::vector<std::uint16_t>> as_ports(const Value& value, std::size_t most)
{
  const auto list = as_list(value);
  if (!list || list->size() > most) return {};
  std::vector<std::uint16_t> ports(list->size());
  for (std::size_t i = 0; i < ports.size(); ++i)
    if (!put_integer(ports[i], (*list)[i], 1, 65535)) return {};
  return ports;
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

} // namespace tandem::daemon
