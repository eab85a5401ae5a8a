// What a user wants left alone: destinations, users, services, Wi-Fi networks. Pure; who owns a connection and which
// addresses a name has is told from outside.
#pragma once

#include "src/links/network.h"

#include <tandem/segment.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tandem::daemon
{

struct Exclusion
{
  enum class Kind : std::uint8_t
  {
    to,      // a network, an address or a host name of the peer
    user,    // the user that owns the socket: a name or a number
    service, // one component of the path of the socket's cgroup (v2): a systemd unit, scope or slice; * and ? match
    ssid,    // a Wi-Fi network: everything while this host is in it
  };

  Kind kind = Kind::to;
  std::string what; // as parse_exclusion() made it: equal ones are equal texts

  std::string text() const; // "to 203.0.113.0/24"
  auto operator<=>(const Exclusion&) const = default;
};

constexpr std::size_t most_exclusions = 256; // in the configuration, and again of those that are saved

// Networks that rules are told of at most. IPv6 prefixes have 46 bytes in JSON: with so many, and the longest lists of
// ports and users, a plan of rules still fits into a message to the keeper (keeper_message_limit).
constexpr std::size_t most_networks_in_rules = 1000;

std::string_view name(Exclusion::Kind kind);
std::optional<Exclusion::Kind> exclusion_kind(std::string_view name);
// What is needed of each kind, for a user: "a user's name or number is needed".
std::string_view needed(Exclusion::Kind kind);

// Nothing when `what` is none of the kind; needed() says what is.
std::optional<Exclusion> parse_exclusion(Exclusion::Kind kind, std::string_view what);

// What names stand for.
struct ResolvedNames
{
  std::map<std::string, std::vector<Address>> hosts {};
  std::map<std::string, std::uint32_t> users {}; // those that there are
};

// The exclusions that are in force, ready to be asked for each flow.
class Exclusions
{
public:
  static constexpr std::size_t most_addresses = 32; // of one host name

  Exclusions() = default;
  explicit Exclusions(const std::vector<Exclusion>& all);

  bool empty() const { return all_.empty(); }
  const std::vector<Exclusion>& all() const { return all_; }
  std::vector<std::string> host_names() const;
  std::vector<std::string> user_names() const;

  // Takes over what was found. Addresses that a name had before count on while there is room: those who balance load by
  // DNS answer every question differently. True when anything is new.
  bool resolved(const ResolvedNames& found);
  // From the same exclusions before a change.
  void inherit(const Exclusions& before);

  // By whom the flow is excluded; null: by nobody.
  const Exclusion* of_peer(const Address& peer) const;
  const Exclusion* of_user(std::uint32_t user) const;
  const Exclusion* of_cgroup(std::string_view path) const;
  const Exclusion* of_ssid(std::string_view ssid) const;

  // Whether the owner of a flow's socket has to be known.
  bool asks_user() const { return !users_.empty(); }
  bool asks_cgroup() const { return !services_.empty(); }
  bool asks_ssid() const;

  // For rules.
  std::vector<links::Network> networks() const;
  std::size_t network_count() const;
  std::vector<std::uint32_t> users() const;
  // Why it excludes nothing now; empty: it may.
  std::string problem(const Exclusion& one) const;

private:
  std::vector<Exclusion> all_ {}; // the maps below point into it by index
  std::map<std::size_t, std::vector<links::Network>> networks_ {};
  std::map<std::size_t, std::uint32_t> users_ {};
  std::vector<std::size_t> services_ {};
  bool looked_up_ = false;
};

} // namespace tandem::daemon
