// `tandem trace replay` of Tandem's own recording: everything that entered the chain enters it once more, at the times
// that it was told then, and every decision is compared with the one in the recording, byte for byte of what left.
#pragma once

#include "src/trace/heading.h"
#include "tools/trace/replay.h"

#include <tandem/module.h>
#include <tandem/segment.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::trace_tool
{

struct LiveFlow
{
  FlowKey key {};
  std::uint64_t packets = 0;
  std::uint64_t decided = 0;                                      // packets whose decisions were compared
  std::uint64_t injected = 0;                                     // segments that were compared
  std::map<std::string, std::uint64_t, std::less<>> decisions {}; // by reason, while they were the same
  std::uint64_t differing = 0;                                    // decisions and segments
  std::optional<Difference> first {};
  std::string unclaimed {};         // why nothing is said of it, from `unclaimed_from` on
  std::uint64_t unclaimed_from = 0; // packet; 0: from its beginning

  bool identical() const { return differing == 0 && unclaimed.empty(); }
};

struct LiveReplay
{
  std::optional<trace::Heading> heading {};
  bool whole = false; // from the daemon's start; else from the middle of its run
  std::uint64_t packets = 0, inputs = 0;
  std::uint64_t skipped = 0; // packets before the replay could begin
  std::int64_t first_ns = 0, last_ns = 0;
  std::vector<LiveFlow> flows {}; // in the order of their first packets
  std::uint64_t requests = 0;     // that modules made of links, and that were compared
  std::uint64_t requests_differing = 0;
  std::uint64_t unmatched = 0; // recorded segments of no flow that is known
  std::string fault {};        // what ended the replay early; what came before it is replayed

  // All that was compared is the same.
  bool same() const;
  std::uint64_t compared() const; // decisions, segments and requests
};

// Whether the file is such a recording. Throws trace::BadFile.
bool has_chain_inputs(const std::filesystem::path& file);

// `make` gives fresh modules of these names. Throws trace::BadFile when nothing can be read, BadRequest when a module
// of the recording is not here.
using NamedModules = std::function<std::vector<std::shared_ptr<Module>>(const std::vector<std::string>& names)>;
LiveReplay replay_live(const std::filesystem::path& file, const NamedModules& make);

} // namespace tandem::trace_tool
