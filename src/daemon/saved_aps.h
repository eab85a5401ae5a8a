// At how many access points the card is kept, when a user had that saved.
#pragma once

#include "src/daemon/kept_value.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::daemon
{

// How it is called among what is saved.
constexpr const char* aps_setting = "aps.keep";
// Why it may not be done.
constexpr const char* no_mptcp =
    "virtual stations are of use with MPTCP endpoints, which Tandem may not make now: start "
    "it with `tandem up --mptcp`, or set mptcp.setup";

struct SavedAps
{
  std::size_t keep = 0;  // in all, the card's own included; 0: nothing is saved
  std::int64_t at_s = 0; // when it was saved, seconds since 1970
  bool several_channels = false;

  bool operator==(const SavedAps&) const = default;
};

// JSON with its version; the same gives the same text.
std::string saved_aps_text(const SavedAps& saved);
// Returns what is wrong with a text of saved_aps_text(), and changes nothing then; empty: nothing is.
std::string read_saved_aps(const std::string& text, SavedAps& into);

struct SavedApsFormat
{
  using Value = SavedAps;
  static constexpr std::string_view file_name = "access-points";
  static constexpr std::size_t longest = 4096;
  static constexpr KeptFile::Words words { .forgotten = "it cannot be saved at how many access points the card is kept",
                                           .anew = "the card is kept at one access point",
                                           .unsaved = "it is not saved at how many access points the card is kept" };
  static std::string text(const Value& saved) { return saved_aps_text(saved); }
  static std::string read(const std::string& text, Value& into) { return read_saved_aps(text, into); }
};

using SavedApsFile = KeptValue<SavedApsFormat>;

} // namespace tandem::daemon
