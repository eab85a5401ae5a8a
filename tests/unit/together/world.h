// A download with every module switched on: random losses, blackouts, data of this host that nobody sees, a cellular
// link that may filter what leaves by it, and a module that asks for what it likes.
#pragma once

#include "modules/ecn/ecn.h"
#include "modules/freeze/freeze.h"
#include "modules/mirror/mirror.h"
#include "modules/offload/offload.h"
#include "modules/rate/rate.h"
#include "tests/golden/harness/fixture.h"
#include "tests/golden/harness/server.h"

#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::test
{

// Withholds and closes windows at random, as far as the guard allows. It knows what it asked for last.
class Strict final : public FlowModule<int>
{
public:
  explicit Strict(std::uint32_t seed) : random_ { seed } {}

  std::string_view name() const override { return "strict"; }
  std::string_view summary() const override { return "asks for little"; }
  std::string_view manual() const override { return ""; }
  std::span<const Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }
  Interest interest() const override { return { .decide = traffic::egress_pure_ack }; }
  Plan decide(const Event& event, const FlowView& flow, int&) override;
  void describe(const FlowView&, const int&, Facts&) const override {}

  bool active = true;
  std::uint16_t window = 0xffff; // the largest it allows
  std::uint32_t withheld = 0;    // bytes below the highest that the local TCP has acknowledged

private:
  std::mt19937 random_;
};

// What a run saw, to be sure that the interesting states were reached at all.
struct Coverage
{
  std::uint64_t probes = 0, validated = 0, withheld = 0, resumed = 0, closed_ahead = 0, hidden = 0, left_out = 0;
  std::uint64_t ts_lowered = 0, ts_spoiled = 0, strict_bound = 0, filtered_runs = 0, lost_uploads = 0;
  std::uint64_t rate_bound = 0;    // ACKs that left with the window that `rate` bounds
  std::uint64_t ahead_of_own = 0;  // ACKs that advanced the server further than the local TCP's own ACK did
  std::uint64_t on_word = 0;       // times that a flow went by another flow's word
  std::uint64_t away = 0;          // times that the local address was lost
  std::uint64_t bypassed = 0;      // times that the queue was out of the way
  std::uint64_t half_closed = 0;   // runs that went on after a FIN of this host
  std::uint64_t duplicates = 0;    // ACKs that reported one
  std::uint64_t for_firewalls = 0; // ACKs that only what is on the way of the data heeds
};

class World
{
public:
  explicit World(std::uint32_t seed);

  void run(int steps);
  // After everything has settled.
  void finish();

  Coverage coverage {};

private:
  struct Piece
  {
    std::uint32_t left = 0, right = 0;
  };
  struct Upload
  {
    Tick sent {};
    TsClock value {};
    std::uint32_t end = 0;
    bool lost = false;
    Seq ack {}; // all that has arrived, whatever modules make of ACKs
  };

  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_()) % below; }
  void step();
  void event(std::uint32_t what);
  void arrival();
  void repair();
  void acknowledge(std::uint16_t flags = 0, std::uint32_t back = 0);
  void upload();
  void uploads_arrive();
  void change_link(bool up, bool at_risk);
  void change_signal();
  void change_address(bool home);
  void change_queue(bool on);
  void pass(Duration span);
  // Before anything may leave: what holds until then.
  void note();
  // Looks at the injected segments since the last call.
  void check_injected();
  void for_firewalls(const InjectedSegment& ack);
  void check_bound(const Segment& ack, std::uint16_t window);
  void leaves(std::string_view why, Link by, Seq ack, std::uint16_t window, TsClock value,
              std::span<const SackBlock> blocks);
  void compare();
  void half_close();
  void settle();
  Segment data(const Piece& piece);
  std::string tail() const;

  std::mt19937 random_;
  freeze::Freeze freeze_ {};
  mirror::Mirror mirror_ {};
  offload::Offload offload_ {};
  ecn::Ecn ecn_ {};
  rate::RatePolicy rate_ {};
  Strict strict_;
  Fixture fixture_;
  Peers peers_ {};
  Server server_ {};
  DamageLog damage_ {};
  bool filtered_ = false; // nothing that leaves by cellular reaches the server
  bool up_ = true;
  bool queue_ = true;
  bool resumed_ = false;  // and nothing was queued since
  bool home_ = true;      // the Wi-Fi link has the flow's address
  std::uint32_t top_ = 1; // relative, behind what the server has sent
  std::deque<std::pair<Tick, Piece>> holes_ {};
  std::deque<Upload> uploads_ {};
  std::uint32_t server_has_ = 1; // of this host's data, relative
  TsReservation reserved_ {};
  std::uint32_t may_wait_ = 0; // bytes that may have been kept from the server until now
  std::uint32_t own_step_ = 0; // by which the ACK at hand advances the local TCP's own
  Seq own_ack_ {};             // the last one of the local TCP
  // What left, as the server would put it together.
  Seq sent_ack_ {};
  Seq sacked_ {}; // behind the highest block
  TsClock sent_value_ {};
  std::uint16_t sent_window_ = 0;
  std::size_t noted_ = 0;
  std::vector<std::string> log_ {};
};

} // namespace tandem::test
