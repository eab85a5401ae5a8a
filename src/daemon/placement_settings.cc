#include "src/daemon/placement_settings.h"

#include <tandem/link.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tandem::daemon
{

namespace
{

// Every link that a connection may be given to, by its name.
std::optional<Link> as_placeable(std::string_view text)
{
  const auto found = std::find_if(all_links.begin(), all_links.end(),
                                  [&](Link link) { return link != Link::other && name(link) == text; });
  return found == all_links.end() ? std::nullopt : std::optional { *found };
}

} // namespace

bool put_links(Config::Placement& out, const Value& value)
{
  constexpr double rounding = 0.005; // three shares of 0.333
  if (as_text(value) == "auto")
  {
    out.links.reset();
    out.shares.clear();
    return true;
  }
  const auto list = as_list(value);
  if (!list || list->empty()) return false;
  std::vector<Link> links;
  std::vector<std::pair<Link, double>> shares;
  double sum = 0;
  for (const Value& one : *list)
  {
    const std::string text = as_text(one).value_or("");
    const std::size_t equals = text.find('=');
    const auto link = as_placeable(std::string_view { text }.substr(0, equals));
    if (!link || std::find(links.begin(), links.end(), *link) != links.end()) return false;
    links.push_back(*link);
    if (equals == std::string::npos) continue;
    const auto share = as_real({ text.substr(equals + 1), true });
    if (!share || !(*share >= 0 && *share <= 1)) return false;
    shares.emplace_back(*link, *share);
    sum += *share;
  }
  const bool all_shared = shares.size() == links.size() && std::abs(sum - 1) <= rounding;
  if (!shares.empty() && !all_shared) return false;
  out.links = std::move(links);
  out.shares = std::move(shares);
  return true;
}

bool put_peers(std::vector<Network>& networks, std::vector<std::uint16_t>& ports, const Value& value)
{
  constexpr std::size_t longest = 256;
  const auto list = as_list(value);
  if (!list || list->size() > longest) return false;
  std::vector<Network> fresh_networks;
  std::vector<std::uint16_t> fresh_ports;
  for (const Value& one : *list)
  {
    std::uint16_t port = 0;
    const auto text = as_text(one);
    if (put_integer(port, one, 1, 65535))
      fresh_ports.push_back(port);
    else if (const auto network = text ? as_network(*text) : std::nullopt)
      fresh_networks.push_back(*network);
    else
      return false;
  }
  networks = std::move(fresh_networks);
  ports = std::move(fresh_ports);
  return true;
}

} // namespace tandem::daemon
