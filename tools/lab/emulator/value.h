// One value of a scenario, a profile, the command line or the control socket, read with its unit and its place.
#pragma once

#include "tools/lab/medium/hidden.h"
#include "tools/lab/medium/loss.h"

#include <tandem/units.h>

#include <toml++/toml.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::lab
{

// Input that is not allowed. what() reads `file:line: value: what is allowed`, a line for each mistake.
class BadInput : public std::runtime_error
{
public:
  using std::runtime_error::runtime_error;
};

class Value
{
public:
  Value(const toml::node& node, std::string key) : node_(node), key_(std::move(key)) {}

  // Each reads the value as one type or throws BadInput that says what is allowed.
  Duration duration(Duration least = Duration {}, Duration most = std::chrono::hours { 24 }) const;
  Rate rate() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  double number(double least, double most) const;
  double probability() const { return number(0, 1); }
  bool boolean() const;
  std::string text() const;
  // One of the words; its position.
  std::size_t choice(std::initializer_list<std::string_view> words) const;
  std::uint64_t bytes() const;
  medium::Gilbert gilbert() const;
  medium::HiddenSettings hidden() const;
  std::vector<double> numbers() const;

  [[noreturn]] void refuse(std::string_view allowed) const;
  const toml::node& node() const { return node_; }
  const std::string& key() const { return key_; }
  // Paths are relative to the file that mentions them.
  std::filesystem::path path() const;

private:
  const toml::node& node_;
  std::string key_;
};

// `file:line`, or the option that it came from.
std::string place(const toml::node& node);
[[noreturn]] void unknown_key(const toml::node& node, std::string_view where, std::string_view key,
                              const std::vector<std::string_view>& known);

} // namespace tandem::lab
