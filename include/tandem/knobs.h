// A module's settings, each with a name, unit, range, default and help: the manual and the control API are made from
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tandem
{

enum class KnobType : std::uint8_t
{
  integer,
  real,
  boolean,
  duration, // value in seconds
  choice,   // value is the index into `choices`
};

// Describes one setting. All strings are literals.
struct Knob
{
  std::string_view name; // snake_case, unique within the module
  KnobType type = KnobType::real;
  std::string_view unit = ""; // "bytes", "s", "1/s", "" for a pure number
  double minimum = 0;
  double maximum = 0;
  double initial = 0; // default
  std::string_view help;
  std::span<const std::string_view> choices {}; // for KnobType::choice
};

// A knob that existed in an earlier release. A file that still sets it gets a warning and is otherwise read as before.
struct RetiredKnob
{
  std::string_view name;
  std::string_view now; // what to do instead, behind the name: "is a constant now: 64", "moved to budget.cell_bytes"
  bool refused = false; // without the value Tandem would do what the user meant to forbid: the file is refused
};

} // namespace tandem
