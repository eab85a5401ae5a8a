#include "src/association/rests.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tandem::association
{
namespace
{

using namespace std::chrono_literals;

constexpr Duration first_rest = 30s, longest_rest = 480s;
constexpr std::size_t most_remembered = 256;

} // namespace

void Rests::begin(const Mac& ap, Tick now, std::string why)
{
  if (rests_.size() >= most_remembered)
    std::erase_if(rests_, [now](const auto& one) { return one.second.until < now; });
  Rest& its = rests_[ap];
  // It has been good for longer than it last rested: what was before does not count.
  if (its.next == Duration {} || now - its.until > its.next) its.next = first_rest;
  its.until = now + its.next;
  its.next = std::min(2 * its.next, longest_rest);
  its.why = std::move(why);
}

const Rests::Rest* Rests::of(const Mac& ap, Tick now) const
{
  const auto its = rests_.find(ap);
  return its != rests_.end() && now < its->second.until ? &its->second : nullptr;
}

} // namespace tandem::association
