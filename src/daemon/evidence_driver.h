// Tells the evidence controller what flows do, and the chain which modules act on each. On the packet thread.
#pragma once

#include "src/chain/chain.h"
#include "src/daemon/chain_inputs.h"
#include "src/daemon/config.h"
#include "src/evidence/cell_name.h"
#include "src/evidence/controller.h"
#include "src/evidence/link_up.h"
#include "src/feeder/radio/frame.h"
#include "src/links/link_table.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::daemon
{

// Seconds since the Unix epoch, by the wall clock as it is now.
evidence::WallTime wall(Tick now);

class EvidenceDriver
{
public:
  // `seed`: of the lot, unless `config` has one. `memory`: what was learnt before.
  EvidenceDriver(const Config::Evidence& config, std::uint64_t seed, chain::Chain& chain, evidence::Memory memory,
                 ChainInputs& inputs);

  // Where this host is; `ssid` empty when it is not known now. Costs something once in a while only.
  void place(const links::LinkInfo& wifi, const std::string& ssid, const evidence::CellSeen& cell, Tick now);
  // Of a flow on which no module has begun: for Chain::Options::rest.
  chain::Rest begin(const FlowView& flow);
  // A path validation has ended, or what was known of a path is in doubt.
  void path_found(const chain::PathFound& found, Tick now);
  // The Wi-Fi link as modules are about to be told; `ap`: as far as the radio tells.
  void link(bool up, int ifindex, const std::optional<feeder::Mac>& ap, Tick now);
  // Whether its access point had kept frames, by one flow.
  void frames_kept(const chain::FramesKept& found);
  // For LinkState::keeps_frames.
  std::optional<bool> keeps_frames(Tick now) const;
  // Some times a second.
  void look(Tick now);

  // For a file; nothing when nothing is new since the last call.
  std::optional<std::string> fresh_text();
  bool unwritten() const { return controller_.memory().changes() != written_; }
  bool changed();                            // since the last call
  std::size_t forget(std::string_view name); // how many networks and cellular links
  std::size_t forget_all();

  // For the status: where we are and what is compared; of a module, what it gains here, or why that is not compared
  // (null while nothing is).
  nlohmann::json here_json() const;
  nlohmann::json module_json(std::size_t i, Tick now) const;
  // All that was learnt: of networks, and behind them of cellular links.
  nlohmann::json networks_json(Tick now) const;

private:
  bool compares() const { return controller_.settings().share > 0; }
  bool remembers() const { return compares() || paths_; }
  evidence::Surroundings surroundings() const;
  evidence::FlowSeen seen(const flow::Flow& flow) const;
  // By what other flows found.
  bool path_failed(const Address& server, evidence::WallTime now) const;
  std::optional<Duration> path_known(const Address& local, const Address& server, evidence::WallTime now) const;
  evidence::PathSeen path_seen(const Address& local, const Address& server, evidence::WallTime now) const;
  void tell_paths(flow::Flow& flow, const evidence::Now& at);
  // What the access point is called in what was learnt; empty: nobody knows which one it is.
  const std::string& access_point() const;
  nlohmann::json kept_json(std::uint32_t network, evidence::WallTime now) const;
  nlohmann::json known_json(std::uint32_t network, evidence::WallTime now) const;
  nlohmann::json cell_json(const std::string& cell, evidence::WallTime now) const;

  chain::Chain& chain_;
  ChainInputs& inputs_;
  bool paths_; // are remembered, and access points
  evidence::Controller controller_;
  std::uint64_t written_ = 0, told_ = 0; // Memory::changes() of what was written down, of the last changed()
  Tick asked_at_ {};
  evidence::NetworkSigns signs_ {};
  std::optional<Address> gateway_ {};
  evidence::CellName cell_name_ {};
  int ifindex_ = 0;
  std::string ap_ {}; // the last one that the radio told of this interface
  evidence::LinkUp link_up_ {};
  std::string cell_ {}; // of now; the controller's is that of the last known network
};

} // namespace tandem::daemon
