// What may take long (names, a walk through a file system), one after the other in a thread of its own.
#pragma once

#include <functional>
#include <memory>

namespace tandem::daemon
{

class Background
{
public:
  using Task = std::function<void()>;

  Background() = default;
  // What has begun is not waited for: a name server that does not answer must not keep the daemon from ending. So a
  // task owns what it uses; its result goes to `take` of post(), which is not called any more.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // `work` is called in the thread, which begins with the first one, and what it returns is called there, too, unless
  // this object has gone.
  void post(std::function<Task()> work);

private:
  struct Shared;
  std::shared_ptr<Shared> shared_ {};
};

} // namespace tandem::daemon
