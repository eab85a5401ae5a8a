// five-tuple -> flow, with a fixed upper size. Nothing is allocated per packet; a full table says so and the flow
// passes untouched.
#pragma once

#include "src/flow/tracker.h"

#include <tandem/flow.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tandem::flow
{

constexpr std::size_t max_modules = 8;

// One flow: what modules see, how it is measured, and room for each module's state right behind it.
struct alignas(std::max_align_t) Flow
{
  FlowView view {};
  Tracker tracker {};
  std::array<Tick, max_modules> wake {};      // when each module wants its alarm; Tick::max() = not at all
  std::array<Tick, max_modules> scheduled {}; // the alarm entry that exists for it; Tick::max() = none
  std::uint8_t begun = 0;                     // bit i: module i has state here
  std::uint8_t excluded = 0;                  // bit i: module i was taken out of the chain for this flow
  bool closed = false;                        // FIN or RST seen: forgotten soon

private:
  friend class Table;
  std::uint32_t next_in_bucket_ = 0;
  std::uint32_t older_ = 0, newer_ = 0;
  std::uint32_t self_ = 0;
};

class Table
{
public:
  struct Options
  {
    std::size_t capacity = 4096;
    std::size_t state_bytes = 0; // per flow, for all modules together
    std::uint64_t seed = 0;      // of the hash: remote hosts choose ports, so bucket order must not be theirs to choose
    Duration idle = std::chrono::seconds { 120 };
    Duration linger = std::chrono::seconds { 5 }; // after FIN or RST
  };

  explicit Table(Options options);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  Flow* find(const FlowKey& key);
  Flow* by_id(std::uint64_t id);
  // A new flow at `now`; nullptr when the table is full (counted in refused()).
  Flow* insert(const FlowKey& key, Tick now);
  // Moves the flow to the young end; call on every segment.
  void touch(Flow& flow, Tick now);
  void erase(Flow& flow);
  std::byte* state(Flow& flow) { return reinterpret_cast<std::byte*>(&flow) + sizeof(Flow); }
  const std::byte* state(const Flow& flow) const { return reinterpret_cast<const std::byte*>(&flow) + sizeof(Flow); }

  // The oldest flow that has been idle too long at `now`, or nullptr. The caller ends its modules' state, then erases
  // it.
  Flow* expired(Tick now);

  std::size_t size() const { return size_; }
  std::size_t capacity() const { return options_.capacity; }
  std::uint64_t refused() const { return refused_; }
  std::size_t bytes_per_flow() const { return stride_; }

  // Calls visit(Flow&) for every flow, oldest first; visit may erase the flow it is given.
  template <class Visit>
  void each(Visit&& visit)
  {
    for (std::uint32_t at = oldest_; at != 0;)
    {
      Flow& flow = slot(at);
      at = flow.newer_;
      visit(flow);
    }
  }

private:
  static constexpr std::size_t chunk_flows = 64;
  Flow& slot(std::uint32_t index);
  std::size_t bucket(const FlowKey& key) const;
  void unlink(Flow& flow);
  void link_newest(Flow& flow);

  Options options_;
  std::size_t stride_;
  std::vector<std::uint32_t> buckets_; // index + 1 of the first flow, 0 = empty
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::vector<std::uint32_t> free_;
  std::uint32_t oldest_ = 0, newest_ = 0;
  std::size_t size_ = 0;
  std::uint32_t next_unused_ = 1;
  std::uint64_t next_id_ = 1;
  std::uint64_t refused_ = 0;
};

} // namespace tandem::flow
