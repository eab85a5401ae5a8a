// A golden script as written: settings, then events with times and what is expected of each.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::golden
{

// A line cut into words; a word in double quotes may hold blanks. `#` begins a comment.
struct Line
{
  std::size_t number = 0;
  std::vector<std::string> words {};
  std::string text;
};

struct Entry
{
  Line line {};
  double at_ms = 0;
  std::vector<Line> expected {}; // the lines that begin with `>`, without it
};

struct Script
{
  std::string file;
  std::vector<Line> settings {};
  std::vector<Entry> entries {};
};

// What is wrong with a script, with file and line.
class ScriptError : public std::runtime_error
{
public:
  ScriptError(const std::string& file, std::size_t line, const std::string& what)
      : std::runtime_error { file + ":" + std::to_string(line) + ": " + what }
  {
  }
};

// Throws ScriptError, or std::system_error when the file cannot be read.
Script read_script(const std::string& file);

} // namespace tandem::golden
