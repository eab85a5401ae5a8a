// How ranges are asked for.
#pragma once

#include "src/kernel/marks.h"

#include <tandem/segment.h>
#include <tandem/units.h>

#include <string>
#include <vector>

namespace tandem::fetch
{

struct RangeOptions
{
  std::string cell {};               // interface of the cellular link
  std::vector<Address> addresses {}; // that it leaves from; the first of the server's IP version is used
  kernel::Marks marks {};
  bool credentials = false;                        // requests that may carry them, too (check_credentials)
  std::size_t connections = 4;                     // to one server at a time
  std::size_t waiting = 64;                        // pieces that wait for one of them
  Duration timeout = std::chrono::seconds { 3 };   // after the deadline: until a connection is given up
  Duration back_off = std::chrono::seconds { 10 }; // for a server that cannot be reached; doubles with each failure
};

} // namespace tandem::fetch
