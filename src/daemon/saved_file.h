// Where saved settings are.
#pragma once

#include "src/daemon/kept_value.h"
#include "src/daemon/saved_settings.h"

#include <string>
#include <string_view>

namespace tandem::daemon
{

struct SavedFormat
{
  using Value = SavedSettings;
  static constexpr std::string_view file_name = "settings";
  static constexpr std::size_t longest = longest_saved_text;
  static constexpr KeptFile::Words words { .forgotten = "no setting can be saved",
                                           .anew = "Tandem runs without saved settings",
                                           .unsaved = "the setting is not saved" };
  static std::string text(const Value& settings) { return saved_text(settings); }
  static std::string read(const std::string& text, Value& into) { return read_saved(text, into); }
};

using SavedFile = KeptValue<SavedFormat>;

} // namespace tandem::daemon
