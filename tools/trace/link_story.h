// What a recording tells of the links: when they were up, at risk, how strong the signal was. Recordings of the daemon
// alone hold it.
#pragma once

#include <tandem/link.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace tandem::trace_tool
{

// A link from this moment on, until its next one.
struct LinkMoment
{
  std::int64_t time_ns = 0; // since 1970
  Link link = Link::wifi;
  bool up = false;      // carrier, and not in a blackout
  bool at_risk = false; // a blackout is predicted
  // Of the radio, where it tells.
  std::optional<float> signal_dbm {};
  std::optional<float> delivery {}; // probability that an attempt arrives
  std::optional<double> packet_time_us {};

  bool operator==(const LinkMoment&) const = default;
};

// Changes of the links in the order of time; radio values at most so many times a second and link, and with every
// change of `up` or `at_risk`. Links that never were there are left out. Up to where a damaged file can be read. Throws
// trace::BadFile when it cannot be opened.
std::vector<LinkMoment> link_story(const std::filesystem::path& file, double times_a_second = 10);

} // namespace tandem::trace_tool
