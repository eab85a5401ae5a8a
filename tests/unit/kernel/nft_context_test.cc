#include "src/kernel/fd.h"
#include "src/kernel/rules/nft_context.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::kernel
{
namespace
{

// What making a context comes to in a process whose descriptors are all in use.
[[noreturn]] void make_one_without_descriptors()
{
  const rlimit few { .rlim_cur = 16, .rlim_max = 16 };
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<Fd> all {};
  while (Fd one { ::open("/dev/null", O_RDONLY | O_CLOEXEC) })
    all.push_back(std::move(one));
  std::string said { "made" };
  try
  {
    NftContext {};
  }
  catch (const std::runtime_error& error)
  {
    said = error.what();
  }
  all.clear();
  std::exit(said.find("cannot open a netlink socket: Too many open files") != std::string::npos ? 42 : 1);
}

// libnftables itself would end the process, which may be the daemon or its keeper.
TEST(NftContext, WithoutDescriptorsThrows)
{
  EXPECT_EXIT(make_one_without_descriptors(), testing::ExitedWithCode(42), "");
}

} // namespace
} // namespace tandem::kernel
