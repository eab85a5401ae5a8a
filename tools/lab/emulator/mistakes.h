// What is wrong with a scenario, gathered so that all of it is told at once.
#pragma once

#include "tools/lab/emulator/value.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tandem::lab
{

class Mistakes
{
public:
  // Whether `read` went without throwing BadInput; what it threw is kept.
  template <typename Read>
  bool gather(Read read)
  {
    try
    {
      read();
      return true;
    }
    catch (const BadInput& mistake)
    {
      add(mistake.what());
      return false;
    }
  }

  // Once: an option of the command line goes to each access point.
  void add(std::string mistake)
  {
    if (std::find(all_.begin(), all_.end(), mistake) == all_.end()) all_.push_back(std::move(mistake));
  }

  // Throws BadInput with all of them, one a line; nothing when there are none.
  void tell() const
  {
    std::string lines;
    for (const std::string& mistake : all_)
      lines += (lines.empty() ? "" : "\n") + mistake;
    if (!lines.empty()) throw BadInput(lines);
  }

private:
  std::vector<std::string> all_;
};

} // namespace tandem::lab
