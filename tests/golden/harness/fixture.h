// A fixture around the real chain: virtual time, a substitute for the two TCPs that numbers segments as they would,
// and a recorder that writes down what is to be done. Golden traces and the unit tests of chain and modules share it.
#pragma once

#include "src/chain/chain.h"

#include <tandem/module.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::test
{

using namespace tandem::literals;

constexpr Duration ms(double n)
{
  return Duration { static_cast<std::int64_t>(n * 1e6) };
}
constexpr Tick at_ms(double n)
{
  return Tick { ms(n) };
}

FlowKey key_v4(std::uint16_t local_port = 40000);
FlowKey key_v6(std::uint16_t local_port = 40000);

// Wi-Fi and cellular both up, with routes of both families.
LinkStates both_links();

// An injected segment that left.
struct InjectedRecord
{
  Tick at {};
  std::uint64_t flow = 0;
  InjectedSegment segment {};
  std::string why;
  std::uint32_t ip_class = 0;
};

// A fetch that was begun.
struct Asked
{
  Tick at {};
  std::uint64_t flow = 0;
  std::uint8_t slot = 0;
  Fetch fetch {};
  std::string why;
};

// Carries out what a chain wants done by writing it down.
class Recorder final
{
public:
  void carry_out(chain::Chain& chain);

  Tick now {};
  bool fetches = true;         // whether there is a fetch service
  std::size_t bytes_each = 52; // what an injected segment weighs; 0 = sending fails
  std::vector<InjectedRecord> injected {};
  std::vector<std::pair<LinkRequest, std::string>> requests {};
  std::vector<Asked> asked {};
  std::vector<chain::PathFound> paths {};
};

// What the TCP of this host and the server would put into their next segments. Relative numbers begin with the SYN at
// 0, as tcpdump shows them; both timestamp clocks tick in milliseconds.
struct Peers
{
  FlowKey key = key_v4();
  Seq local_isn { 1000 };
  Seq remote_isn { 500'000 };
  TsClock local_clock { 10'000 }; // TSval at time 0
  TsClock remote_clock { 900'000 };
  Duration downlink = ms(10); // age of a TSval of the server when it arrives
  std::uint16_t window = 500;
  std::uint16_t remote_window = 500;
  std::optional<std::uint8_t> local_scale = std::uint8_t { 7 };
  std::optional<std::uint8_t> remote_scale = std::uint8_t { 7 };
  std::uint16_t mss = 1460;
  bool timestamps = true;
  bool sack = true;
  std::uint32_t more_options = 0; // option::* on every segment
  bool mptcp_refused = false;     // only this host's SYN carries an MPTCP option
  // AccECN is agreed, and both counters are here: what the three bits of every segment carry.
  std::optional<std::uint8_t> ace {};

  std::uint32_t next = 1;     // relative: what the host sends next
  std::uint32_t received = 1; // relative: what the host has in order
  TsClock recent {};          // newest TSval of the server that arrived

  TsClock local_ts(Tick now) const;
  TsClock remote_ts(Tick now) const; // on a segment that arrives at `now`

  Segment syn(Tick now) const;
  Segment syn_ack(Tick now) const;
  Segment ack(Tick now) const;                                         // pure ACK of `received`
  Segment data_in(Tick now, std::uint32_t length, TsClock echo) const; // at `received`
  Segment data_out(Tick now, std::uint32_t length) const;              // at `next`
  Segment bare(Direction direction, std::uint16_t flags, Tick now) const;
};

// A chain whose output is carried out after every call.
class CarriedChain final : public chain::Chain
{
public:
  CarriedChain(chain::Chain::Options options, std::vector<Module*> modules, Recorder& recorder)
      : Chain { std::move(options), std::move(modules) }, recorder_ { recorder }
  {
  }

  chain::Outcome segment(const Segment& segment, bool queued, Tick now)
  {
    const chain::Outcome outcome = Chain::segment(segment, queued, now);
    recorder_.carry_out(*this);
    return outcome;
  }
  Tick advance(Tick now)
  {
    const Tick next = Chain::advance(now);
    recorder_.carry_out(*this);
    return next;
  }
  void links(const LinkStates& states, Tick now, const Owner& owner = {})
  {
    Chain::links(states, now, owner);
    recorder_.carry_out(*this);
  }
  void radio(Link link, const std::optional<RadioState>& state, Tick now)
  {
    Chain::radio(link, state, now);
    recorder_.carry_out(*this);
  }
  void fetched(std::uint64_t flow, std::uint8_t slot, const FetchResult& result, std::uint64_t cell_bytes, Tick now)
  {
    Chain::fetched(flow, slot, result, cell_bytes, now);
    recorder_.carry_out(*this);
  }
  void enable(std::size_t i, bool on, Tick now)
  {
    Chain::enable(i, on, now);
    recorder_.carry_out(*this);
  }

private:
  Recorder& recorder_;
};

// Runs a chain with its modules switched on, one flow or several, in virtual time.
class Fixture
{
public:
  explicit Fixture(std::vector<Module*> modules, chain::Chain::Options options = {});

  // Fires alarms and delayed injected segments at their very times up to `until`, and stays there.
  void run(Tick until);
  void run_for(Duration span) { run(now() + span); }
  Tick now() const { return actions.now; }

  // Shows the chain a segment at now() as the daemon would (tandem/admission.h): queued, as a copy, or not at all
  // (nullopt).
  std::optional<chain::Outcome> show(const Segment& segment);

  // Three-way handshake, one millisecond apart, the SYN at now().
  void open(Peers& peers);
  // Ingress data and the ACK for it `count` times, `every` apart; echoes are one RTT old. Returns the number of ACKs
  // that were not passed byte for byte.
  int download(Peers& peers, int count, Duration every, Duration rtt, std::uint32_t length = 2896);
  chain::Outcome ack(const Peers& peers) { return show(peers.ack(now())).value_or(chain::Outcome {}); }
  void data(Peers& peers, std::uint32_t length, TsClock echo);

  flow::Flow& flow(const Peers& peers) { return *chain.table().find(peers.key); }
  const FlowView& view(const Peers& peers) { return flow(peers).view; }
  std::uint64_t violations() const;                // of all modules
  std::uint64_t count(std::string_view why) const; // how often any module gave this reason

  Recorder actions {};
  CarriedChain chain;
  LinkStates links = both_links();
  bool see_everything = false; // queue every egress segment and copy every ingress one, whatever the modules want
};

} // namespace tandem::test
