// New TCP connections of this host given to its links in turns, and kept there: by rules, connection tracking and the
// kernel's own NAT. No queue, no packet in user space.
//
// A new connection is one whose SYN would leave by the home link, from an address of it. Its link is chosen once and
// kept in the connection's conntrack mark; nothing moves it afterwards. Two tables, because they end differently:
// `tandem_place` chooses, and goes with the keeper's socket; `tandem_placed` keeps the way and the source address of
// what was chosen before, and stays, with its routes, as long as such a connection lives.
#pragma once

#include "src/kernel/marks.h"
#include "src/kernel/rules/policy_route.h"

#include <tandem/units.h>

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tandem::kernel
{

// Another link than home. Its connections bear `value` under PlacementPlan::mask, in the mask's own bits.
struct PlacementLink
{
  std::uint32_t value = 0; // 2 ..
  std::string interface {
  };
  std::uint32_t mtu = 0; // smaller than home's: connections begin with a segment size that fits; 0: as home's

  bool operator==(const PlacementLink&) const = default;
};

constexpr std::uint32_t placed_at_home = 1; // the value of the home link, and of what is not to be placed
constexpr std::size_t most_placement_turns = 64;
// Of the ip rule of the link with the value n: this + n. Before the rules of others: where the connection would leave
// without Tandem is known when its link is chosen.
constexpr std::uint32_t placement_priority = 84;

struct PlacementPlan
{
  // New connections are placed. False: none, but those that live keep their way.
  bool choose = false;
  // With choose = false: those that live are let go at once, by the way that this host's own packets take.
  bool let_go = false;
  MarkBits mark { 0, 0x0f00'0000 }; // of packets and connections; the value is not used
  std::uint32_t table = 8484;       // routes of the link with the value n are in this + n
  std::string home {};              // interface by which connections would leave
  std::vector<std::string> home_addresses {};
  std::vector<PlacementLink> links {}; // all that may carry such connections, whether they get new ones or not
  // Values of links, in the order in which they get new connections. Empty: none of this IP version is placed.
  std::vector<std::uint32_t> turns_v4 {}, turns_v6 {};
  // Where connections to short_ports go; 0: in turns like all.
  std::uint32_t short_v4 = 0, short_v6 = 0;
  std::vector<std::uint16_t> short_ports {};
  // Connections to one network of these prefixes stay at one link for `site_memory` after the last of them began; but
  // not those to spread_to and spread_ports. False: each connection by itself.
  bool by_site = true;
  std::vector<std::string> spread_to {};
  std::vector<std::uint16_t> spread_ports {};
  // Left alone.
  std::vector<std::string> never_to {};
  std::vector<std::uint16_t> never_ports {};
  std::vector<std::uint32_t> never_users {};

  // The lowest bit of the mask is worth 1.
  std::uint32_t on_wire(std::uint32_t value) const;

  bool operator==(const PlacementPlan&) const = default;
};

// A site's servers have neighbouring addresses, and who signs in at one is not to be seen from elsewhere at the next.
constexpr unsigned site_prefix_v4 = 24, site_prefix_v6 = 48;

// Throws std::invalid_argument naming the field, its value and what is allowed.
void validate(const PlacementPlan& plan);

// Counted since the keeper began.
struct PlacedCount
{
  std::uint64_t connections = 0;             // begun by this link by a choice of the rules
  std::uint64_t answered = 0;                // of other links than home: SYN-ACKs
  std::uint64_t bytes_in = 0, bytes_out = 0; // likewise, with headers
  std::uint64_t alive = 0;                   // connections now
  std::uint64_t rtt_us = 0; // shortest smoothed round trip of those that received something lately; 0: not known

  bool operator==(const PlacedCount&) const = default;
};

struct PlacementState
{
  bool in_force = false;                         // connections are placed
  std::string why {};                            // why not; empty: nobody wants it
  bool kept = false;                             // rules for those placed before are there
  std::map<std::uint32_t, PlacedCount> count {}; // by value
  std::string last_error {};

  bool operator==(const PlacementState&) const = default;
};

void to_json(nlohmann::json& json, const PlacementPlan& plan);
void from_json(const nlohmann::json& json, PlacementPlan& plan);
void to_json(nlohmann::json& json, const PlacementState& state);
void from_json(const nlohmann::json& json, PlacementState& state);

// Why this machine cannot place connections; empty: it can. Nothing is changed. Never throws.
std::string probe_placement();

// In the keeper process.
class Placer
{
public:
  // `file`: notes what the next start has to take away or keep. Takes over what an earlier run left; never throws.
  explicit Placer(const std::string& file);
  ~Placer(); // nothing is placed any more; what living connections need stays, and is noted
  Placer(const Placer&) = delete;
  Placer& operator=(const Placer&) = delete;

  // Throws std::invalid_argument for a plan that does not pass validate(); every other failure is in state().
  void carry_out(const PlacementPlan& plan);
  // Readable when links, addresses or routes changed: call refresh().
  std::vector<int> fds() const;
  void refresh();
  // Somebody has changed rules of nftables: whether those that living connections need are there is looked at soon.
  void rules_changed();
  // Whether packets may wait in a netfilter queue, of any program. Meanwhile tables stay without rules where they would
  // go, as those of CE marks do (CeMarker::keep_hook()), and what an earlier run left stays so until the first `false`.
  // True at first.
  void packets_wait(bool wait) noexcept;
  // Counts, and takes away what no connection needs any more. True when state() changed. Call it at next().
  bool look(Tick now);
  Tick next() const; // Tick::max(): nothing to look at

  const PlacementState& state() const;

  // For the daemon whose keeper was killed: what the next start would do.
  static void clear(const std::string& file) noexcept;

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

namespace render
{

// What nft loads. `owner`: the table goes with the socket that loaded it.
std::string place_nftables(const PlacementPlan& plan, bool owner = true);
std::string placed_nftables(const PlacementPlan& plan);

// From the answer of `list counters table ..`.
struct NftCounter
{
  std::uint64_t packets = 0, bytes = 0;
};
std::map<std::string, NftCounter> nft_counters(const std::string& listed);

} // namespace render

} // namespace tandem::kernel
