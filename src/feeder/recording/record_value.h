// One field of a record: a value of ours <-> a value of JSON, with a sentence about what does not fit.
#pragma once

#include "src/feeder/radio/report.h"
#include "src/feeder/recording/escape.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tandem::feeder
{

using Json = nlohmann::ordered_json;

// What is wrong with a record: a sentence that names the field and shows its value.
struct RecordFault : std::runtime_error
{
  using std::runtime_error::runtime_error;
};

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

// The double that is written with the same few digits: -61.3, not -61.29999923706055.
double widened(float value);

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

// A value as people type it, short.
std::string shown(const Json& value);
[[noreturn]] void wrong(std::string_view name, std::string_view expected, const Json& value);
std::string string_of(std::string_view name, const Json& value);
Mac mac_of(std::string_view name, const Json& value);

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

} // namespace tandem::feeder
