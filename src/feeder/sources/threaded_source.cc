#include "src/feeder/sources/threaded_source.h"

#include "src/kernel/check.h"
#include "src/kernel/clock.h"
#include "src/kernel/fd.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <mutex>

namespace tandem::feeder
{
namespace
{

kernel::Fd event_descriptor()
{
  return kernel::Fd { static_cast<int>(
      kernel::check("make an event descriptor", eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) };
}

// Neither can fail in a way that matters: the counter is never near its limit, and empty is as good as read.
void ring(const kernel::Fd& bell)
{
  eventfd_write(bell.get(), 1);
}
void silence(const kernel::Fd& bell)
{
  eventfd_t count = 0;
  eventfd_read(bell.get(), &count);
}

} // namespace

struct ThreadedSource::Shared
{
  enum class State : std::uint8_t
  {
    starting, // opened for the first time, not known yet with what result
    opening,  // again
    working,
    ended,
  };

  Limits limits {};
  std::unique_ptr<Source> inner {}; // of the thread alone
  kernel::Fd arrived = event_descriptor();
  kernel::Fd wanted = event_descriptor(); // wakes the thread

  mutable std::mutex mutex {};
  std::deque<Report> reports {};
  State state = State::starting;
  bool end_told = true; // receive() has told that the source has ended
  bool stop = false;
  std::optional<std::optional<Mac>> ap {}; // to be handed on
  std::string problem {};
  std::uint64_t inner_skipped = 0;
  std::uint64_t pushed_out = 0;

  // With the mutex held.
  bool open() const { return state == State::working || state == State::starting; }

  bool stopping() const
  {
    const std::lock_guard lock { mutex };
    return stop;
  }

  State now_in() const
  {
    const std::lock_guard lock { mutex };
    return state;
  }

  // What the inner source says now. `batch` is empty afterwards.
  void publish(State next, std::vector<Report>& batch, std::string trouble, std::uint64_t skipped)
  {
    const std::lock_guard lock { mutex };
    for (Report& report : batch)
    {
      if (reports.size() >= limits.reports)
      {
        reports.pop_front();
        ++pushed_out;
      }
      reports.push_back(std::move(report));
    }
    const bool changed = !batch.empty() || next != state;
    batch.clear();
    if (next == State::ended && state != State::opening) end_told = false;
    state = next;
    problem = std::move(trouble);
    inner_skipped = skipped;
    if (changed) ring(arrived);
  }

  // Until the descriptor is readable, `due`, or somebody wants something. False: the descriptor is none.
  bool wait(int fd, Tick due)
  {
    std::array<pollfd, 2> watched { { { .fd = wanted.get(), .events = POLLIN, .revents = 0 },
                                      { .fd = fd, .events = POLLIN, .revents = 0 } } };
    std::optional<timespec> limit {};
    if (due != Tick::max())
    {
      const auto left = std::max<std::int64_t>(0, (due - kernel::now()).count());
      limit = timespec { .tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000 };
    }
    ::ppoll(watched.data(), watched.size(), limit ? &*limit : nullptr, nullptr);
    if (watched[0].revents != 0) silence(wanted);
    return fd < 0 || (watched[1].revents & POLLNVAL) == 0;
  }

  void run()
  {
    std::vector<Report> batch {};
    for (bool first = true; !stopping(); first = false)
    {
      // Sources may throw what they do not foresee; that ends the source, not the daemon.
      try
      {
        if (first || now_in() == State::opening) open(first, batch);
        if (now_in() == State::working)
          work(batch);
        else
          wait(-1, Tick::max());
      }
      catch (const std::exception& error)
      {
        publish(State::ended, batch, inner->name() + ": " + error.what(), inner->skipped());
      }
      catch (...)
      {
        publish(State::ended, batch, inner->name() + ": ended by an unknown exception", inner->skipped());
      }
    }
    inner.reset();
  }

  void hand_on_ap()
  {
    std::optional<std::optional<Mac>> fresh {};
    {
      const std::lock_guard lock { mutex };
      std::swap(fresh, ap);
    }
    if (fresh) inner->set_ap(*fresh);
  }

  void open(bool first, std::vector<Report>& batch)
  {
    // A source may have been opened by its constructor.
    const bool works = (first && (inner->fd() >= 0 || inner->due() != Tick::max())) || inner->reopen(kernel::now());
    publish(works ? State::working : State::ended, batch, inner->problem(), inner->skipped());
  }

  void work(std::vector<Report>& batch)
  {
    hand_on_ap();
    if (!wait(inner->fd(), inner->due()))
    {
      publish(State::ended, batch, inner->name() + ": its descriptor is closed", inner->skipped());
      return;
    }
    if (stopping()) return;
    const bool going_on = inner->receive(kernel::now(), batch);
    const bool idle = batch.empty();
    publish(going_on ? State::working : State::ended, batch, inner->problem(), inner->skipped());
    // A source that claims to be readable and never is must not eat a core.
    if (going_on && idle) wait(-1, kernel::now() + limits.pace);
  }
};

ThreadedSource::ThreadedSource(std::unique_ptr<Source> inner, Limits limits)
    : name_ { inner->name() }, stale_after_ { inner->stale_after() }, rate_limit_ { inner->rate_limit() },
      optional_ { inner->optional() }, timeout_ { limits.timeout }, shared_ { std::make_shared<Shared>() }
{
  shared_->limits = limits;
  shared_->inner = std::move(inner);
  worker_.emplace([shared = shared_] { shared->run(); });
}

ThreadedSource::~ThreadedSource()
{
  {
    const std::lock_guard lock { shared_->mutex };
    shared_->stop = true;
  }
  ring(shared_->wanted);
  worker_->finish(timeout_);
}

int ThreadedSource::fd() const
{
  const std::lock_guard lock { shared_->mutex };
  return shared_->open() || !shared_->end_told ? shared_->arrived.get() : -1;
}

bool ThreadedSource::receive(Tick, std::vector<Report>& reports)
{
  const std::lock_guard lock { shared_->mutex };
  silence(shared_->arrived);
  std::move(shared_->reports.begin(), shared_->reports.end(), std::back_inserter(reports));
  shared_->reports.clear();
  if (shared_->open()) return true;
  shared_->end_told = true;
  return false;
}

bool ThreadedSource::reopen(Tick)
{
  const std::lock_guard lock { shared_->mutex };
  if (shared_->state == Shared::State::ended && shared_->end_told)
  {
    shared_->state = Shared::State::opening;
    ring(shared_->wanted);
  }
  return shared_->state == Shared::State::working;
}

void ThreadedSource::set_ap(const std::optional<Mac>& ap)
{
  const std::lock_guard lock { shared_->mutex };
  shared_->ap.emplace(ap);
  ring(shared_->wanted);
}

std::string ThreadedSource::problem() const
{
  const std::lock_guard lock { shared_->mutex };
  return shared_->problem;
}

std::uint64_t ThreadedSource::skipped() const
{
  const std::lock_guard lock { shared_->mutex };
  return shared_->inner_skipped + shared_->pushed_out;
}

} // namespace tandem::feeder
