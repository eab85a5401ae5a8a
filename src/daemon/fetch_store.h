// Pieces of downloads that were asked for a second time, and the bytes that came, until the local TCP has them. Pure.
#pragma once

#include "src/fetch/interface.h"
#include "src/flow/table.h"

#include <tandem/module.h>
#include <tandem/plan.h>
#include <tandem/units.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tandem::daemon
{

// What became of a piece, for Chain::fetched().
struct FetchOutcome
{
  std::uint64_t flow = 0;
  std::uint8_t slot = 0;
  FetchResult result {};
  std::uint64_t cell_bytes = 0;
};

class FetchStore
{
public:
  // `most_bytes` are held at a time; what comes beyond is lost.
  explicit FetchStore(std::uint64_t most_bytes) : most_bytes_ { most_bytes } {}

  // False: too many are under way.
  bool ask(const fetch::Job& job);
  // Nothing: nobody waits for it any more.
  std::optional<FetchOutcome> take(const fetch::Answer& answer);
  // The answer that holds `length` bytes of the flow from `from` on; null when there is none. Valid until the next call
  // that is not const.
  const fetch::Answer* find(std::uint64_t flow, Seq from, std::uint32_t length) const;

  // Lets go of bytes that the local TCP has acknowledged, and of those of flows that are gone.
  void forget_acknowledged(flow::Table& flows);
  // Gives up what has not been answered long after its deadline. Nobody tells what was spent on it: it costs what was
  // set aside for it.
  std::vector<FetchOutcome> give_up(Tick now);
  // Gives up everything, for good: the way to fetch is gone. It costs likewise.
  std::vector<FetchOutcome> clear(std::string_view why);

  std::uint64_t held_bytes() const { return held_bytes_; }
  std::size_t under_way() const { return asked_.size(); }

private:
  std::uint64_t most_bytes_;
  std::vector<fetch::Job> asked_ {};
  std::vector<fetch::Answer> held_ {};
  std::uint64_t held_bytes_ = 0;
};

} // namespace tandem::daemon
