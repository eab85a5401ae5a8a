// Orders to the keeper by number, and what became of them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tandem::kernel
{

class Tickets
{
public:
  struct Outcome
  {
    std::uint64_t ticket = 0;
    std::string failure {};
  };

  // For an order that leaves now.
  std::uint64_t next() { return ++last_; }
  // For rules: how that ends is kept, until it is taken.
  std::uint64_t next_apply()
  {
    outcome_.reset();
    return apply_ = next();
  }
  // Done, or failed. One that could not be sent is settled before those that left earlier.
  void settle(std::uint64_t ticket, const std::string& failure)
  {
    if (ticket == apply_) outcome_ = Outcome { ticket, failure };
    if (ticket <= settled_) return;
    settled_ = ticket;
    failure_ = failure;
  }
  bool settled(std::uint64_t ticket) const { return ticket <= settled_; }
  const std::string& failure() const { return failure_; } // of the latest that is settled
  std::optional<Outcome> take_outcome() { return std::exchange(outcome_, std::nullopt); }

private:
  std::uint64_t last_ = 0, settled_ = 0, apply_ = 0;
  std::string failure_ {};
  std::optional<Outcome> outcome_ {};
};

} // namespace tandem::kernel
