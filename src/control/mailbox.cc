#include "src/control/mailbox.h"

namespace tandem::control
{

Mailbox::Mailbox(std::function<void()> notify, std::size_t capacity)
    : notify_ { std::move(notify) }, ring_(capacity + 1)
{
}

Mailbox::~Mailbox() = default;

bool Mailbox::post(Task task)
{
  {
    const std::lock_guard lock { post_mutex_ };
    if (closed_.load(std::memory_order_acquire)) return false;
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    const std::size_t next = (tail + 1) % ring_.size();
    if (next == head_.load(std::memory_order_acquire)) return false;
    ring_[tail] = std::move(task);
    tail_.store(next, std::memory_order_release);
  }
  if (notify_) notify_();
  return true;
}

std::size_t Mailbox::run_pending(std::size_t limit)
{
  std::size_t ran = 0;
  while (ran < limit && pending())
  {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    // Moved out and the slot given back before it runs: a task may take long, or post another one.
    const Task task = std::exchange(ring_[head], nullptr);
    head_.store((head + 1) % ring_.size(), std::memory_order_release);
    ++ran;
    try
    {
      if (task) task();
    }
    catch (...)
    {
      // The packet loop must not end for a request; ask() reports its own exceptions.
    }
  }
  return ran;
}

bool Mailbox::pending() const
{
  return head_.load(std::memory_order_relaxed) != tail_.load(std::memory_order_acquire);
}

void Mailbox::close()
{
  {
    // The one lock the packet thread takes, when it has no more packets to look after.
    const std::lock_guard lock { post_mutex_ };
    closed_.store(true, std::memory_order_release);
  }
  // Run rather than dropped: what was accepted is carried out or refused by the engine itself.
  while (run_pending(ring_.size()) > 0)
  {
  }
}

void Mailbox::bind_to_this_thread()
{
  owner_.store(std::this_thread::get_id());
}

bool Mailbox::begin(Call& call)
{
  const std::lock_guard lock { call.mutex };
  if (call.stage != Stage::waiting) return false;
  call.stage = Stage::begun;
  return true;
}

void Mailbox::finish(Call& call, Stage stage)
{
  // Notified under the lock: the asker may let go of everything as soon as it sees the stage.
  const std::lock_guard lock { call.mutex };
  call.stage = stage;
  call.changed.notify_one();
}

void Mailbox::fail(Call& call, Refused::Kind kind, const char* words)
{
  call.kind = kind;
  call.words = words;
  finish(call, Stage::failed);
}

void Mailbox::await(Call& call, Task task, Duration timeout)
{
  if (!post(std::move(task)))
    throw Refused { Refused::Kind::busy, closed_.load()
                                             ? "the daemon is stopping"
                                             : "the packet thread has too many requests waiting; try again" };
  std::unique_lock lock { call.mutex };
  if (!call.changed.wait_for(lock, timeout, [&] { return call.stage != Stage::waiting; })
      && call.stage == Stage::waiting)
  {
    call.stage = Stage::abandoned;
    throw Refused { Refused::Kind::busy,
                    "the packet thread did not answer within "
                        + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count())
                        + " ms; nothing was changed" };
  }
  call.changed.wait(lock, [&] { return call.stage != Stage::begun; });
  if (call.stage == Stage::failed) throw Refused { call.kind, call.words };
}

} // namespace tandem::control
