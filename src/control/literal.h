// Quantities as people write them: "250ms", "10MiB", "2Mbit". One parser for the configuration, `tandem set` and the
// command line.
#pragma once

#include <tandem/knobs.h>
#include <tandem/units.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace tandem
{

// A duration: a number and one of ns, us, ms, s, min, h, d. A bare number is refused unless it is 0. Empty when it is
// not one, is negative or does not fit.
std::optional<Duration> parse_duration(std::string_view text);

// A number of bytes: a whole number of B, kB, MB, GB (powers of 1000) or KiB, MiB, GiB (powers of 1024). A bare number
// is refused unless it is 0. Fractions are allowed when the result is whole ("1.5kB"). Empty when it is not one.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

// A data rate: bit/s, kbit, Mbit, Gbit, with or without "/s" ("2Mbit", "2 Mbit/s"), or kbps, Mbps, Gbps (bits, powers
// of 1000). A bare number is refused unless it is 0.
std::optional<Rate> parse_rate(std::string_view text);

// The shortest text that reads well: "250 ms", "8 MiB", "2 Mbit/s". Rounded; for people, not for parsing back.
std::string format_duration(Duration duration);
std::string format_bytes(std::uint64_t bytes);
std::string format_rate(Rate rate);

// Whether a value is one that Module::set() may be given for the knob: in its range, whole where that is wanted.
bool takes(const Knob& knob, double value);

// The value of a knob from what was typed, checked against the knob's type and range, or a sentence part that says what
// is allowed ("a duration from 1 ms to 10 s is needed"). Durations become seconds, booleans 0 or 1, choices their
// index, knobs whose unit is "bytes" or "bit/s" also take a unit.
std::variant<double, std::string> parse_knob(const Knob& knob, std::string_view text);

// The value as parse_knob reads it: "20", "0.25s", "on", "paper", "20000".
std::string format_knob(const Knob& knob, double value);

} // namespace tandem
