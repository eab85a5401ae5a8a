// A value that outlives the daemon as the text of a file. One that is torn, foreign or of another version is put aside,
// never overwritten.
#pragma once

#include "src/daemon/kept_file.h"

#include <filesystem>
#include <string>

namespace tandem::daemon
{

// Format: `Value`, `file_name`, `longest` (bytes of text), `words` (KeptFile::Words), `text(value)`, and
// `read(text, value)`, which returns what is wrong with the text; empty: nothing.
template <class Format>
class KeptValue
{
public:
  using Value = typename Format::Value;

  // The directory is made, for its owner alone, when it is not there.
  explicit KeptValue(const std::filesystem::path& directory)
      : path_ { directory / Format::file_name }, kept_ { directory, Format::file_name, Format::words }
  {
  }

  // Nothing when there is no such file. What is wrong with it becomes a sentence in problem().
  Value load()
  {
    Value value {};
    static_cast<void>(kept_.load(Format::longest, [&](const std::string& text) { return Format::read(text, value); }));
    return value;
  }
  // False: problem() says why, and what was in the file before is there still.
  bool save(const Value& value) { return kept_.save(Format::text(value)); }
  // Likewise, and then puts it into force, which may throw: then `before` is there again.
  template <class Put>
  bool save(const Value& value, const Value& before, Put put)
  {
    if (!save(value)) return false;
    try
    {
      put();
    }
    catch (...)
    {
      static_cast<void>(save(before));
      throw;
    }
    return true;
  }

  const std::filesystem::path& path() const { return path_; }
  // Of the latest call that had one; empty: all is well.
  const std::string& problem() const { return kept_.problem(); }

private:
  std::filesystem::path path_;
  KeptFile kept_;
};

} // namespace tandem::daemon
