// CE marks set by rules of the kernel: no queue, no packet in user space.
#pragma once

#include "src/kernel/steering.h"

#include <memory>
#include <string>
#include <vector>

namespace tandem::kernel
{

// A table of its own, so that a new rate never touches the chains of the queue, where the kernel would drop what waits.
class CeMarker
{
public:
  // Finds out what works here. Never throws; see why().
  CeMarker();
  ~CeMarker(); // no mark any more
  CeMarker(const CeMarker&) = delete;
  CeMarker& operator=(const CeMarker&) = delete;

  const std::string& backend() const; // "nftables"; empty: no way here
  const std::string& why() const;     // why this one, or why none

  // Replaces the rules as a whole in one transaction. Empty when it worked; else the reason, and the rules before are
  // in force. The rules must have passed validate().
  std::string apply(const std::vector<CeRule>& rules);

  // Removes what a killed run left. Harmless when there is nothing.
  static void clear() noexcept;

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Would marks work here? Empty when they would, else the reason. Changes nothing.
std::string probe_ce();

namespace render
{

// How often a packet of the length class is marked so that each of its packets on the air is, with the probability
// `rate`: in millionths.
std::uint32_t ce_millionths(double rate, double packets);

// What nft loads. Rules of rate 0 are left out; without any the table goes.
std::string ce_nftables(const std::vector<CeRule>& rules, bool owner = true);

} // namespace render

} // namespace tandem::kernel
