// Where a sender's traffic is wanted, told to the kernel: shares of CE marks by interface, and MPTCP endpoints with
// their backup flags. A plan says how all of it shall be; the keeper process makes it so and takes it back.
//
// The kernel closes the subflows of an endpoint that it removes. Tandem removes none by which a connection has its only
// sound subflow, on order or at its end: such an endpoint stays, noted in the file, and goes at a later plan or start.
// A connection's first subflow is closed by half only; Tandem ends it with a reset (mptcp_steps.h says why).
//
// Coexistence: what Tandem did not create stays as it is. With SteeringPlan::foreign the backup flag of such an
// endpoint may change; it is put back at the end, unless somebody else changed it meanwhile. Limits are only raised,
// and put back unless somebody else changed them meanwhile.
#pragma once

#include "src/kernel/rules/ce_rules.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::kernel
{

constexpr std::size_t most_steered = 16;       // interfaces in one plan
constexpr std::size_t most_path_addresses = 8; // of one interface; the kernel's path manager holds 8 endpoints in all

// One link's addresses as MPTCP's path manager shall treat them.
struct SteeringPath
{
  std::string interface {
  };
  std::vector<std::string> addresses {}; // "192.0.2.1", "2001:db8::1"; no prefix length
  // With SteeringPlan::setup: there is to be an endpoint (`subflow`) for each address. False removes Tandem's own, for
  // which the kernel sends REMOVE_ADDR and closes their subflows; those of others stay.
  bool endpoint = false;
  // True: the endpoints of these addresses are backup ones, which the kernel tells for existing subflows by MP_PRIO.
  // False: as they were found.
  bool backup = false;
  // They are to be backup ones also when nobody decides any more: the settings say so, no module.
  bool backup_stays = false;
  // Others that the link still has, from which nothing is to begin any more (RFC 4862, 5.5.4): no endpoint is made for
  // them, and one of Tandem's stays for as long as subflows leave from it and there is room.
  std::vector<std::string> deprecated {};

  bool operator==(const SteeringPath&) const = default;
};

struct SteeringPlan
{
  std::vector<CeRule> ce {};          // rate 0 or not named: no rule
  std::vector<SteeringPath> paths {}; // an own endpoint of an address that no path names is removed
  bool setup = false;                 // may create endpoints and raise limits; else only flags of those that are there
  bool foreign = false;               // may change the backup flag of endpoints that Tandem did not create

  bool operator==(const SteeringPlan&) const = default;
};

// Throws std::invalid_argument naming the field, its value and what is allowed.
void validate(const SteeringPlan& plan);

// An endpoint of the kernel's path manager.
struct MptcpEndpoint
{
  std::string address {};
  std::uint16_t port = 0;
  std::uint8_t id = 0;
  int ifindex = 0;         // 0: of no interface
  std::uint32_t flags = 0; // MPTCP_PM_ADDR_FLAG_*
  bool own = false;        // Tandem created it
  std::string interface {
  }; // name of ifindex; empty: none, or gone

  bool subflow() const { return (flags & 2) != 0; }
  bool backup() const { return (flags & 4) != 0; }
  // Made by the kernel itself for a subflow's address that had no endpoint.
  bool implicit() const { return (flags & 16) != 0; }

  bool operator==(const MptcpEndpoint&) const = default;
};

// What of the plan is not carried out, and why, in a sentence.
struct RefusedRequest
{
  std::string what {}; // "backup of 192.0.2.1", "CE marks on wlan0"
  std::string why {};

  bool operator==(const RefusedRequest&) const = default;
};

struct SteeringState
{
  // How CE marks are set: "nftables", "iptables-nft", "iptables-legacy"; empty: not here, and ce_why says why. Empty
  // without a reason before the first plan.
  std::string ce_backend {};
  std::string ce_why {};
  std::vector<CeRule> ce {}; // in force now, without those of rate 0
  // Empty: the kernel's path manager does what it is told. Else why not: no MPTCP in this kernel, off, path manager in
  // user space. Read anew at every plan.
  std::string mptcp_why {};
  std::vector<MptcpEndpoint> endpoints {}; // own and others', as of the last plan
  std::uint32_t limit_subflows = 0;        // of the kernel: further subflows of a connection
  std::uint32_t limit_add_addr = 0;        // addresses taken from the peer
  std::vector<RefusedRequest> refused {};
  std::string recovered {};  // what the start undid of a killed run, or why it could not; a sentence, or empty
  std::string last_error {}; // empty when the last plan was carried out, but for `refused`
  bool suspended = false;    // the packet loop hangs: marks and backup flags are taken back
  std::uint64_t plans = 0;   // carried out
  std::uint64_t ce_changes = 0;
  std::uint64_t flag_changes = 0; // of backup flags
  std::uint64_t endpoints_added = 0;
  std::uint64_t endpoints_deleted = 0;

  bool operator==(const SteeringState&) const = default;
};

void to_json(nlohmann::json& json, const SteeringPlan& plan);
void from_json(const nlohmann::json& json, SteeringPlan& plan);
void to_json(nlohmann::json& json, const SteeringState& state);
void from_json(const nlohmann::json& json, SteeringState& state);

} // namespace tandem::kernel
