// Knobs that are fields of one struct: a row for each says what it is and where its value lives, and the rest follows.
#pragma once

#include <tandem/knobs.h>

#include <array>
#include <cstddef>
#include <string_view>

namespace tandem
{

template <class Knobs>
struct KnobRow
{
  Knob knob;
  double Knobs::*field;
};

// What Module::knobs() shows: `first`, then one knob per row with the default that Knobs {} gives its field.
template <class Knobs, std::size_t count>
constexpr std::array<Knob, count + 1> knob_table(const Knob& first, const std::array<KnobRow<Knobs>, count>& rows)
{
  std::array<Knob, count + 1> all {};
  all[0] = first;
  for (std::size_t i = 0; i < count; ++i)
  {
    all[i + 1] = rows[i].knob;
    all[i + 1].initial = Knobs {}.*rows[i].field;
  }
  return all;
}

// Nothing happens when no row has the name.
template <class Knobs, std::size_t count>
void set_knob(Knobs& knobs, const std::array<KnobRow<Knobs>, count>& rows, std::string_view name, double value)
{
  for (const KnobRow<Knobs>& row : rows)
    if (row.knob.name == name) knobs.*row.field = value;
}

// 0 when no row has the name.
template <class Knobs, std::size_t count>
double get_knob(const Knobs& knobs, const std::array<KnobRow<Knobs>, count>& rows, std::string_view name)
{
  for (const KnobRow<Knobs>& row : rows)
    if (row.knob.name == name) return knobs.*row.field;
  return 0;
}

} // namespace tandem
