// What modules request of links, kept as states, and the steering plan that follows. Pure.
//
// The newest request of each kind and link holds until another one comes, or it lapses with its module.
#pragma once

#include "src/kernel/mptcp/steering.h"
#include "src/links/link_table.h"

#include <tandem/link.h>
#include <tandem/plan.h>
#include <tandem/units.h>

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace tandem::daemon
{

struct RequestSettings
{
  bool setup = false;   // mptcp.setup
  bool foreign = false; // mptcp.foreign
  // A share of marks moves by so much in a step, so that no sender meets a leap: 0.01 in 100 ms.
  double rate_step = 0.01;
  Duration step = std::chrono::milliseconds { 100 };
};

// Whether MPTCP may use the cellular link for a module.
enum class CellUse : std::uint8_t
{
  allowed,
  spent,  // the budget: a module's requests fail, what the kernel does by itself is not counted by it
  denied, // roaming, metered: there is to be no endpoint of Tandem's at all
};

class LinkRequests
{
public:
  explicit LinkRequests(const RequestSettings& settings) : settings_ { settings } {}

  // Nothing happens with a request for Link::other, or one that is no number. Shares are clamped to 0 .. 1.
  void take(const LinkRequest& request, std::uint8_t slot, std::string_view why);
  // The module in the slot is off, or has failed. What it requested is at once as if it had not.
  void lapse(std::uint8_t slot);
  // The link is gone: marks begin with none when it is back. What is requested of it stays, for a module does not
  // repeat it.
  void gone(Link link);
  // Whether the module has a flow. Without one it can take nothing back, so what it requested is suspended until it
  // has.
  void suspend(std::uint8_t slot, bool suspended);
  bool any(std::uint8_t slot) const;

  // Moves the shares towards what is requested. Call at least once a step while settled() is false.
  void advance(Tick now);
  bool settled() const;

  struct Standing
  {
    double value = 0;
    std::uint8_t slot = 0;
    std::string_view why {}; // literal
  };
  // Nothing without a request, or while it is suspended.
  std::optional<Standing> of(Link link, RequestKind kind) const { return standing(at(link), kind); }
  // Share of marks now, on its way to what is requested.
  double rate(Link link) const { return at(link).rate; }

  // For links that are present. Without a request and without RequestSettings::setup: nothing. Where the cellular link
  // must not be used its endpoint is taken away, whatever a module requests. `away`: interfaces whose access points the
  // card is mostly away from: their endpoints are backups, whatever a module requests. No address is named twice.
  kernel::SteeringPlan plan(const links::LinkTable& table, CellUse cell = CellUse::allowed,
                            const std::set<std::string>& away = {}) const;

private:
  static constexpr std::size_t kinds = 4;
  struct OfLink
  {
    std::array<std::optional<Standing>, kinds> requests {};
    double rate = 0;
  };
  static constexpr std::size_t index(RequestKind kind) { return static_cast<std::size_t>(kind); }
  const OfLink& at(Link link) const { return links_[static_cast<std::size_t>(link)]; }
  std::optional<Standing> standing(const OfLink& link, RequestKind kind) const;
  double wanted_rate(const OfLink& link) const;
  // Whether MPTCP must not use the link, whoever asks for it.
  bool barred(Link link, CellUse cell) const;
  std::optional<kernel::SteeringPath> path_of(Link link, const links::LinkInfo& info, bool closed, bool away) const;

  RequestSettings settings_;
  std::array<OfLink, link_count> links_ {};
  std::uint32_t suspended_ = 0; // modules, by slot
  Tick stepped_ {};
};

} // namespace tandem::daemon
