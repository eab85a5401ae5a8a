// Where exclusions are that a user had saved.
#pragma once

#include "src/daemon/exclusion.h"
#include "src/daemon/kept_value.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tandem::daemon
{

using SavedExclusions = std::map<Exclusion, std::int64_t>; // when it was saved, seconds since 1970

constexpr std::size_t longest_exclusions_text = 256u << 10;

// JSON with its version; the same exclusions give the same text.
std::string exclusions_text(const SavedExclusions& all);
// Adds what a text of exclusions_text() holds. Returns what is wrong with it, and adds nothing then; empty: nothing is.
std::string read_exclusions(const std::string& text, SavedExclusions& into);

struct ExclusionsFormat
{
  using Value = SavedExclusions;
  static constexpr std::string_view file_name = "exclusions";
  static constexpr std::size_t longest = longest_exclusions_text;
  static constexpr KeptFile::Words words { .forgotten = "no exclusion can be saved",
                                           .anew = "Tandem runs without saved exclusions",
                                           .unsaved = "the exclusions are not saved" };
  static std::string text(const Value& all) { return exclusions_text(all); }
  static std::string read(const std::string& text, Value& into) { return read_exclusions(text, into); }
};

using ExclusionsFile = KeptValue<ExclusionsFormat>;

} // namespace tandem::daemon
