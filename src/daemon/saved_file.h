// Where saved settings are. A file that is torn, foreign or of another version is put aside, never overwritten.
#pragma once

#include "src/daemon/kept_file.h"
#include "src/daemon/saved_settings.h"

#include <filesystem>
#include <string>

namespace tandem::daemon
{

class SavedFile
{
public:
  // The directory is made, for its owner alone, when it is not there.
  explicit SavedFile(const std::filesystem::path& directory);

  // Nothing when there is no such file. What is wrong with it becomes a sentence in problem().
  SavedSettings load();
  // False: problem() says why, and what was in the file before is there still.
  bool save(const SavedSettings& settings);

  const std::filesystem::path& path() const { return path_; }
  // Of the latest call that had one; empty: all is well.
  const std::string& problem() const { return kept_.problem(); }

private:
  std::filesystem::path path_;
  KeptFile kept_;
};

} // namespace tandem::daemon
