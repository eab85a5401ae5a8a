#include "src/flow/table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

namespace tandem::flow
{

namespace
{
std::size_t round_up(std::size_t bytes)
{
  return (bytes + alignof(std::max_align_t) - 1) & ~(alignof(std::max_align_t) - 1);
}

// A keyed mix (the finaliser of splitmix64 over the words of the key): cheap, and not predictable without the seed.
std::uint64_t mix(std::uint64_t h, std::uint64_t word)
{
  h ^= word + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h ^= h >> 30;
  h *= 0xbf58476d1ce4e5b9ull;
  h ^= h >> 27;
  h *= 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}
} // namespace

Table::Table(Options options)
    : options_ { options }, state_stride_ { round_up(options.state_bytes) },
      buckets_(std::bit_ceil(std::max<std::size_t>(options.capacity, 16)), 0)
{
  chunks_.reserve(options.capacity / chunk_flows + 1);
  free_.reserve(options.capacity);
  state_chunks_.reserve(options.capacity / chunk_flows + 1);
}

Table::~Table() = default; // Flow is trivially destructible; modules' states are ended by the chain before

Flow& Table::slot(std::uint32_t index) const
{
  const std::size_t at = index - 1;
  return chunks_[at / chunk_flows][at % chunk_flows];
}

std::byte* Table::state(const Flow& flow) const
{
  if (flow.state_ == 0) return nullptr;
  const std::size_t at = flow.state_ - 1;
  return state_chunks_[at / chunk_flows].get() + (at % chunk_flows) * state_stride_;
}

std::byte* Table::make_state(Flow& flow)
{
  if (flow.state_ != 0) return state(flow);
  if (!free_states_.empty())
  {
    flow.state_ = free_states_.back();
    free_states_.pop_back();
  }
  else
  {
    // Room in the list of free ones first, so that none is lost and giving one back never allocates.
    const std::size_t chunk = (next_unused_state_ - 1) / chunk_flows;
    if (chunk == state_chunks_.size())
    {
      free_states_.reserve((chunk + 1) * chunk_flows);
      state_chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(chunk_flows * state_stride_));
    }
    flow.state_ = next_unused_state_++;
  }
  ++states_;
  return state(flow);
}

void Table::drop_state(Flow& flow)
{
  if (flow.state_ == 0) return;
  free_states_.push_back(flow.state_);
  flow.state_ = 0;
  --states_;
}

std::size_t Table::bucket_of(const FlowKey& key) const
{
  std::array<std::uint64_t, 4> words {};
  std::memcpy(words.data(), key.local.bytes.data(), 16);
  std::memcpy(words.data() + 2, key.remote.bytes.data(), 16);
  std::uint64_t h = options_.seed;
  for (const std::uint64_t word : words)
    h = mix(h, word);
  h = mix(h, (std::uint64_t { key.local_port } << 16) | key.remote_port | (std::uint64_t { key.local.v6 } << 32));
  return h & (buckets_.size() - 1);
}

Flow* Table::find(const FlowKey& key)
{
  // Packets come in trains.
  if (latest_ != nullptr && latest_->view.key == key) return latest_;
  for (std::uint32_t at = buckets_[bucket_of(key)]; at != 0;)
  {
    Flow& flow = slot(at);
    if (flow.view.key == key) return latest_ = &flow;
    at = flow.next_in_bucket_;
  }
  return nullptr;
}

Flow* Table::by_id(std::uint64_t id)
{
  // The slot is kept in the upper half of the id, so that an alarm finds its flow without a second index.
  const auto index = static_cast<std::uint32_t>(id >> 40);
  if (index == 0 || index >= next_unused_) return nullptr;
  Flow& flow = slot(index);
  return flow.self_ == index && flow.view.id == id ? &flow : nullptr;
}

Flow* Table::insert(const FlowKey& key, Tick now, Stage stage)
{
  if (size_ >= options_.capacity)
  {
    ++refused_;
    return nullptr;
  }
  std::uint32_t index = 0;
  if (!free_.empty())
  {
    index = free_.back();
    free_.pop_back();
  }
  else
  {
    index = next_unused_++;
    if ((index - 1) / chunk_flows == chunks_.size()) chunks_.push_back(std::make_unique<Flow[]>(chunk_flows));
  }
  Flow* flow = &slot(index);
  *flow = {};
  flow->wake.fill(Tick::max());
  flow->scheduled.fill(Tick::max());
  flow->view.key = key;
  flow->view.id = (std::uint64_t { index } << 40) | (next_id_++ & 0xff'ffff'ffffull);
  flow->view.first_seen = flow->view.last_seen = now;
  flow->self_ = index;
  flow->stage_ = stage;
  const std::size_t b = bucket_of(key);
  flow->next_in_bucket_ = buckets_[b];
  buckets_[b] = index;
  link_newest(*flow);
  ++size_;
  return flow;
}

