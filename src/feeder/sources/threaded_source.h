// Runs a source in a thread of its own: one that has to wait for the kernel (rtnl lock) or for another process (D-Bus)
// then holds nobody up.
#pragma once

#include "src/feeder/sources/source.h"
#include "src/feeder/sources/threaded_worker.h"

#include <memory>
#include <optional>

namespace tandem::feeder
{

class ThreadedSource final : public Source
{
public:
  struct Limits
  {
    std::size_t reports = 1024;                            // that wait to be received; more push out the oldest
    Duration timeout = std::chrono::milliseconds { 1000 }; // the destructor waits so long for a call that hangs
    Duration pace = std::chrono::milliseconds { 1 };       // shortest time between two reads that brought nothing
  };

  // The inner source is opened in its thread, right away. Throws std::system_error when there can be no thread or no
  // event descriptor.
  explicit ThreadedSource(std::unique_ptr<Source> inner) : ThreadedSource { std::move(inner), Limits {} } {}
  ThreadedSource(std::unique_ptr<Source> inner, Limits limits);
  // Ends the thread, and the inner source in it. One that hangs in a system call for longer than `timeout` is left
  // behind and ends when the call does.
  ~ThreadedSource() override;
  ThreadedSource(const ThreadedSource&) = delete;
  ThreadedSource& operator=(const ThreadedSource&) = delete;

  std::string name() const override { return name_; }
  // -1 from when receive() has told the end of the inner source until it works again. While it is being opened for the
  // first time it counts as one that works and says nothing.
  int fd() const override;
  bool receive(Tick now, std::vector<Report>& reports) override;
  // Asks the thread to reopen the inner source and does not wait for it: true only when it works already. Call it again
  // some time later.
  bool reopen(Tick now) override;
  void set_ap(const std::optional<Mac>& ap) override;
  std::string problem() const override;
  // What the inner source skipped, and what did not fit in here.
  std::uint64_t skipped() const override;
  Duration stale_after() const override { return stale_after_; }
  unsigned rate_limit() const override { return rate_limit_; }
  bool optional() const override { return optional_; }

private:
  struct Shared;

  std::string name_;
  Duration stale_after_;
  unsigned rate_limit_;
  bool optional_;
  Duration timeout_;
  std::shared_ptr<Shared> shared_;
  std::optional<ThreadedWorker> worker_ {};
};

} // namespace tandem::feeder
