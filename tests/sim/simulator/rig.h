// A sender or a receiver between hands that give it packets and collect what it answers.
#pragma once

#include "tools/sim/receiver.h"
#include "tools/sim/sender.h"

#include <vector>

namespace tandem::sim::test
{

using namespace tandem::literals;

// Keeps what arrives.
struct Collector final : Stage
{
  explicit Collector(World& a_world) : world(a_world) {}
  void accept(Handle handle) override
  {
    packets.push_back(world.pool[handle]);
    world.pool.free(handle);
  }
  std::vector<Packet> take() { return std::exchange(packets, {}); }
  World& world;
  std::vector<Packet> packets;
};

// Has always something to send.
struct Endless final : Source
{
  std::optional<Chunk> next(Sender&) override { return Chunk { given++, 1448 }; }
  void acknowledged(Sender&, std::uint64_t, std::uint64_t) override {}
  std::uint64_t given = 0;
};

constexpr Duration round_trip = 100ms;

struct SenderRig
{
  explicit SenderRig(const SenderConfig& config)
      : out(world), route { &out }, sender(world, config, source, route, group)
  {
    Packet syn;
    syn.kind = Kind::syn;
    give(syn);
    wait(round_trip);
    acknowledge(0);
    out.packets.erase(out.packets.begin()); // the SYN's answer
  }
  void wait(Duration time) { world.loop.run_until(world.now() + time); }
  void give(Packet packet)
  {
    const Handle handle = world.pool.make();
    packet.ts_value = world.clock();
    world.pool[handle] = packet;
    sender.accept(handle);
  }
  void acknowledge(std::uint64_t next, std::vector<Block> sacks = {}, bool ece = false, std::uint32_t ts_echo = 0)
  {
    Packet ack;
    ack.kind = Kind::ack;
    ack.ack = next;
    ack.window = 100'000'000;
    ack.ece = ece;
    ack.ts_echo = ts_echo != 0 ? ts_echo : world.clock();
    for (const Block& block : sacks)
      ack.sack[ack.sacks++] = block;
    give(ack);
  }
  // A round trip in which everything arrives and every segment is acknowledged.
  void round()
  {
    wait(round_trip);
    const std::uint64_t last = sender.window().sent;
    for (std::uint64_t next = sender.window().acked + 1; next <= last; ++next)
      acknowledge(next);
  }

  World world { 1 };
  Endless source;
  Collector out;
  Route route;
  Group group;
  Sender sender;
};

struct Taker final : Sink
{
  void received(std::uint64_t dsn, std::uint32_t) override { got.push_back(dsn); }
  std::uint64_t data_ack() const override { return got.size(); }
  std::uint64_t room() const override { return 1'000'000; }
  std::vector<std::uint64_t> got;
};

struct ReceiverRig
{
  explicit ReceiverRig(ReceiverConfig config = { .quick = 0 })
      : out(world), route { &out }, receiver(world, config, sink, route)
  {
    receiver.connect();
    Packet answer;
    answer.kind = Kind::syn_ack;
    give(answer);
    out.take();
  }
  void wait(Duration time) { world.loop.run_until(world.now() + time); }
  void give(Packet packet)
  {
    const Handle handle = world.pool.make();
    packet.ts_value = world.clock();
    world.pool[handle] = packet;
    receiver.accept(handle);
  }
  void data(std::uint64_t seq, bool ce = false, bool cwr = false)
  {
    Packet packet;
    packet.kind = Kind::data;
    packet.seq = packet.dsn = seq;
    packet.length = 1448;
    packet.ce = ce;
    packet.cwr = cwr;
    give(packet);
  }

  World world { 1 };
  Taker sink;
  Collector out;
  Route route;
  Receiver receiver;
};

} // namespace tandem::sim::test
