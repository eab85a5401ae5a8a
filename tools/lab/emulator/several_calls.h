// Several system calls at once, in the lab's kernel for virtual time.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace tandem::lab
{

// A list of system calls that the kernel for virtual time carries out as one (tandem_lab/kernel/patches/0008): there
// each call costs two switches between processes, and the emulator makes nearly all of them. No other kernel knows it.
class SeveralCalls
{
public:
  static constexpr std::size_t most = 256;
  static constexpr long always = -1;

  // Whether this kernel does it.
  static bool supported();

  // Adds a call; it is left out unless the result of the earlier call `after` is above 0. Gives its place in the list.
  std::size_t add(long number, std::initializer_list<long> arguments, long after = always);
  // Makes the calls in their order. Throws std::system_error when the kernel refuses the list itself.
  void run();
  // What the call at this place gave: as the kernel says it, an error as a negative number.
  long result(std::size_t place) const { return calls_[place].result; }
  std::size_t size() const { return calls_.size(); }
  void clear() { calls_.clear(); }

private:
  struct Call // as the kernel reads and writes it
  {
    long number;
    long arguments[6];
    long after;
    long result;
  };

  std::vector<Call> calls_;
};

} // namespace tandem::lab
