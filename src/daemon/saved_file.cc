#include "src/daemon/saved_file.h"

namespace tandem::daemon
{

namespace
{

constexpr std::string_view file_name = "settings";

} // namespace

SavedFile::SavedFile(const std::filesystem::path& directory)
    : path_ { directory / file_name }, kept_ { directory,
                                               file_name,
                                               { .forgotten = "no setting can be saved",
                                                 .anew = "Tandem runs without saved settings",
                                                 .unsaved = "the setting is not saved" } }
{
}

SavedSettings SavedFile::load()
{
  SavedSettings settings {};
  static_cast<void>(
      kept_.load(longest_saved_text, [&](const std::string& text) { return read_saved(text, settings); }));
  return settings;
}

bool SavedFile::save(const SavedSettings& settings)
{
  return kept_.save(saved_text(settings));
}

} // namespace tandem::daemon
