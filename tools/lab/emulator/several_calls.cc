#include "tools/lab/emulator/several_calls.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace tandem::lab
{

namespace
{
constexpr long several_calls_number = 1000;
}

bool SeveralCalls::supported()
{
  return ::syscall(several_calls_number, nullptr, 0) == 0;
}

std::size_t SeveralCalls::add(long number, std::initializer_list<long> arguments, long after)
{
  Call call { number, {}, after, 0 };
  std::copy(arguments.begin(), arguments.end(), call.arguments);
  calls_.push_back(call);
  return calls_.size() - 1;
}

void SeveralCalls::run()
{
  // EAGAIN: a call among them failed; its own result says so.
  if (::syscall(several_calls_number, calls_.data(), calls_.size()) != 0 && errno != EAGAIN)
    throw std::system_error(errno, std::generic_category(), "make several system calls at once");
}

} // namespace tandem::lab
