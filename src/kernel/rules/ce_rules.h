// CE marks set by rules of the kernel: no queue, no packet in user space.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem::kernel
{

// Of the TCP packets that arrive by `interface` for this host, carry an MPTCP option and are ECT(0), this share gets
// CE. Resolution 1e-6. The share is of packets on the air: one that the kernel merged of n packets of 1500 bytes (GRO)
// is marked with 1 - (1 - rate)^n, so that a sender sees the beginnings of congestion as often as without merging.
// ECT(1) is not marked: its senders answer in proportion (RFC 9331), this share is made for those of RFC 3168.
struct CeRule
{
  std::string interface {
  };
  double rate = 0; // 0..1

  bool operator==(const CeRule&) const = default;
};

// A table of its own, so that a new rate never touches the chains of the queue.
class CeMarker
{
public:
  // Finds out what works here, and takes what a killed run left out of force. Never throws; see why().
  CeMarker();
  ~CeMarker(); // no mark any more
  CeMarker(const CeMarker&) = delete;
  CeMarker& operator=(const CeMarker&) = delete;

  const std::string& backend() const; // "nftables"; empty: no way here
  const std::string& why() const;     // why this one, or why none

  // Replaces the rules as a whole in one transaction. Empty when it worked; else the reason, and the rules before are
  // in force. The rules must have passed validate().
  std::string apply(const std::vector<CeRule>& rules);

  // Whether packets may wait in a netfilter queue, of any program. Meanwhile the table stays without rules where it
  // would go (render::nft_end_of()).
  void keep_hook(bool keep) noexcept;

  // Whether a killed run left its table.
  static bool is_left() noexcept;

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

// What nft loads. Rules of rate 0 are left out; without any the table goes, or is empty if its hook is to be kept.
std::string ce_nftables(const std::vector<CeRule>& rules, bool owner = true, bool keep_hook = false);

} // namespace render

} // namespace tandem::kernel
