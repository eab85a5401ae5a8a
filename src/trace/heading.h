// What a trace says about the run it comes from, so that it can be understood and repeated later.
#pragma once

#include <cstdint>
#include <string>

namespace tandem::trace
{

struct Heading
{
  std::string version {}; // of tandem
  std::string commit {};  // of its source
  std::string command {}; // the command line
  std::string kernel {};  // as `uname -sr` writes it
  std::string knobs {};   // module.knob=value, those that differ from the defaults
  std::uint64_t seed = 0;
  std::string wifi_device {}; // e.g. wlan0
  std::string cell_device {}; // e.g. wwan0

  bool operator==(const Heading&) const = default;
};

} // namespace tandem::trace
