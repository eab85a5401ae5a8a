// What packets pass on their way: the lab's pipe and the lab's air in virtual time, and the weighted queue.
#pragma once

#include "tools/lab/medium/air.h"
#include "tools/lab/medium/pipe.h"
#include "tools/sim/packet.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace tandem::sim
{

// Runs a model of tools/lab/medium (Pipe, Air) on the loop's time.
template <class Model>
class ModelHost
{
public:
  explicit ModelHost(World& world) : world_(world), timer_(world.loop, [this] { advance(); }) {}

  medium::Outbox& box() { return box_; }
  void drive(Model& model)
  {
    model_ = &model;
    timer_.set(model.next_event());
  }
  template <class... To>
  void submit(const medium::Packet& packet, To... to)
  {
    model_->run_until(world_.now());
    model_->submit(world_.now(), packet, to...);
    drain();
  }
  // Before a setter of the model.
  void advance()
  {
    model_->run_until(world_.now());
    drain();
  }
  World& world() { return world_; }

private:
  void drain()
  {
    // What is forwarded may come back to this very model, which then adds to the box.
    if (draining_) return;
    draining_ = true;
    for (std::size_t i = 0, k = 0; i < box_.deliveries.size() || k < box_.drops.size();)
    {
      if (k < box_.drops.size())
      {
        const medium::Drop drop = box_.drops[k++];
        if (drop.handle != medium::virtual_packet) world_.pool.free(drop.handle);
        continue;
      }
      const medium::Delivery delivery = box_.deliveries[i++];
      if (delivery.handle == medium::virtual_packet) continue;
      if (delivery.mark && world_.pool[delivery.handle].ect) world_.pool[delivery.handle].ce = true;
      world_.forward(delivery.handle);
    }
    box_.clear();
    draining_ = false;
    timer_.set(model_->next_event());
  }

  World& world_;
  Model* model_ = nullptr;
  medium::Outbox box_;
  Timer timer_;
  bool draining_ = false;
};

// A one-way link: rate, delay, jitter, drop-tail queue, losses, ECN marks (medium::PipeConfig). Rate 0: only the delay.
class Wire final : public Stage
{
public:
  Wire(World& world, const medium::PipeConfig& config)
      : host_(world), pipe_(config, world.seed, world.stream(), 0, 0, host_.box())
  {
    host_.drive(pipe_);
  }
  void accept(Handle handle) override
  {
    const Packet& packet = host_.world().pool[handle];
    host_.submit({ .handle = handle, .bytes = packet.bytes, .ect = packet.ect });
  }
  medium::Pipe& pipe() { return pipe_; }
  // As medium::Pipe's, at the loop's time.
  void configure(const medium::PipeConfig& config)
  {
    host_.advance();
    pipe_.configure(host_.world().now(), config);
    host_.drive(pipe_);
  }
  void set_down(bool down, bool hold)
  {
    host_.advance();
    pipe_.set_down(host_.world().now(), down, hold);
    host_.advance();
  }

private:
  ModelHost<medium::Pipe> host_;
  medium::Pipe pipe_;
};

// The lab's Wi-Fi. Add access points and stations to `air()` before traffic begins; `lane()` is the stage for one
// direction between two nodes.
class Wifi
{
public:
  Wifi(World& world, const medium::AirConfig& config) : host_(world), air_(config, world.seed, host_.box())
  {
    host_.drive(air_);
  }

  class Lane final : public Stage
  {
  public:
    Lane(Wifi& wifi, medium::NodeId from, medium::NodeId to) : wifi_(wifi), from_(from), to_(to) {}
    void accept(Handle handle) override
    {
      const Packet& packet = wifi_.host_.world().pool[handle];
      wifi_.host_.submit({ .handle = handle, .bytes = packet.bytes, .ect = packet.ect }, from_, to_);
    }

  private:
    Wifi& wifi_;
    medium::NodeId from_, to_;
  };

  Stage& lane(medium::NodeId from, medium::NodeId to)
  {
    lanes_.push_back(std::make_unique<Lane>(*this, from, to));
    return *lanes_.back();
  }
  medium::Air& air() { return air_; }
  // Before a setter of the air while traffic runs, and after it.
  void sync()
  {
    host_.advance();
    host_.drive(air_);
  }

private:
  ModelHost<medium::Air> host_;
  medium::Air air_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

// Croitoru et al. (NSDI 2015) 6.2.1: the packets of access point i take T_i on the shared medium; when several have
// packets, the next one is chosen by weighted fair queueing with weights w_i. The share is one of packets, as winning
// contention is: of two backlogged access points the first sends w_1 packets for w_2 of the other. Each has a drop-tail
// buffer of its own, first in, first out, which all of its clients share.
class WeightedAir
{
public:
  // Of a new access point's first client.
  struct AccessPoint
  {
    Duration packet_time {};
    double weight = 1;
    std::uint32_t buffer = 200; // packets
    Duration mark_above {};     // ECN: marks what has waited longer; 0 = never
    // What a packet counts in the weighted queue: 1 for all shares packets, its packet time shares air. Retries are
    // backed off for, so a packet that needs some wins fewer turns than one that needs none.
    double cost = 1;
  };
  // Of a further one.
  struct Client
  {
    Duration packet_time {};
    double cost = 1;
  };
  struct Stats
  {
    std::uint64_t sent = 0, dropped = 0, marked = 0;
    Duration air {};
  };

  explicit WeightedAir(World& world) : world_(world), done_(world.loop, [this] { complete(); }) {}
  // The stage for packets to a client. Clients are numbered in the order in which they are added.
  Stage& add(const AccessPoint& settings);
  // To another one at the access point of `client`.
  Stage& add(const Client& settings, std::size_t client);
  void set_packet_time(std::size_t client, Duration packet_time) { ports_[client]->packet_time = packet_time; }
  // How long each packet takes, from its mean and when it begins; without, all take the mean.
  using Draw = std::function<Duration(Duration mean, Tick now)>;
  void draw(std::size_t client, Draw draw) { ports_[client]->draw = std::move(draw); }
  Duration packet_time(std::size_t client) const { return ports_[client]->packet_time; }
  const Stats& stats(std::size_t client) const { return ports_[client]->stats; }
  std::size_t size() const { return ports_.size(); }

private:
  struct Port;
  struct Waiting
  {
    Handle handle = 0;
    Port* port = nullptr;
    double finish = 0; // virtual finish time
    Tick since {};
  };
  struct Station // of the access point
  {
    double weight = 1;
    std::uint32_t buffer = 0;
    Duration mark_above {};
    medium::Ring<Waiting> queue {};
    double last_finish = 0;
  };
  struct Port final : Stage
  {
    Port(WeightedAir& owner, Station& at, Duration time, double counts)
        : air(owner), station(at), packet_time(time), cost(counts)
    {
    }
    void accept(Handle handle) override { air.enqueue(*this, handle); }
    WeightedAir& air;
    Station& station;
    Duration packet_time;
    double cost;
    Draw draw {};
    Stats stats {};
  };
  void enqueue(Port& port, Handle handle);
  void start();
  void complete();

  World& world_;
  std::vector<std::unique_ptr<Station>> stations_;
  std::vector<std::unique_ptr<Port>> ports_;
  bool serving_ = false;
  Handle current_ = 0;
  double virtual_time_ = 0; // finish time of the packet in service (Golestani's self-clocked fair queueing, 1994)
  Timer done_;
};

} // namespace tandem::sim
