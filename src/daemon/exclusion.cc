#include "src/daemon/exclusion.h"

#include "src/daemon/network_text.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <utility>

namespace tandem::daemon
{

using links::Network;

namespace
{

struct Word
{
  Exclusion::Kind kind;
  std::string_view name;
  std::string_view needed;
};

constexpr std::array words {
  Word { Exclusion::Kind::to, "to",
         "a network such as 203.0.113.0/24, an address, or a host name such as updates.example.org is needed" },
  Word { Exclusion::Kind::user, "user", "a user's name or number is needed" },
  Word { Exclusion::Kind::service, "service",
         "a systemd unit, scope or slice such as backup.service is needed, * for any characters" },
  Word { Exclusion::Kind::ssid, "ssid", "the name of a Wi-Fi network, 1 to 32 bytes, is needed" },
};

const Word& word(Exclusion::Kind kind)
{
  return *std::find_if(words.begin(), words.end(), [&](const Word& one) { return one.kind == kind; });
}

bool all_of(std::string_view text, bool (*fine)(unsigned char))
{
  return std::all_of(text.begin(), text.end(), fine);
}

// RFC 1123 2.1, in lower case and without the root's dot. Empty: none.
std::string host_name(std::string_view text)
{
  if (text.ends_with('.')) text.remove_suffix(1);
  if (text.empty() || text.size() > 253) return {};
  std::string name { text };
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::size_t start = 0;
  std::string_view last {};
  while (start <= name.size())
  {
    const std::size_t dot = std::min(name.find('.', start), name.size());
    last = std::string_view { name }.substr(start, dot - start);
    if (last.empty() || last.size() > 63 || last.front() == '-' || last.back() == '-'
        || !all_of(last, [](unsigned char c) { return c < 0x80 && (std::isalnum(c) || c == '-' || c == '_'); }))
      return {};
    start = dot + 1;
  }
  // What ends in a number is an address with a mistake.
  return all_of(last, [](unsigned char c) { return std::isdigit(c) != 0; }) ? std::string {} : name;
}

std::optional<std::uint32_t> user_number(std::string_view text)
{
  std::uint32_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  // The largest one means nobody (chown(2)).
  if (fault != std::errc {} || end != text.data() + text.size() || number == UINT32_MAX) return {};
  return number;
}

std::optional<std::string> canonical(Exclusion::Kind kind, std::string_view what)
{
  const auto when = [&](bool fine) { return fine ? std::optional<std::string> { what } : std::nullopt; };
  switch (kind)
  {
  case Exclusion::Kind::to:
  {
    if (const auto network = as_network(what)) return network_text(*network);
    std::string host = host_name(what);
    return host.empty() ? std::nullopt : std::optional { std::move(host) };
  }
  case Exclusion::Kind::user:
    if (const auto number = user_number(what)) return std::to_string(*number);
    // useradd(8), with the dots, the @ and the letters in upper case of directories.
    return when(!what.empty() && what.size() <= 64 && !std::isdigit(static_cast<unsigned char>(what.front()))
                && what.front() != '-'
                && all_of(what,
                          [](unsigned char c)
                          {
                            return c < 0x80
                                   && (std::isalnum(c)
                                       || std::string_view { "_.-@$\\" }.find(static_cast<char>(c))
                                              != std::string_view::npos);
                          }));
  case Exclusion::Kind::service:
    return when(!what.empty() && what.size() <= 255 && what != "." && what != ".."
                && what.find_first_not_of('*') != std::string_view::npos
                && all_of(what, [](unsigned char c) { return c > 0x20 && c < 0x7f && c != '/'; }));
  case Exclusion::Kind::ssid:
    return when(!what.empty() && what.size() <= 32 && what.find('\0') == std::string_view::npos);
  }
  return {};
}

} // namespace

std::string Exclusion::text() const
{
  return std::string { name(kind) } + " " + what;
}

std::string_view name(Exclusion::Kind kind)
{
  return word(kind).name;
}

std::optional<Exclusion::Kind> exclusion_kind(std::string_view name)
{
  for (const Word& one : words)
    if (one.name == name) return one.kind;
  return {};
}

std::string_view needed(Exclusion::Kind kind)
{
  return word(kind).needed;
}

std::optional<Exclusion> parse_exclusion(Exclusion::Kind kind, std::string_view what)
{
  auto text = canonical(kind, what);
  if (!text) return {};
  return Exclusion { kind, std::move(*text) };
}

Exclusions::Exclusions(const std::vector<Exclusion>& all)
{
  std::set<Exclusion> once { all.begin(), all.end() };
  all_.assign(once.begin(), once.end());
  for (std::size_t i = 0; i < all_.size(); ++i)
  {
    const Exclusion& one = all_[i];
    if (one.kind == Exclusion::Kind::service) services_.push_back(i);
    if (one.kind == Exclusion::Kind::user)
      if (const auto number = user_number(one.what)) users_[i] = *number;
    if (one.kind == Exclusion::Kind::to)
      if (const auto network = as_network(one.what)) networks_[i] = { *network };
  }
}

std::vector<std::string> Exclusions::host_names() const
{
  std::vector<std::string> names {};
  for (const Exclusion& one : all_)
    if (one.kind == Exclusion::Kind::to && !as_network(one.what)) names.push_back(one.what);
  return names;
}

std::vector<std::string> Exclusions::user_names() const
{
  std::vector<std::string> names {};
  for (const Exclusion& one : all_)
    if (one.kind == Exclusion::Kind::user && !user_number(one.what)) names.push_back(one.what);
  return names;
}

bool Exclusions::resolved(const ResolvedNames& found)
{
  bool anew = !std::exchange(looked_up_, true);
  for (std::size_t i = 0; i < all_.size(); ++i)
  {
    const Exclusion& one = all_[i];
    if (one.kind == Exclusion::Kind::user)
      if (const auto user = found.users.find(one.what); user != found.users.end())
      {
        const auto [known, fresh] = users_.try_emplace(i, user->second);
        anew = fresh || std::exchange(known->second, user->second) != user->second || anew;
      }
    if (one.kind != Exclusion::Kind::to) continue;
    const auto host = found.hosts.find(one.what);
    if (host == found.hosts.end()) continue;
    std::vector<Network>& known = networks_[i];
    for (const Address& address : host->second)
    {
      const Network network { address, address.v6 ? 128u : 32u };
      if (std::find(known.begin(), known.end(), network) != known.end()) continue;
      if (known.size() == most_addresses) known.erase(known.begin());
      known.push_back(network);
      anew = true;
    }
  }
  return anew;
}

void Exclusions::inherit(const Exclusions& before)
{
  ResolvedNames known {};
  for (const auto& [i, networks] : before.networks_)
    for (const Network& network : networks)
      known.hosts[before.all_[i].what].push_back(network.address);
  for (const auto& [i, user] : before.users_)
    known.users[before.all_[i].what] = user;
  for (const std::string& host : host_names())
    if (!known.hosts.contains(host)) known.hosts[host] = {};
  std::erase_if(known.hosts, [](const auto& one) { return as_network(one.first).has_value(); });
  static_cast<void>(resolved(known));
  looked_up_ = before.looked_up_ && before.all_ == all_;
}

const Exclusion* Exclusions::of_peer(const Address& peer) const
{
  for (const auto& [i, networks] : networks_)
    for (const Network& network : networks)
      if (network.contains(peer)) return &all_[i];
  return nullptr;
}

const Exclusion* Exclusions::of_user(std::uint32_t user) const
{
  const auto found = std::find_if(users_.begin(), users_.end(), [&](const auto& one) { return one.second == user; });
  return found == users_.end() ? nullptr : &all_[found->first];
}

const Exclusion* Exclusions::of_cgroup(std::string_view path) const
{
  for (std::size_t start = 0; start < path.size();)
  {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    const std::string part { path.substr(start, slash - start) };
    start = slash + 1;
    if (part.empty()) continue;
    for (const std::size_t i : services_)
      if (::fnmatch(all_[i].what.c_str(), part.c_str(), FNM_NOESCAPE) == 0) return &all_[i];
  }
  return nullptr;
}

const Exclusion* Exclusions::of_ssid(std::string_view ssid) const
{
  const auto found =
      std::find_if(all_.begin(), all_.end(),
                   [&](const Exclusion& one) { return one.kind == Exclusion::Kind::ssid && one.what == ssid; });
  return found == all_.end() ? nullptr : &*found;
}

bool Exclusions::asks_ssid() const
{
  return std::any_of(all_.begin(), all_.end(), [](const Exclusion& one) { return one.kind == Exclusion::Kind::ssid; });
}

std::vector<Network> Exclusions::networks() const
{
  std::vector<Network> all {};
  for (const auto& [i, networks] : networks_)
    all.insert(all.end(), networks.begin(), networks.end());
  return all;
}

std::size_t Exclusions::network_count() const
{
  std::size_t count = 0;
  for (const auto& [i, networks] : networks_)
    count += networks.size();
  return count;
}

std::vector<std::uint32_t> Exclusions::users() const
{
  std::set<std::uint32_t> all {}; // one may be there by name and by number
  for (const auto& [i, user] : users_)
    all.insert(user);
  return { all.begin(), all.end() };
}

std::string Exclusions::problem(const Exclusion& one) const
{
  const auto found = std::find(all_.begin(), all_.end(), one);
  if (found == all_.end()) return "not in force yet";
  const auto at = static_cast<std::size_t>(found - all_.begin());
  const std::string waits = looked_up_ ? "" : "is being looked up";
  if (one.kind == Exclusion::Kind::to)
  {
    const auto networks = networks_.find(at);
    if (networks == networks_.end() || networks->second.empty())
      return waits.empty() ? "has no address that can be found" : waits;
  }
  if (one.kind == Exclusion::Kind::user && !users_.contains(at)) return waits.empty() ? "no such user" : waits;
  return {};
}

} // namespace tandem::daemon
