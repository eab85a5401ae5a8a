// What the control API asks, answered by the packet thread.
#pragma once

#include "src/association/associator.h"
#include "src/control/backend.h"
#include "src/daemon/exclusions_file.h"
#include "src/daemon/saved_aps.h"
#include "src/daemon/saved_file.h"
#include "src/daemon/setting_layers.h"
#include "src/evidence/memory.h"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tandem::daemon
{

class PacketLoop;
struct ForKeeper;

// Owns everything that touches packets. Built in the main thread; throws std::exception with a sentence for the user
// when it cannot start.
class Engine final : public control::Backend
{
public:
  // `for_keeper`: its locks are held until the keeper has undone everything.
  // `memory`: what was learnt before. `saved`: where settings are saved, `settings` what it held.
  Engine(const Config& config, ForKeeper for_keeper, evidence::Memory memory, SavedFile saved, SavedSettings settings);
  ~Engine() override;

  // Runs the packet loop in the calling thread until stop(). On return held-back state is released, rules and routes
  // are gone. Throws std::runtime_error, with all of that done, when it ended because the keeper did.
  void run();
  // From any thread or a signal handler.
  void stop() noexcept;
  // Takes over module switches and knobs of a configuration read anew, below what was saved and what was set for this
  // run; everything else needs a restart. From any thread but run()'s.
  void reload(const Config& config);
  // What a user is told of settings that are saved, at the start and after a reload.
  std::vector<SettingLayers::Remark> remarks();

  nlohmann::json status() override;
  nlohmann::json modules() override;
  nlohmann::json links() override;
  nlohmann::json flows() override;
  std::string manual(const std::string& module) override;
  void enable(const std::string& module, bool on, bool save) override;
  void set(const std::string& module, const std::string& knob, const std::string& value, bool save) override;
  nlohmann::json saved() override;
  nlohmann::json forget_saved(const std::string& name) override;
  nlohmann::json forget_all_saved() override;
  nlohmann::json exclusions() override;
  nlohmann::json add_exclusion(const std::string& kind, const std::string& what) override;
  nlohmann::json remove_exclusion(const std::string& kind, const std::string& what) override;
  void announce(const std::string& what, double for_s) override;
  std::string recording(const control::Part& wanted) override;
  nlohmann::json metrics() override;
  nlohmann::json networks() override;
  std::size_t forget_network(const std::string& name) override;
  std::size_t forget_networks() override;
  nlohmann::json budget() override;
  nlohmann::json aps() override;
  void keep_aps(std::uint64_t most, bool several_channels, bool save) override;
  void scan_aps() override;
  void roam(const std::string& ap) override;
  nlohmann::json traps() override;
  std::uint64_t add_trap(const std::string& when, bool save) override;
  void remove_trap(std::uint64_t id) override;

  // What was learnt, for a file; nothing when that is nothing new since the last call. From any thread.
  std::optional<std::string> fresh_evidence();
  // Before run(): who is told, by the packet thread, that there is some, and whether nothing follows for a while.
  void on_fresh_evidence(std::function<void(bool rests)> tell);

private:
  void ask_profile();
  void pass_settings();
  void keep(const SettingName& name, const std::string& value, bool save);
  // Puts into force what `to` says of them where `from` says otherwise.
  void take(const std::vector<SettingName>& names, const SettingLayers& from, const SettingLayers& to);
  nlohmann::json forget(const std::vector<SettingName>& names);
  Config with_saved(Config config, const SavedExclusions& saved) const;
  void take_exclusions(SavedExclusions fresh);
  void make_associator(const Config& config);
  void add_saved_aps(nlohmann::json& saved, nlohmann::json& run) const;
  nlohmann::json forget_aps();
  association::Keep saved_keep() const;

  std::unique_ptr<PacketLoop> loop_;
  std::mutex settings_mutex_ {}; // of what follows; never taken by the packet thread
  SavedFile file_;
  SettingLayers layers_; // asks the modules that the loop has loaded
  ExclusionsFile exclusions_file_;
  SavedExclusions saved_exclusions_;
  SavedApsFile aps_file_;
  SavedAps saved_aps_;
  std::optional<association::Keep> aps_of_run_ {}; // at how many the card is kept in this run alone
  bool mptcp_setup_;
  std::unique_ptr<association::Associator> associator_; // its thread asks the loop: ends before it
};

} // namespace tandem::daemon