void Table::link_newest(Flow& flow)
{
  List& list = list_of(flow);
  flow.older_ = list.newest;
  flow.newer_ = 0;
  if (list.newest != 0) slot(list.newest).newer_ = flow.self_;
  list.newest = flow.self_;
  if (list.oldest == 0) list.oldest = flow.self_;
  ++list.size;
}

void Table::unlink(Flow& flow)
{
  List& list = list_of(flow);
  if (flow.older_ != 0) slot(flow.older_).newer_ = flow.newer_;
  if (flow.newer_ != 0) slot(flow.newer_).older_ = flow.older_;
  if (list.oldest == flow.self_) list.oldest = flow.newer_;
  if (list.newest == flow.self_) list.newest = flow.older_;
  --list.size;
}

void Table::touch(Flow& flow, Tick now)
{
  flow.view.last_seen = now;
  if (list_of(flow).newest == flow.self_) return;
  unlink(flow);
  link_newest(flow);
}

void Table::spare(Flow& flow, Tick now)
{
  flow.spared_ = now;
  if (list_of(flow).newest == flow.self_) return;
  unlink(flow);
  link_newest(flow);
}

// It is the youngest of its new stage, since the chain touches a flow before it moves it.
void Table::move(Flow& flow, Stage stage)
{
  if (flow.stage_ == stage) return;
  unlink(flow);
  flow.stage_ = stage;
  link_newest(flow);
}

void Table::settle(Flow& flow)
{
  if (!flow.closed) move(flow, Stage::living);
}

void Table::close(Flow& flow)
{
  flow.closed = true;
  move(flow, Stage::closed);
}

void Table::reopen(Flow& flow)
{
  flow.closed = false;
  move(flow, Stage::living);
}

Flow* Table::crowded_out()
{
  const List& list = list_of(Stage::answered);
  return list.size >= options_.most_answered && list.oldest != 0 ? &slot(list.oldest) : nullptr;
}

std::size_t Table::memory() const
{
  return chunks_.size() * chunk_flows * sizeof(Flow) + chunks_.capacity() * sizeof(chunks_[0])
         + state_chunks_.size() * chunk_flows * state_stride_ + state_chunks_.capacity() * sizeof(state_chunks_[0])
         + free_states_.capacity() * sizeof(free_states_[0]) + buckets_.capacity() * sizeof(buckets_[0])
         + free_.capacity() * sizeof(free_[0]);
}

void Table::erase(Flow& flow)
{
  if (latest_ == &flow) latest_ = nullptr;
  const std::uint32_t index = flow.self_;
  std::uint32_t* at = &buckets_[bucket_of(flow.view.key)];
  while (*at != index)
    at = &slot(*at).next_in_bucket_;
  *at = flow.next_in_bucket_;
  unlink(flow);
  drop_state(flow);
  flow.self_ = 0;
  free_.push_back(index);
  --size_;
}

std::array<std::pair<Stage, Duration>, 4> Table::lives() const
{
  return { std::pair { Stage::closed, options_.linger }, std::pair { Stage::opening, options_.half_open },
           std::pair { Stage::answered, options_.half_open }, std::pair { Stage::living, options_.idle } };
}

Tick Table::due(const Flow& flow, Duration limit)
{
  return std::max(flow.view.last_seen, flow.spared_) + limit;
}

Flow* Table::expired(Tick now)
{
  for (const auto& [stage, limit] : lives())
    if (const std::uint32_t oldest = list_of(stage).oldest; oldest != 0 && due(slot(oldest), limit) <= now)
      return &slot(oldest);
  return nullptr;
}

Tick Table::next_expiry() const
{
  Tick next = Tick::max();
  for (const auto& [stage, limit] : lives())
    if (const std::uint32_t oldest = list_of(stage).oldest; oldest != 0)
      next = std::min(next, due(slot(oldest), limit));
  return next;
}

} // namespace tandem::flow
