// Which access points share one channel, which of them is the best, and which are so much worse that they cost more
// air than they bring. Pure.
#pragma once

#include <tandem/link.h>
#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem::ecn
{

// Place of a link in an array over all links.
constexpr std::size_t at(Link link)
{
  return static_cast<std::size_t>(link);
}

// What is known of one Wi-Fi link when it is ranked.
struct Candidate
{
  bool usable = false;                    // up, and subflows of connections that have others elsewhere
  std::optional<Duration> packet_time {}; // T_i; absent: missing or stale
  std::uint32_t frequency = 0;            // MHz, 0 = not known
};

struct RankingSettings
{
  double threshold = 1.2;                            // worse: packet time of at least so many times the best's
  double release = 1.1;                              // worse no longer: below so many times
  Duration hold = std::chrono::milliseconds { 500 }; // either must last so long
  double clear = 2;                                  // worse without waiting from so many times the best packet time on
};

class Ranking
{
public:
  // Takes the links as they are now. True when the order, or who is worse, changed.
  bool update(std::span<const Candidate, most_wifi> links, Tick now, const RankingSettings& settings);

  // Numbers of the links of the group, by rising packet time, the good ones first. Fewer than two: nothing to choose.
  std::span<const std::uint8_t> order() const { return { order_.data(), count_ }; }
  std::size_t good() const { return good_; } // of order(): so many are not worse
  bool worse(std::size_t link) const { return worse_[link]; }
  // A link that was good became worse with the last update.
  bool turned() const { return turned_; }
  Duration best_time() const { return best_time_; }

private:
  std::array<bool, most_wifi> gather(std::span<const Candidate, most_wifi> links);
  bool judge(std::size_t i, Duration packet_time, bool known, Tick now, const RankingSettings& settings);
  bool arrange(std::span<const Candidate, most_wifi> links);

  std::array<std::uint8_t, most_wifi> order_ {};
  std::size_t count_ = 0;
  std::size_t good_ = 0;
  std::array<bool, most_wifi> worse_ {};
  std::array<bool, most_wifi> member_ {};
  std::array<std::optional<Tick>, most_wifi> doubted_ {}; // since when its packet time says otherwise
  Duration best_time_ {};
  bool turned_ = false;
};

} // namespace tandem::ecn
