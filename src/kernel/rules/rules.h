// Which packets are queued: a plan, generated from the enabled modules' interests, and the two ways to tell the kernel.
#pragma once

#include "src/kernel/marks.h"

#include <tandem/module.h>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem::kernel
{

// A plan without traffic bits means: no rule. Chains that are there stay, empty, for their hooks (pause()).
//
// Egress is caught in the mangle place of the output hook: packets leaving by the wifi interface, or, when
// wifi_addresses are given, packets with one of these source addresses that leave by the wifi or the cell interface.
// By no other: what a VPN takes in keeps its source address, and must not be taken out again. Ingress is caught in the
// mangle place of prerouting: packets arriving by the wifi interface for this host.
struct RulePlan
{
  std::uint16_t queue = 84;
  std::uint32_t traffic = 0; // tandem::traffic bits
  Marks marks {};
  std::string wifi {};                        // interface name
  std::string cell {};                        // interface name, may be empty
  std::vector<std::string> wifi_addresses {}; // "192.0.2.1", "2001:db8::1"
  std::vector<std::string> exempt_local {};   // CIDRs never queued, by this host's address
  std::vector<std::string> exempt_remote {};  // CIDRs never queued, by the peer's address
  std::vector<std::uint16_t> exempt_ports {}; // never queued when either port is one of these
  // Users whose packets are not queued on their way out. Arriving ones have no socket yet where rules see them.
  std::vector<std::uint32_t> exempt_users {};
  // A flow of which one packet was accepted with marks.release is not queued any more: the bit is remembered in its
  // conntrack mark. Loads connection tracking.
  bool release_by_connmark = false;
  // Connections that leave by another link have a mark under this mask (placement_rules.h): not queued, for the source
  // address that they have here is not theirs on the wire. 0: there are none.
  std::uint32_t placed_mask = 0;

  bool operator==(const RulePlan&) const = default;
};

// Throws std::invalid_argument naming the field, its value and what is allowed: everything that goes into a rule is
// checked here, so that no name or address can smuggle in another rule.
void validate(const RulePlan& plan);

// The same for one interface name, or one address without a prefix length.
void check_interface(const std::string& field, const std::string& name);
void check_address(const std::string& field, const std::string& text);
// With a prefix length or without.
void check_network(const std::string& field, const std::string& text);
// What they throw.
[[noreturn]] void refuse(const std::string& field, const std::string& value, const std::string& allowed);

void to_json(nlohmann::json& json, const RulePlan& plan);
void from_json(const nlohmann::json& json, RulePlan& plan);

class RuleBackend
{
public:
  virtual ~RuleBackend() = default;
  virtual std::string name() const = 0; // "nftables", "iptables-nft", "iptables-legacy"
  virtual std::string why() const = 0;  // why this one, in a sentence for the user
  // Replaces Tandem's rules as a whole; a plan without traffic bits pauses. Throws std::runtime_error with a sentence;
  // then the rules before are still in place (iptables: of at most one IP version the new ones).
  virtual void apply(const RulePlan& plan) = 0;
  // Whether what was applied last is there: somebody may have flushed the rules of everybody.
  virtual bool in_place() = 0;
  // Whether a RulesetWatch hears when somebody changes rules of this kind.
  virtual bool announced() const = 0;
  // Takes the rules out of force at once, also those a killed run left behind. The hooks stay: the kernel drops every
  // packet that waits in a queue when a hook goes away, whosever it is. Throws std::runtime_error with a sentence.
  virtual void pause() = 0;
  // Removes Tandem's tables and chains, also those a killed run left behind. Harmless when there are none. For the end:
  // pause and let the waiting packets go before.
  virtual void clear() = 0;
};

enum class BackendChoice : std::uint8_t
{
  automatic,
  nftables,
  iptables,
};

// Probes the running kernel, chooses, and takes the rules that a killed run left behind in any back end out of force;
// tables and chains of the chosen one stay until clear(). Throws std::runtime_error with the remedy when neither works.
std::unique_ptr<RuleBackend> choose_backend(BackendChoice wanted = BackendChoice::automatic);

// Would this back end work here? Empty when it would, else the reason. Touches nothing of a running Tandem; the
// iptables probe loads a rule that no packet meets and removes it. `variant` is "nft" or "legacy".
std::string probe_nftables();
std::string probe_iptables(const std::string& variant);

// The text each back end loads: pure, for tests and for showing.
namespace render
{
std::string nftables(const RulePlan& plan, bool owner = true);

// What is in iptables' mangle table of ours: from the output of iptables-save -t mangle.
struct Present
{
  std::vector<std::string> chains; // "TANDEM-OUT"
  std::vector<std::string> jumps;  // "OUTPUT -p tcp -j TANDEM-OUT"
  bool empty() const { return chains.empty() && jumps.empty(); }
};
Present present(const std::string& saved);

// Whether that output holds every rule of the plan for the IP version.
bool holds(const std::string& saved, const RulePlan& plan, bool v6);

// For iptables-restore --noflush: removes what is present and adds the plan, in one transaction.
std::string iptables(const RulePlan& plan, bool v6, const Present& before = {});
} // namespace render

} // namespace tandem::kernel
