// The second way out: packets with the by-cell mark leave by the cell interface, whatever their source address. Where
// that interface is a tunnel, what it packs them into leaves by the interface below it.
#pragma once

#include "src/kernel/marks.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace tandem::kernel
{

struct RoutePlan
{
  std::string cell {}; // interface name; empty: no rule, no route
  MarkBits mark = Marks {}.by_cell;
  std::uint32_t table = 8484;
  std::uint32_t priority = 8484; // of the ip rule; before main (32766)
  bool announce = true;          // packets leave with the address of another interface: see ArpAnnounce
  // `cell` is a tunnel whose own packets bear this mark and are to leave by `lower`; the rule has the priority before
  // the one above. Empty: it is none.
  std::string lower {};
  MarkBits lower_mark {};
  static constexpr std::uint32_t lower_table = 8483;

  bool operator==(const RoutePlan&) const = default;
};

void to_json(nlohmann::json& json, const RoutePlan& plan);
void from_json(const nlohmann::json& json, RoutePlan& plan);

// What the table holds now.
struct RouteState
{
  bool v4 = false; // a default route for IPv4 is in place
  bool v6 = false;
  std::string gateway_v4 {}; // empty: on-link
  std::string gateway_v6 {};
  bool lower = false; // the table of the tunnel's own packets holds a default route of either version
};

// ip rule `fwmark VALUE/MASK lookup TABLE` for both IP versions, and in TABLE one default route by the cell interface:
// with the gateway of the main table's default route by that interface, or on-link when that route has none or the
// interface is point-to-point. Without a usable cell interface the table is empty and marked packets fall through to
// the main table, that is, to Wi-Fi. Everything carries protocol number 84, so that a later run recognises what a
// killed one left behind. What a tunnel packs its packets into has such a rule and table of its own; while that table
// is empty, so is the tunnel's.
class PolicyRoute
{
public:
  // Removes what earlier runs left, then applies. `note`: see ArpAnnounce. Throws std::runtime_error with a sentence.
  explicit PolicyRoute(const RoutePlan& plan, std::string note = {});
  ~PolicyRoute(); // undoes
  PolicyRoute(const PolicyRoute&) = delete;
  PolicyRoute& operator=(const PolicyRoute&) = delete;

  // Readable when links, addresses or routes changed: call refresh().
  int fd() const;
  // Reads the main table again and follows it. True when something changed. Throws std::runtime_error with a sentence
  // when it cannot be read; then state() is as before, and it is to be called again.
  bool refresh();
  // Whether the ip rule of each IP version is there: a service may remove what it has not made. Reads them; false also
  // when they cannot be read, which put_rules_back() says.
  bool has_rules() const;
  // Puts back those that are missing; true when there was one. Throws std::runtime_error with a sentence.
  bool put_rules_back();
  const RouteState& state() const;
  // Rule and routes stay when this object goes: clear() takes them away.
  void leave() noexcept;

  // Removes rules and routes with Tandem's protocol number, this table and this priority. Never throws.
  static void clear(std::uint32_t table, std::uint32_t priority) noexcept;
  // What a run with this plan may have left behind, whether its interface was a tunnel or not.
  static void clear_with_lower(const RoutePlan& plan) noexcept;

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace tandem::kernel
