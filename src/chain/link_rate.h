// How fast the flows of one link are together.
#pragma once

#include <tandem/pure_ack.h>
#include <tandem/units.h>

#include <cstdint>

namespace tandem::chain
{

class LinkRate
{
public:
  // The local TCP acknowledged so many more bytes on some flow. Returns the rate in bytes per second, over about the
  // last tenth of a second with traffic.
  double add(std::uint64_t bytes, Tick now)
  {
    constexpr Duration round = std::chrono::milliseconds { 100 };
    constexpr Duration pause = std::chrono::seconds { 1 };
    const Duration passed = now - begin_;
    if (passed >= pause)
    {
      // Nothing was seen for so long: what came meanwhile, if anything, is not known.
      begin_ = now;
      bytes_ = 0;
      return rate_ = 0;
    }
    bytes_ += bytes;
    if (passed < round) return rate_;
    rate_ = static_cast<double>(bytes_) / seconds(passed);
    begin_ = now;
    bytes_ = 0;
    return rate_;
  }

  // What was fast and then was seen no more, since the queue was taken out of its way, counts for as long as modules
  // look away for that.
  double rate(Tick now) const { return now - begin_ < look_again + std::chrono::seconds { 1 } ? rate_ : 0; }

  // What it goes by, so that a recording can go on with it.
  struct Memory
  {
    Tick begin {};
    std::uint64_t bytes = 0;
    double rate = 0;
  };
  Memory memory() const { return { begin_, bytes_, rate_ }; }
  void recall(const Memory& memory)
  {
    begin_ = memory.begin;
    bytes_ = memory.bytes;
    rate_ = memory.rate;
  }

private:
  Tick begin_ {};
  std::uint64_t bytes_ = 0;
  double rate_ = 0;
};

} // namespace tandem::chain
