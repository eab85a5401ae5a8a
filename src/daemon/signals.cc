#include "src/daemon/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <utility>

namespace tandem::daemon
{
namespace
{

// A handler has nowhere else to look.
std::atomic<Signals::Handlers*> active { nullptr };
std::atomic<bool> stopping { false };
std::array<int, 2> channel { -1, -1 };

constexpr int sooner = 10; // so much sooner a heartbeat comes again that failed

void put(char request)
{
  const int kept = errno;
  // A full pipe holds thousands of requests already.
  [[maybe_unused]] const auto written = ::write(channel[1], &request, 1);
  errno = kept;
}

void on_signal(int number)
{
  Signals::Handlers* handlers = active.load();
  if (!handlers) return;
  if (number == SIGHUP) return put('r');
  if (number == SIGUSR1) return put('s');
  if (stopping.exchange(true)) ::_exit(1);
  handlers->stop();
}

void catch_with(void (*handler)(int), std::initializer_list<int> numbers)
{
  struct sigaction action
  {
  };
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : numbers)
    if (::sigaction(number, &action, nullptr) != 0)
      throw std::system_error { errno, std::generic_category(), "sigaction" };
}

void mask_requests(int how)
{
  sigset_t requests;
  sigemptyset(&requests);
  sigaddset(&requests, SIGHUP);
  sigaddset(&requests, SIGUSR1);
  if (const int fault = ::pthread_sigmask(how, &requests, nullptr); fault != 0)
    throw std::system_error { fault, std::generic_category(), "pthread_sigmask" };
}

} // namespace

void hold_requests()
{
  mask_requests(SIG_BLOCK);
}

Signals::Signals(Handlers handlers) : handlers_ { std::move(handlers) }
{
  if (::pipe2(channel.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    throw std::system_error { errno, std::generic_category(), "pipe for signals" };
  stopping = false;
  active = &handlers_;
  catch_with(SIG_IGN, { SIGPIPE });
  catch_with(on_signal, { SIGTERM, SIGINT, SIGHUP, SIGUSR1 });
  thread_ = std::thread { [this] { serve(); } };
  mask_requests(SIG_UNBLOCK);
}

Signals::~Signals()
{
  put('q');
  thread_.join();
  // A late signal must not reach what is being taken down; the next one ends the process.
  catch_with(SIG_IGN, { SIGHUP, SIGUSR1 });
  catch_with(SIG_DFL, { SIGTERM, SIGINT });
  active = nullptr;
  for (int& end : channel)
    ::close(std::exchange(end, -1));
}

void Signals::serve()
{
  const int period = handlers_.period > Duration {}
                         ? static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(handlers_.period).count())
                         : -1;
  bool well = true;
  while (true)
  {
    pollfd ready { channel[0], POLLIN, 0 };
    // The second that a question waited in vain is the one by which the next, a whole period later, would be too late
    // for a watchdog of two periods.
    const int count = ::poll(&ready, 1, well ? period : period / sooner);
    char request = 0;
    if (count > 0 && ::read(channel[0], &request, 1) == 1)
    {
      if (request == 'q') return;
      if (request == 'r' && handlers_.reload) handlers_.reload();
      if (request == 's' && handlers_.save) handlers_.save();
    }
    if (period >= 0 && handlers_.heartbeat) well = handlers_.heartbeat();
  }
}

} // namespace tandem::daemon
