#include "tools/sim/stages.h"

#include <algorithm>

namespace tandem::sim
{

Stage& WeightedAir::add(const AccessPoint& settings)
{
  ports_.push_back(std::make_unique<Port>(*this, settings));
  return *ports_.back();
}

void WeightedAir::enqueue(Port& port, Handle handle)
{
  if (port.queue.size() >= port.settings.buffer)
  {
    ++port.stats.dropped;
    world_.pool.free(handle);
    return;
  }
  port.last_finish = std::max(virtual_time_, port.last_finish) + port.settings.cost / port.settings.weight;
  port.queue.push({ handle, port.last_finish, world_.now() });
  if (serving_ == nullptr) start();
}

void WeightedAir::start()
{
  Port* next = nullptr;
  for (const auto& port : ports_)
    if (!port->queue.empty() && (next == nullptr || port->queue.front().finish < next->queue.front().finish))
      next = port.get();
  serving_ = next;
  if (next == nullptr) return;
  const Waiting waiting = next->queue.front();
  next->queue.pop();
  virtual_time_ = waiting.finish;
  current_ = waiting.handle;
  Packet& packet = world_.pool[current_];
  const Duration limit = next->settings.mark_above;
  if (limit > Duration {} && packet.ect && world_.now() - waiting.since > limit)
  {
    packet.ce = true;
    ++next->stats.marked;
  }
  ++next->stats.sent;
  next->stats.air += next->settings.packet_time;
  done_.set(world_.now() + next->settings.packet_time);
}

void WeightedAir::complete()
{
  const Handle sent = current_;
  start(); // the medium goes on before the receiver answers
  world_.forward(sent);
}

} // namespace tandem::sim
