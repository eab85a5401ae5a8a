// Leaves alone what is excluded, or routed into a tunnel: asks whose each new flow is, looks names up, and takes the
// modules off the flows.
#pragma once

#include "src/chain/chain.h"
#include "src/daemon/background.h"
#include "src/daemon/chain_inputs.h"
#include "src/daemon/exclusion.h"
#include "src/kernel/socket_owner.h"
#include "src/links/link_table.h"

#include <tandem/segment.h>
#include <tandem/units.h>

#include <nlohmann/json.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tandem::daemon
{

// By this host's resolver and its users' database. May take long.
ResolvedNames look_up_names(const std::vector<std::string>& hosts, const std::vector<std::string>& users);

class ExclusionDriver
{
public:
  // What it asks of this host. `owner_of`: whose a flow is; nothing: not told. `tunnel`: why a flow is left alone
  // because of its route; empty: it is not. `look_up` is called in a thread of its own, which may outlive the driver.
  struct Host
  {
    std::function<std::optional<kernel::SocketOwner>(const FlowKey&)> owner_of;
    std::function<std::string(const FlowKey&)> tunnel;
    // Why it is not known which Wi-Fi network this is; empty: it is, or there is none.
    std::function<std::string()> network_unknown = [] { return std::string {}; };
    std::function<ResolvedNames(const std::vector<std::string>& hosts, const std::vector<std::string>& users)> look_up =
        look_up_names;
  };

  // `later` runs something on the packet thread, from any thread. `changed` is called there when rules may have to
  // change and flows may have been let go; never from within began(), look() or
  // routes_changed().
  ExclusionDriver(chain::Chain& chain, ChainInputs& inputs, std::function<void(std::function<void()>)> later,
                  std::function<void()> changed, Host host);

  // All that are in force from now on.
  void assign(const std::vector<Exclusion>& all, Tick now);
  const Exclusions& known() const { return known_; }

  // A flow whose handshake was just seen.
  void began(const FlowKey& key, Tick now);
  // What is known of the Wi-Fi link now. In another network names are looked up anew soon.
  void links_changed(const links::LinkInfo& wifi);
  // Names may stand for something else by now: they are looked up anew soon.
  void outdated();
  // Routes may lead elsewhere now.
  struct Rerouted
  {
    bool into_tunnels = false; // flows were let go
    bool back = false;         // others are not left alone any more
  };
  Rerouted routes_changed(Tick now);
  // Some times a second while anything happens.
  void look(Tick now);

  // Why the flow is left alone; empty: it is not.
  std::string reason(std::uint64_t flow) const;
  // Whether that is because of its route.
  bool in_tunnel(std::uint64_t flow) const { return tunnelled_.contains(flow); }
  // Living flows, by a walk through the table.
  std::size_t flows_now() const; // that are excluded
  std::size_t in_tunnels_now() const;
  // {kind, what, flows: how many were left alone because of it, problem}
  nlohmann::json json() const;

private:
  std::string why_tunnelled(const FlowView& flow) const;
  std::string excluded(const FlowView& flow);
  std::string why_kept_back(const FlowView& flow, Tick now);
  void judge(flow::Flow& flow, Tick now);
  void judge_all(Tick now);
  void put(flow::Flow& flow, std::string why, Tick now);
  void find_cgroup(std::uint64_t id);
  void find_names_when_due(Tick now);
  void find_names();

  chain::Chain& chain_;
  ChainInputs& inputs_;
  std::function<void(std::function<void()>)> later_;
  std::function<void()> changed_;
  Host host_;
  Exclusions known_ {};
  std::map<std::uint64_t, std::optional<std::string>> cgroups_ {}; // paths by id; nothing: it is looked for
  Tick cgroup_asked_ {};                                           // when the latest of them was
  std::map<std::uint64_t, std::string> reasons_ {};                // of flows that are left alone, by id
  std::set<std::uint64_t> tunnelled_ {};                           // of them, because of their route
  std::map<std::string, std::uint64_t> flows_ {};                  // Exclusion::text(): flows so far
  std::optional<Tick> asked_at_ {};                                // when names were looked up; nothing: they are due
  Duration names_pause_ {};                   // after an answer that lacked some; doubles with each
  std::atomic<bool> names_under_way_ = false; // they are being looked up
  links::LinkInfo place_ {};                  // as links_changed() was told last
  Tick blackholes_at_ {};                     // when the kernel was asked for them
  bool blackholes_ = false;
  Background background_ {}; // last: gone first
};

} // namespace tandem::daemon
