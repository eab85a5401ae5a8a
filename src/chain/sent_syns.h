// SYNs of this host as they left, until they are forgotten: what a flow cannot be asked for any more.
#pragma once

#include <tandem/segment.h>
#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem::chain
{

// The last ones only: a blackout in which more connections begin loses the oldest. Fixed in size, whatever is sent.
class SentSyns
{
public:
  static constexpr std::size_t most = 64;
  // IPv6 and a whole TCP header. A SYN with data (RFC 7413) is longer and is not kept.
  static constexpr std::size_t longest = 100;
  static constexpr Duration kept_for = std::chrono::seconds { 130 }; // tcp_syn_retries of Linux ends sooner

  void note(const Segment& syn, Tick now);

  struct Syn
  {
    std::span<const std::byte> packet {}; // until the next note()
    Tick sent {};
    std::optional<Timestamps> timestamps {};
  };
  // The newest one of the flow.
  std::optional<Syn> find(const FlowKey& flow, Tick now) const;

private:
  struct Kept
  {
    FlowKey flow {};
    Tick sent {};
    std::optional<Timestamps> timestamps {};
    std::uint8_t length = 0; // 0: empty
    std::array<std::byte, longest> packet {};
  };
  std::array<Kept, most> kept_ {};
  std::size_t next_ = 0;
};

} // namespace tandem::chain
