// What the control API asks, answered by the packet thread.
#pragma once

#include "src/control/backend.h"
#include "src/evidence/memory.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::daemon
{

struct Config;
class PacketLoop;

// Owns everything that touches packets. Built in the main thread; throws std::exception with a sentence for the user
// when it cannot start.
class Engine final : public control::Backend
{
public:
  // `locks`: descriptors whose locks the keeper holds on until it has undone everything.
  // `memory`: what was learnt before.
  explicit Engine(const Config& config, std::vector<int> locks = {}, evidence::Memory memory = {});
  ~Engine() override;

  // Runs the packet loop in the calling thread until stop(). On return held-back state is released, rules and routes
  // are gone. Throws std::runtime_error, with all of that done, when it ended because the keeper did.
  void run();
  // From any thread or a signal handler.
  void stop() noexcept;
  // Takes over module switches and knobs of a configuration read anew; everything else needs a restart. From any thread
  // but run()'s.
  void reload(const Config& config);

  nlohmann::json status() override;
  nlohmann::json modules() override;
  nlohmann::json links() override;
  nlohmann::json flows() override;
  std::string manual(const std::string& module) override;
  void enable(const std::string& module, bool on) override;
  void set(const std::string& module, const std::string& knob, const std::string& value) override;
  void announce(const std::string& what, double for_s) override;
  std::string recording() override;
  nlohmann::json metrics() override;
  nlohmann::json networks() override;
  std::size_t forget_network(const std::string& name) override;
  std::size_t forget_networks() override;

  // What was learnt, for a file; nothing when that is nothing new since the last call. From any thread.
  std::optional<std::string> fresh_evidence();

private:
  std::unique_ptr<PacketLoop> loop_;
};

} // namespace tandem::daemon
