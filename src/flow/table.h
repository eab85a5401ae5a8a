// five-tuple -> flow, with a fixed upper size. Nothing is allocated per packet; a full table says so and the flow
// passes untouched.
#pragma once

#include "src/flow/tracker.h"

#include <tandem/flow.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace tandem::flow
{

constexpr std::size_t max_modules = 8;

// What a module keeps from the server: nobody else acknowledges it by a segment of its own.
struct Hold
{
  std::uint32_t withheld = 0;    // bytes that the last ACK acknowledged less than the local TCP did
  std::uint16_t window = 0xffff; // the largest that may be advertised, unscaled; 0xffff: as the local TCP does
  bool window_waits = false;     // Edit::window_waits
};

// How far the connection is; each stage has a life of its own.
enum class Stage : std::uint8_t
{
  opening,  // this host's SYN, not answered yet
  answered, // another host's, which this one has answered: it may be forged
  living,
  closed, // FIN or RST seen
};

// One flow: what modules see, and how it is measured.
struct alignas(std::max_align_t) Flow
{
  FlowView view {};
  Tracker tracker {};
  std::array<Tick, max_modules> wake {};      // when each module wants its alarm; Tick::max() = not at all
  std::array<Tick, max_modules> scheduled {}; // the alarm entry that exists for it; Tick::max() = none
  Tick quiet_until {};                        // no enabled module needs a packet of this flow before then
  std::uint8_t begun = 0;                     // bit i: module i has state here
  std::uint8_t excluded = 0;                  // bit i: module i was taken out of the chain for this flow
  std::uint8_t resting = 0;                   // bit i: module i does not act here now, see Chain::rest()
  bool rest_asked = false;                    // Chain::Options::rest was
  bool watched = false;                       // its packets are needed though no module may need them
  std::uint8_t ts_owner = 0;                  // the module that view.ts_reserved is for
  std::array<Hold, max_modules> holds {};     // what each module asked for with the last ACK
  Tick room_until {};                         // lowered ACK numbers leave room for ACKs that are left out until then
  std::uint8_t slow_calls = 0;                // decisions that took too long
  std::uint16_t swift_calls = 0;              // since the last of them, up to a bound
  std::uint32_t ip_class = 0;                 // of this host's last packet (Segment::ip_class)
  std::uint32_t epoch = 0;                    // of the queue, see Chain::queue_resumed()
  std::uint32_t doubted = 0;                  // the epoch when this host's numbers were last given up
  std::uint64_t paused_at = 0;                // bytes delivered by the last pause, see Chain::Options::worth
  bool closed = false;                        // FIN or RST seen: forgotten soon. Set by Table::close()
  bool closed_here = false;                   // one of this host's was

private:
  friend class Table;
  std::uint32_t next_in_bucket_ = 0;
  std::uint32_t older_ = 0, newer_ = 0; // in its list
  Tick spared_ {};
  Stage stage_ = Stage::living;
  std::uint32_t self_ = 0;
  std::uint32_t state_ = 0; // index of the block with the modules' state, 0 = none
};

class Table
{
public:
  struct Options
  {
    std::size_t capacity = 4096;
    std::size_t state_bytes = 0; // of a flow that has state, for all modules together
    std::uint64_t seed = 0;      // of the hash: remote hosts choose ports, so bucket order must not be theirs to choose
    Duration idle = std::chrono::seconds { 120 };
    Duration linger = std::chrono::seconds { 5 };    // after FIN or RST
    Duration half_open = std::chrono::seconds { 5 }; // until the handshake is complete
    std::size_t most_answered = 64; // half-open at a time of those that others begin: anyone can send SYNs
  };

  explicit Table(Options options);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  Flow* find(const FlowKey& key);
  Flow* by_id(std::uint64_t id);
  // A new flow at `now`; nullptr when the table is full (counted in refused()).
  Flow* insert(const FlowKey& key, Tick now, Stage stage = Stage::living);
  // Moves the flow to the young end; call on every segment.
  void touch(Flow& flow, Tick now);
  // Not idle for this reason alone: the flow is asked for again by expired() after another idle time.
  void spare(Flow& flow, Tick now);
  // The handshake is complete.
  void settle(Flow& flow);
  static Stage stage(const Flow& flow) { return flow.stage_; }
  // The oldest answered flow when there is no room for another one of them, or nullptr.
  Flow* crowded_out();
  // FIN or RST was seen: the flow is forgotten `linger` after its last segment.
  void close(Flow& flow);
  // It was not the end after all.
  void reopen(Flow& flow);
  void erase(Flow& flow);
  // Room for the modules' state, which most flows never need: nullptr until made, then at one place until the flow
  // is erased. Not initialised.
  std::byte* state(const Flow& flow) const;
  // Makes room when there is none yet. Allocates only when more flows have state than ever before.
  std::byte* make_state(Flow& flow);

  // The oldest flow that has been idle too long at `now`, or nullptr. The caller ends its modules' state, then erases
  // it.
  Flow* expired(Tick now);
  // Before which expired() finds nothing, as things are; Tick::max() in an empty table.
  Tick next_expiry() const;

  std::size_t size() const { return size_; }
  std::size_t capacity() const { return options_.capacity; }
  std::uint64_t refused() const { return refused_; }
  std::size_t bytes_per_flow() const { return sizeof(Flow); }
  std::size_t bytes_per_state() const { return state_stride_; }
  std::size_t states() const { return states_; } // flows that have state
  // Bytes of heap in use by all flows, their state and the index.
  std::size_t memory() const;
  std::size_t bucket_of(const FlowKey& key) const;

  // Calls visit(Flow&) for every flow, stage by stage, oldest first; visit may erase the flow it is given, no other.
  template <class Visit>
  void each(Visit&& visit)
  {
    for (const List& list : lists_)
      for (std::uint32_t at = list.oldest; at != 0;)
      {
        Flow& flow = slot(at);
        at = flow.newer_;
        visit(flow);
      }
  }

private:
  static constexpr std::size_t chunk_flows = 64;
  Flow& slot(std::uint32_t index) const; // the table owns it through pointers
  // By age, so that whatever is due first is found at once. Each stage has a list of its own: closed flows expire after
  // `linger`, however many older flows live on.
  struct List
  {
    std::uint32_t oldest = 0, newest = 0;
    std::size_t size = 0;
  };
  List& list_of(Stage stage) { return lists_[static_cast<std::size_t>(stage)]; }
  const List& list_of(Stage stage) const { return lists_[static_cast<std::size_t>(stage)]; }
  // How long a flow of each stage may be idle.
  std::array<std::pair<Stage, Duration>, 4> lives() const;
  static Tick due(const Flow& flow, Duration limit);
  List& list_of(const Flow& flow) { return list_of(flow.stage_); }
  void move(Flow& flow, Stage stage);
  void unlink(Flow& flow);
  void link_newest(Flow& flow);
  void drop_state(Flow& flow);

  Options options_;
  std::size_t state_stride_;
  std::vector<std::uint32_t> buckets_; // index + 1 of the first flow, 0 = empty
  std::vector<std::unique_ptr<Flow[]>> chunks_;
  std::vector<std::uint32_t> free_;
  std::vector<std::unique_ptr<std::byte[]>> state_chunks_;
  std::vector<std::uint32_t> free_states_;
  std::uint32_t next_unused_state_ = 1;
  std::size_t states_ = 0;
  std::array<List, 4> lists_ {}; // by Stage
  Flow* latest_ = nullptr;       // what find() found last
  std::size_t size_ = 0;
  std::uint32_t next_unused_ = 1;
  std::uint64_t next_id_ = 1;
  std::uint64_t refused_ = 0;
};

} // namespace tandem::flow
