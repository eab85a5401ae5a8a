// In a network namespace of a process of the test's own, where /sys shows another one.
#include "src/kernel/command.h"
#include "src/kernel/packet/arrivals.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace tandem::kernel
{
namespace
{

constexpr int skipped = 77;

// What `look` returns in a namespace with forty pairs of interfaces.
int among_many_interfaces(const std::function<int()>& look)
{
  const pid_t child = ::fork();
  if (child == 0)
  {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(skipped);
    for (int i = 10; i < 50; ++i)
    {
      const std::string number = std::to_string(i);
      if (!run({ "ip", "link", "add", "counted-here" + number, "type", "veth", "peer", "name",
                 "counted-peer" + number })
               .ok())
        ::_exit(skipped);
    }
    ::_exit(look());
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(FrameCounters, FindAnInterfaceBehindTheFirstPageOfTheTable)
{
  const int found = among_many_interfaces(
      []
      {
        int count = 0;
        for (const char* name : { "counted-here10", "counted-here30", "counted-peer49" })
          for (const FrameCounter::Of of : { FrameCounter::Of::received, FrameCounter::Of::sent })
          {
            FrameCounter counter { of };
            counter.open(name);
            count += counter.read() == 0u ? 1 : 0;
          }
        FrameCounter none { FrameCounter::Of::received };
        none.open("counted-here9");
        return count + (none.read() ? 10 : 0);
      });
  if (found == skipped) GTEST_SKIP() << "no namespace with interfaces can be made (root, iproute2)";
  EXPECT_EQ(found, 6);
}

} // namespace
} // namespace tandem::kernel
