// How the control thread talks to the packet thread: a bounded box of work. Any thread posts; the packet thread takes.
// Taking never blocks and never waits for a lock, whatever the posters do.
#pragma once

#include "src/control/backend.h"

#include <tandem/units.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace tandem::control
{

class Mailbox
{
public:
  using Task = std::function<void()>;

  // `notify` wakes the packet thread (ev_async_send); it is called from the posting thread after each post and must
  // outlive the box. At most `capacity` tasks wait at a time.
  explicit Mailbox(std::function<void()> notify, std::size_t capacity = 64);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // From any thread. False when the box is full or closed: the task was not taken and will not run.
  bool post(Task task);

  // From the packet thread only: runs what is waiting, at most `limit` tasks, so that a flood of requests cannot starve
  // packets. Returns how many ran; call again soon when that equals `limit`. A task's exception is swallowed.
  std::size_t run_pending(std::size_t limit = 8);
  // From the packet thread: is there something to run?
  bool pending() const;

  // From the packet thread when its loop ends (or before it begins to be torn down): whoever waits in ask() is refused,
  // later posts too.
  void close();

  // Runs `work` in the packet thread and returns its result. From any thread but the packet thread itself, where it
  // runs at once. Throws Refused(busy) when the box is full or closed or when the packet thread has not begun the work
  // within `timeout`; the work is then never begun. Work that has begun is waited for, so that it may refer to the
  // caller's variables. An exception of the work arrives here as Refused (any other kind as Kind::conflict).
  template <class Work>
  auto ask(Work work, Duration timeout = std::chrono::seconds { 1 }) -> std::invoke_result_t<Work&>;

  // Which thread run_pending belongs to. Call once at the start of the packet thread's loop; without it ask() in the
  // packet thread would wait for itself.
  void bind_to_this_thread();

private:
  enum class Stage : unsigned char
  {
    waiting,
    begun,
    done,
    failed,
    abandoned,
  };
  // What the asker and the packet thread share.
  struct Call
  {
    std::mutex mutex;
    std::condition_variable changed;
    Stage stage = Stage::waiting;
    Refused::Kind kind = Refused::Kind::conflict;
    std::string words;

    ~Call() = default;
  };
  template <class Result>
  struct CallOf : Call
  {
    std::optional<Result> result {};
  };

  // False when the asker has given up.
  static bool begin(Call& call);
  static void finish(Call& call, Stage stage);
  static void fail(Call& call, Refused::Kind kind, const char* words);
  // Posts `task` and waits; throws Refused unless the call is done.
  void await(Call& call, Task task, Duration timeout);

  std::function<void()> notify_;
  std::vector<Task> ring_;              // one slot is always free
  std::atomic<std::size_t> head_ { 0 }; // next to run; written by the packet thread
  std::atomic<std::size_t> tail_ { 0 }; // next to fill; written under post_mutex_
  std::atomic<bool> closed_ { false };
  std::mutex post_mutex_; // among posters only
  std::atomic<std::thread::id> owner_ {};
};

template <class Work>
auto Mailbox::ask(Work work, Duration timeout) -> std::invoke_result_t<Work&>
{
  using Result = std::invoke_result_t<Work&>;
  if (owner_.load() == std::this_thread::get_id()) return work();

  constexpr bool nothing = std::is_void_v<Result>;
  auto call = std::make_shared<CallOf<std::conditional_t<nothing, bool, Result>>>();
  // The task may outlive this frame only while its call is abandoned, and then `work` is not touched.
  await(
      *call,
      [call, &work]
      {
        if (!begin(*call)) return;
        try
        {
          if constexpr (nothing)
            work();
          else
            call->result.emplace(work());
          finish(*call, Stage::done);
        }
        catch (const Refused& refused)
        {
          fail(*call, refused.kind, refused.what());
        }
        catch (const std::exception& error)
        {
          fail(*call, Refused::Kind::conflict, error.what());
        }
        catch (...)
        {
          fail(*call, Refused::Kind::conflict, "the daemon met an unknown fault");
        }
      },
      timeout);
  if constexpr (!nothing) return std::move(*call->result);
}

} // namespace tandem::control
