#include "src/daemon/wishes.h"

#include "src/wire/text.h"

#include <algorithm>
#include <cmath>

namespace tandem::daemon
{

void Wishes::take(const Wish& wish, std::uint8_t slot, std::string_view why)
{
  const auto link = static_cast<std::size_t>(wish.link);
  if (wish.link == Link::other || link >= links_.size() || index(wish.kind) >= kinds || !std::isfinite(wish.value))
    return;
  const double value =
      wish.kind == WishKind::ce_rate ? std::clamp(wish.value, 0.0, 1.0) : (wish.value != 0 ? 1.0 : 0.0);
  links_[link].wishes[index(wish.kind)] = Standing { value, slot, why };
}

void Wishes::lapse(std::uint8_t slot)
{
  for (OfLink& link : links_)
  {
    for (auto& standing : link.wishes)
      if (standing && standing->slot == slot) standing.reset();
    if (!link.wishes[index(WishKind::ce_rate)]) link.rate = 0;
  }
}

void Wishes::gone(Link link)
{
  links_[static_cast<std::size_t>(link)].rate = 0;
}

void Wishes::rest(std::uint8_t slot, bool resting)
{
  const std::uint32_t bit = 1u << slot;
  resting_ = resting ? resting_ | bit : resting_ & ~bit;
}

bool Wishes::any(std::uint8_t slot) const
{
  return std::any_of(links_.begin(), links_.end(),
                     [&](const OfLink& link)
                     {
                       return std::any_of(link.wishes.begin(), link.wishes.end(),
                                          [&](const auto& standing) { return standing && standing->slot == slot; });
                     });
}

std::optional<Wishes::Standing> Wishes::standing(const OfLink& link, WishKind kind) const
{
  const auto& wish = link.wishes[index(kind)];
  return wish && (resting_ >> wish->slot & 1) == 0 ? wish : std::nullopt;
}

double Wishes::wanted_rate(const OfLink& link) const
{
  const auto wish = standing(link, WishKind::ce_rate);
  return wish ? wish->value : 0;
}

void Wishes::advance(Tick now)
{
  if (now - stepped_ < settings_.step) return;
  // After a pause there is one step, however long it was: the rule has not changed meanwhile.
  stepped_ = now;
  for (OfLink& link : links_)
  {
    const double wanted = wanted_rate(link);
    link.rate += std::clamp(wanted - link.rate, -settings_.rate_step, settings_.rate_step);
    if (std::abs(wanted - link.rate) < 1e-9) link.rate = wanted;
  }
}

bool Wishes::settled() const
{
  return std::all_of(links_.begin(), links_.end(), [&](const OfLink& link) { return link.rate == wanted_rate(link); });
}

kernel::SteeringPlan Wishes::plan(const links::LinkTable& table) const
{
  kernel::SteeringPlan plan {};
  for (const Link link : all_links)
  {
    const links::LinkInfo& info = table[link];
    const OfLink& its = at(link);
    if (link == Link::other || !info.present()) continue;
    if (its.rate > 0) plan.ce.push_back({ info.interface, its.rate });

    const auto backup = standing(its, WishKind::mptcp_backup);
    const auto endpoint = standing(its, WishKind::mptcp_endpoint);
    if (!settings_.setup && !backup && !endpoint) continue;
    kernel::SteeringPath path { .interface = info.interface };
    for (const Address& address : info.addresses)
      if (path.addresses.size() < kernel::most_path_addresses) path.addresses.push_back(wire::to_string(address));
    path.endpoint = !endpoint || endpoint->value != 0;
    // What the user pays for by the byte is a last resort, unless a module knows better.
    path.backup = backup ? backup->value != 0 : link == Link::cell && settings_.setup;
    plan.paths.push_back(std::move(path));
  }
  // An empty plan is the one that takes everything back.
  if (plan.ce.empty() && plan.paths.empty()) return {};
  plan.setup = settings_.setup;
  plan.foreign = settings_.foreign;
  return plan;
}

} // namespace tandem::daemon
