// One value of a configuration, as written: shown in messages, and read as what a setting needs. Every as_ function is
// empty, and every put_ function false with `out` as it was, when the value is of another kind or out of range.
#pragma once

#include "src/daemon/config.h"
#include "src/daemon/network_text.h"

#include <tandem/units.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tandem::daemon
{

// A TOML value, or the text of a command-line option standing for one.
struct Value
{
  std::variant<std::monostate, std::string, std::int64_t, double, bool, std::vector<Value>> what {};
  bool typed = false; // on the command line: a number is still text
};

// Control characters spelled out, long texts cut: a message is one line, whatever the file holds.
std::string in_one_line(std::string_view text, std::size_t longest);
std::string in_quotes(std::string_view text);
// in_quotes() without the quotes, for names.
std::string shortened(std::string_view name);
std::string shown(const Value& value);
// The same as shown(), for settings of which only the text is kept.
std::string shown_text(std::string_view text);

std::optional<std::string> as_text(const Value& value);
std::optional<std::int64_t> as_integer(const Value& value);
std::optional<double> as_real(const Value& value);
// A size with its unit, or a plain number of bytes.
std::optional<std::uint64_t> as_bytes(const Value& value);
// A list of values; on the command line, one text with commas.
std::optional<std::vector<Value>> as_list(const Value& value);
std::optional<std::vector<std::uint16_t>> as_ports(const Value& value, std::size_t most);
std::optional<Listen> as_loopback(std::string_view text);
// Names of sources of driver statistics: a list, or one text with commas.
std::optional<std::vector<std::string>> as_sources(const Value& value);
bool is_interface_name(std::string_view name);
// Of a module, or of a knob.
bool is_module_name(std::string_view name);

bool put_path(std::filesystem::path& out, const Value& value, std::size_t longest = 4000);
bool put_duration(Duration& out, const Value& value, Duration from, Duration to);
bool put_flag(bool& out, const Value& value);

template <class Number>
bool put_integer(Number& out, const Value& value, std::int64_t from, std::int64_t to)
{
  const auto integer = as_integer(value);
  if (!integer || *integer < from || *integer > to) return false;
  out = static_cast<Number>(*integer);
  return true;
}

} // namespace tandem::daemon
