// Carries out steering plans, and undoes what it did: in the keeper process.
#pragma once

#include "src/kernel/mptcp/steering.h"

#include <memory>
#include <string>

namespace tandem::kernel
{

class Steerer
{
public:
  // Undoes what a killed run left behind. `file`: KeeperOptions::steering_file. Never throws.
  explicit Steerer(const std::string& file);
  ~Steerer(); // all is as it was found
  Steerer(const Steerer&) = delete;
  Steerer& operator=(const Steerer&) = delete;

  // Compares the plan with what is there and changes the difference. Throws std::invalid_argument for a plan that does
  // not pass validate(); every other failure is in state().
  void carry_out(const SteeringPlan& plan);

  // Something is in force that has to go when nobody decides any more: CE marks, backup flags that modules asked for.
  bool in_force() const;
  void suspend(); // takes that back; endpoints stay, and backup flags that the settings ask for
  void resume();  // carries the last plan out again

  // Whether packets may wait in a netfilter queue, of any program: CeMarker::keep_hook().
  void packets_wait(bool wait) noexcept;

  const SteeringState& state() const;

  // For the daemon whose keeper was killed: undoes by the file alone.
  static void clear(const std::string& file) noexcept;

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace tandem::kernel
