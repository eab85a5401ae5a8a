// A thread that may hang in a system call without taking its owner with it.
#pragma once

#include <tandem/units.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace tandem::feeder
{

class ThreadedWorker
{
public:
  // Runs `body` in a thread of its own. Whatever it touches has to be kept alive by what it captures (shared_ptr), for
  // it may outlive this object. It must not throw. Throws std::system_error when there can be no thread.
  explicit ThreadedWorker(std::function<void()> body) : done_ { std::make_shared<Done>() }
  {
    thread_ = std::thread { [body = std::move(body), done = done_]() mutable
                            {
                              body();
                              body = {}; // what it held ends in this thread, before the end is told
                              const std::lock_guard lock { done->mutex };
                              done->yes = true;
                              done->told.notify_all();
                            } };
  }
  ~ThreadedWorker() { finish({}); }
  ThreadedWorker(const ThreadedWorker&) = delete;
  ThreadedWorker& operator=(const ThreadedWorker&) = delete;

  // Waits for the end of the body, which has to be asked for before; one that does not come within `timeout` is left
  // to itself. True when it has ended.
  bool finish(Duration timeout)
  {
    if (!thread_.joinable()) return true;
    bool ended = false;
    {
      std::unique_lock lock { done_->mutex };
      ended = done_->told.wait_for(lock, timeout, [&] { return done_->yes; });
    }
    if (ended)
      thread_.join();
    else
      thread_.detach();
    return ended;
  }

private:
  struct Done
  {
    std::mutex mutex {};
    std::condition_variable told {};
    bool yes = false;
  };
  std::shared_ptr<Done> done_;
  std::thread thread_ {};
};

} // namespace tandem::feeder
