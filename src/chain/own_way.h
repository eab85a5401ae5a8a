// What a stateful firewall or NAT on the way of a flow's data must know of ACKs that leave by another link. Such a one
// lets data pass as far as the ACKs that it has seen allow: up to the highest number and window (Linux:
// tcp_in_window() of nf_conntrack_proto_tcp.c, pf: pf_test_state(); RFC 9293 3.10.7.4 has the windows). What lies
// beyond is dropped, or answered with an RST, which ends the download (docs/decisions/0042). Pure.
#pragma once

#include <tandem/flow.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tandem::chain
{

class OwnWay
{
public:
  // It is not known what has left.
  OwnWay() = default;
  // So far all ACKs have left by the flow's own link. `edge`: number and window of the last one.
  explicit OwnWay(Seq edge) : begun_(true), told_(edge), sure_(edge) {}

  // One has left by the flow's own link again.
  void opened(Seq edge);
  // What the server was told last, before the ACK at hand leaves, by whichever link: ACKs with a younger TSval
  // acknowledge no less.
  void left(TsClock value, Seq ack, Tick now, Duration rtt);
  // The server has echoed this TSval: the newest number that it is known to have. Nothing: no newer one than before.
  std::optional<Seq> known_by(TsClock echo);
  // Whether an ACK with that edge, of such a window, has to leave by the flow's own link now: some may be lost there.
  bool due(Seq edge, std::uint32_t window, const FlowView& flow) const;

private:
  struct Said
  {
    TsClock value {};
    Seq ack {};
  };
  static constexpr std::size_t most = 8; // in a round trip, and a few more until the first is echoed

  bool begun_ = false; // the edges mean something
  Seq told_ {};        // the highest edge that left by the flow's own link
  Seq sure_ {};        // and the one before
  Tick said_at_ {};
  std::array<Said, most> said_ {}; // the oldest first
  std::uint8_t count_ = 0;
};

} // namespace tandem::chain
