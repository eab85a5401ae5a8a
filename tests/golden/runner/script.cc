#include "tests/golden/runner/script.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>

namespace tandem::golden
{

namespace
{

Line cut(const std::string& file, std::size_t number, const std::string& text)
{
  Line line { number, {}, text };
  std::string word {};
  bool inside = false, quoted = false;
  for (const char c : text)
  {
    if (quoted)
    {
      if (c == '"')
        quoted = false;
      else
        word += c;
    }
    else if (c == '"')
      inside = quoted = true;
    else if (c == '#')
      break;
    else if (c == ' ' || c == '\t')
    {
      if (inside) line.words.push_back(std::exchange(word, {}));
      inside = false;
    }
    else
    {
      inside = true;
      word += c;
    }
  }
  if (quoted) throw ScriptError { file, number, "a quotation mark is not closed" };
  if (inside) line.words.push_back(word);
  return line;
}

bool is_time(const std::string& word)
{
  return !word.empty() && (word[0] == '+' || (word[0] >= '0' && word[0] <= '9'));
}

} // namespace

Script read_script(const std::string& file)
{
  std::ifstream in { file };
  if (!in) throw std::system_error { errno, std::generic_category(), "cannot read " + file };
  Script script { file, {}, {} };
  double now = 0;
  std::string text {};
  for (std::size_t number = 1; std::getline(in, text); ++number)
  {
    Line line = cut(file, number, text);
    if (line.words.empty()) continue;
    if (line.words[0] == ">")
    {
      if (script.entries.empty()) throw ScriptError { file, number, "an expectation before the first event" };
      line.words.erase(line.words.begin());
      if (line.words.empty()) throw ScriptError { file, number, "an empty expectation" };
      script.entries.back().expected.push_back(std::move(line));
    }
    else if (is_time(line.words[0]))
    {
      char* end = nullptr;
      const double given = std::strtod(line.words[0].c_str(), &end);
      if (*end != '\0') throw ScriptError { file, number, "\"" + line.words[0] + "\" is no time in milliseconds" };
      const double at = line.words[0][0] == '+' ? now + given : given;
      if (at < now) throw ScriptError { file, number, "time goes back" };
      now = at;
      line.words.erase(line.words.begin());
      if (line.words.empty()) throw ScriptError { file, number, "a time without an event" };
      // A download takes its time; what follows with a `+` counts from its end.
      if (line.words[0] == "download" && line.words.size() > 3 && line.words[2] == "every")
        now += std::atof(line.words[1].c_str()) * std::atof(line.words[3].c_str());
      if (line.words[0] == "open") now += 2;
      script.entries.push_back({ std::move(line), at, {} });
    }
    else if (script.entries.empty())
      script.settings.push_back(std::move(line));
    else
      throw ScriptError { file, number, "settings come before the first event; events begin with a time" };
  }
  if (script.entries.empty()) throw ScriptError { file, 1, "no event" };
  return script;
}

} // namespace tandem::golden
