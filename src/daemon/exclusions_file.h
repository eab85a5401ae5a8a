// Where exclusions are that a user had saved. A file that is torn, foreign or of another version is put aside, never
// overwritten.
#pragma once

#include "src/daemon/exclusion.h"
#include "src/daemon/kept_file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace tandem::daemon
{

using SavedExclusions = std::map<Exclusion, std::int64_t>; // when it was saved, seconds since 1970

constexpr std::size_t longest_exclusions_text = 256u << 10;

// JSON with its version; the same exclusions give the same text.
std::string exclusions_text(const SavedExclusions& all);
// Adds what a text of exclusions_text() holds. Returns what is wrong with it, and adds nothing then; empty: nothing is.
std::string read_exclusions(const std::string& text, SavedExclusions& into);

class ExclusionsFile
{
public:
  // The directory is made, for its owner alone, when it is not there.
  explicit ExclusionsFile(const std::filesystem::path& directory);

  // Nothing when there is no such file. What is wrong with it becomes a sentence in problem().
  SavedExclusions load();
  // False: problem() says why, and what was in the file before is there still.
  bool save(const SavedExclusions& all);

  const std::filesystem::path& path() const { return path_; }
  // Of the latest call that had one; empty: all is well.
  const std::string& problem() const { return kept_.problem(); }

private:
  std::filesystem::path path_;
  KeptFile kept_;
};

} // namespace tandem::daemon
