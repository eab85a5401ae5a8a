#include "src/daemon/background.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace tandem::daemon
{

struct Background::Shared
{
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<Task()>> waiting;
  bool ends = false;

  void run()
  {
    std::unique_lock lock { mutex };
    for (;;)
    {
      changed.wait(lock, [this] { return ends || !waiting.empty(); });
      if (ends) return;
      const auto work = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      const Task result = work();
      lock.lock();
      // With the lock: whoever the result refers to is there until it has been taken.
      if (!ends && result) result();
    }
  }
};

Background::~Background()
{
  if (!shared_) return;
  const std::lock_guard lock { shared_->mutex };
  shared_->ends = true;
  shared_->changed.notify_all();
}

void Background::post(std::function<Task()> work)
{
  if (!shared_)
  {
    shared_ = std::make_shared<Shared>();
    std::thread { [shared = shared_] { shared->run(); } }.detach();
  }
  const std::lock_guard lock { shared_->mutex };
  shared_->waiting.push_back(std::move(work));
  shared_->changed.notify_all();
}

} // namespace tandem::daemon
