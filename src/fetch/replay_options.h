// How requests are replayed, for all mirror connections.
#pragma once

#include "src/fetch/mirror_tcp.h"
#include "src/kernel/marks.h"

#include <tandem/segment.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::fetch
{

struct ReplayOptions
{
  std::string cell {};               // interface of the cellular link
  std::vector<Address> addresses {}; // as in RangeOptions; none: any that the interface has
  kernel::Marks marks {};            // on what is sent
  bool credentials = false;          // replay requests that may carry them, too (check_credentials)
  std::size_t downloads = 8;         // that have a mirror connection at a time
  std::size_t connections = 2;       // of one download: a piece behind the first one's position needs a fresh one
  std::uint64_t longest_piece = 512 * 1024;
  bool optimistic = true; // the rest as in MirrorConfig
  Duration guard = 256ms;
  bool early_guard = true;
  Rate sweep_rate = MirrorConfig {}.sweep_rate;
  std::uint64_t sweep_window = MirrorConfig {}.sweep_window;
  std::uint64_t near = MirrorConfig {}.near;
};

} // namespace tandem::fetch
