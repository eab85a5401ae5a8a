// Signals as requests: stop, take over the configuration's knobs anew, save the recording.
#pragma once

#include <tandem/units.h>

#include <functional>
#include <thread>

namespace tandem::daemon
{

// From here on SIGHUP and SIGUSR1 wait until Signals answers them: a request that comes while the daemon starts must
// not end it. Call before any thread starts. Throws std::system_error.
void hold_requests();

// While it lives: SIGTERM and SIGINT call `stop` in the signal handler; SIGHUP and SIGUSR1 run `reload` and `save` in a
// thread of their own, one after the other; `heartbeat` runs in that thread every `period` (never when that is zero),
// and sooner again while it says false. A second SIGTERM or SIGINT ends the process at once: the keeper clears up.
// SIGPIPE is ignored.
class Signals
{
public:
  struct Handlers
  {
    std::function<void()> stop; // async-signal-safe
    std::function<void()> reload;
    std::function<void()> save;
    std::function<bool()> heartbeat;
    Duration period {};
  };

  // Throws std::system_error. At most one object at a time.
  explicit Signals(Handlers handlers);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

private:
  Handlers handlers_;
  std::thread thread_;

  void serve();
};

} // namespace tandem::daemon
