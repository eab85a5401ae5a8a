#include "tools/sim/stages.h"

#include <algorithm>

namespace tandem::sim
{

Stage& WeightedAir::add(const AccessPoint& settings)
{
  stations_.push_back(std::make_unique<Station>(
      Station { .weight = settings.weight, .buffer = settings.buffer, .mark_above = settings.mark_above }));
  ports_.push_back(std::make_unique<Port>(*this, *stations_.back(), settings.packet_time, settings.cost));
  return *ports_.back();
}

Stage& WeightedAir::add(const Client& settings, std::size_t client)
{
  ports_.push_back(std::make_unique<Port>(*this, ports_[client]->station, settings.packet_time, settings.cost));
  return *ports_.back();
}

void WeightedAir::enqueue(Port& port, Handle handle)
{
  Station& station = port.station;
  if (station.queue.size() >= station.buffer)
  {
    ++port.stats.dropped;
    world_.pool.free(handle);
    return;
  }
  station.last_finish = std::max(virtual_time_, station.last_finish) + port.cost / station.weight;
  station.queue.push({ handle, &port, station.last_finish, world_.now() });
  if (!serving_) start();
}

void WeightedAir::start()
{
  Station* next = nullptr;
  for (const auto& station : stations_)
    if (!station->queue.empty() && (next == nullptr || station->queue.front().finish < next->queue.front().finish))
      next = station.get();
  serving_ = next != nullptr;
  if (next == nullptr) return;
  const Waiting waiting = next->queue.front();
  next->queue.pop();
  virtual_time_ = waiting.finish;
  current_ = waiting.handle;
  Port& port = *waiting.port;
  Packet& packet = world_.pool[current_];
  if (next->mark_above > Duration {} && packet.ect && world_.now() - waiting.since > next->mark_above)
  {
    packet.ce = true;
    ++port.stats.marked;
  }
  const Duration time = port.draw ? port.draw(port.packet_time, world_.now()) : port.packet_time;
  ++port.stats.sent;
  port.stats.air += time;
  done_.set(world_.now() + time);
}

void WeightedAir::complete()
{
  const Handle sent = current_;
  start(); // the medium goes on before the receiver answers
  world_.forward(sent);
}

} // namespace tandem::sim
