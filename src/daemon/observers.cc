#include "src/daemon/observers.h"

#include "src/daemon/service.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace tandem::daemon
{

namespace
{

constexpr std::uint32_t coarsest_sampling = 4096;

} // namespace

Observers::Observers(struct ev_loop* loop, std::uint32_t one_in, Take take, std::function<void(Link, bool)> done)
    : loop_ { loop }, take_ { std::move(take) }, done_ { std::move(done) }
{
  for (std::size_t i = 0; i < ones_.size(); ++i)
  {
    One& one = ones_[i];
    one.all = this;
    one.link = static_cast<Link>(i);
    one.sampling.one_in = std::max<std::uint32_t>(1, one_in);
    ev_io_init(
        &one.io,
        [](struct ev_loop*, ev_io* w, int)
        {
          One& its = *static_cast<One*>(w->data);
          const bool up = its.all->drain(its.link);
          its.all->done_(its.link, !up);
        },
        -1, EV_READ);
    one.io.data = &one;
  }
}

Observers::~Observers()
{
  for (One& one : ones_)
    close(one);
}

void Observers::close(One& one)
{
  if (!one.observer) return;
  ev_io_stop(loop_, &one.io);
  one.observer.reset();
}

void Observers::want(Link link, const std::string& interface, int ifindex, const Wanted& wanted)
{
  One& one = at(link);
  const bool on = wanted.watches(link);
  if (!on || ifindex != one.ifindex)
  {
    close(one);
    one.complained = one.complained && ifindex == one.ifindex;
  }
  one.ifindex = ifindex;
  if (!on || ifindex == 0) return;
  one.sampling.kinds = wanted.observed_of(link);
  one.sampling.queued = wanted.queued_of(link);
  try
  {
    if (one.observer)
    {
      one.observer->set(one.sampling);
      return;
    }
    one.observer.emplace(interface, one.sampling);
    one.complained = false;
    ev_io_set(&one.io, one.observer->fd(), EV_READ);
    ev_io_start(loop_, &one.io);
  }
  catch (const std::exception& error)
  {
    // Without copies no path is validated, and every module falls back to doing nothing.
    if (!std::exchange(one.complained, true))
      log(Severity::warning, interface + " cannot be observed: " + error.what());
  }
}

bool Observers::drain(Link link)
{
  One& one = at(link);
  if (!one.observer) return true;
  return one.observer->receive(
             [&](const kernel::ObservedPacket& packet)
             {
               ++one.seen;
               try
               {
                 take_(link, packet);
               }
               catch (const std::exception& error)
               {
                 if (!std::exchange(one.told_fault, true))
                   log(Severity::warning, std::string { "a packet that was observed has no effect: " } + error.what()
                                              + "; further ones are not told");
                 throw; // to the observer, which counts it
               }
             })
         >= 0;
}

void Observers::retune(Tick now)
{
  const double span = std::max(seconds(now - tuned_), 1e-3);
  tuned_ = now;
  for (One& one : ones_)
  {
    const double rate = static_cast<double>(one.seen - std::exchange(one.seen_before, one.seen)) / span;
    if (!one.observer || one.sampling.kinds == 0) continue;
    std::uint32_t& one_in = one.sampling.one_in;
    std::uint32_t wanted = one_in;
    if (rate > 2 * observed_per_second)
      wanted = std::min(coarsest_sampling, one_in * 2);
    else if (rate < observed_per_second / 2 && one_in > 1)
      wanted = one_in / 2;
    if (wanted == one_in) continue;
    const std::uint32_t before = std::exchange(one_in, wanted);
    try
    {
      one.observer->set(one.sampling);
    }
    catch (const std::exception& error)
    {
      one_in = before; // as many copies as until now
      if (!std::exchange(one.complained, true))
        log(Severity::warning, std::string { "how much is observed stays as it is: " } + error.what());
    }
  }
}

} // namespace tandem::daemon
