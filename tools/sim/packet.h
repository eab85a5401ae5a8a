// Packets of the simulator and the way they go.
#pragma once

#include "tools/sim/loop.h"

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

namespace tandem::sim
{

using Handle = std::uint32_t;

// A place that packets pass.
class Stage
{
public:
  virtual ~Stage() = default;
  virtual void accept(Handle packet) = 0;
};

// Packets are routed by their source: the stages in order, the receiving end last.
using Route = std::vector<Stage*>;

enum class Kind : std::uint8_t
{
  syn,     // client to server
  syn_ack, // server to client
  data,    // server to client
  ack,     // client to server
};

struct Block
{
  std::uint64_t from = 0, to = 0; // segments [from, to)
};

// Sequence numbers count segments from 0 and do not wrap; client.h translates for the daemon's modules.
struct Packet
{
  const Route* route = nullptr;
  std::uint32_t hop = 0;
  std::uint32_t bytes = 0; // network-layer length
  Kind kind = Kind::data;
  bool ect = false, ce = false; // RFC 3168, IP header
  bool ece = false, cwr = false;
  bool retransmission = false;
  std::uint8_t sacks = 0;
  std::uint16_t interface = 0; // of the client, by which it arrives or leaves
  std::uint64_t seq = 0;       // data
  std::uint32_t length = 0;    // payload bytes
  std::uint64_t ack = 0;       // next segment expected
  std::uint64_t dsn = 0;       // data: position in the connection, segments
  std::uint64_t data_ack = 0;  // next segment of the connection expected
  std::uint64_t window = 0;    // bytes beyond `data_ack` (one subflow: `ack`) that the receiver has room for
  std::array<Block, 3> sack {};
  std::uint32_t ts_value = 0, ts_echo = 0; // milliseconds, RFC 7323
};

class Pool
{
public:
  Handle make()
  {
    if (free_.empty())
    {
      packets_.emplace_back();
      return static_cast<Handle>(packets_.size() - 1);
    }
    const Handle handle = free_.back();
    free_.pop_back();
    packets_[handle] = Packet {};
    return handle;
  }
  void free(Handle handle) { free_.push_back(handle); }
  Packet& operator[](Handle handle) { return packets_[handle]; }
  std::size_t in_use() const { return packets_.size() - free_.size(); }

private:
  std::deque<Packet> packets_; // references stay valid
  std::vector<Handle> free_;
};

// What all parts of a simulation share.
struct World
{
  explicit World(std::uint64_t a_seed) : seed(a_seed) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Loop loop;
  Pool pool;
  std::uint64_t seed;
  std::uint64_t streams = 0; // random streams given out

  std::uint64_t stream() { return ++streams; }
  Tick now() const { return loop.now(); }
  // To the next stage of its route.
  void forward(Handle handle)
  {
    Packet& packet = pool[handle];
    (*packet.route)[packet.hop++]->accept(handle);
  }
  // The RFC 7323 clock: milliseconds, never 0.
  std::uint32_t clock() const
  {
    return 1 + static_cast<std::uint32_t>(now().time_since_epoch() / std::chrono::milliseconds { 1 });
  }
};

} // namespace tandem::sim
