// Carries out pacing plans, and puts back what was there before: in the keeper process.
#pragma once

#include "src/kernel/pacing/pacing_plan.h"
#include "src/kernel/pacing/socket_pacing.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tandem::kernel
{

// A socket that is bounded. The value before is put back only while the socket has one that Tandem set.
struct BoundSocket
{
  std::uint32_t before = 0; // as found
  std::uint32_t set = 0;    // by Tandem
  std::uint32_t was = 0;    // likewise, just before `set`: a killed run may have got no further

  bool operator==(const BoundSocket&) const = default;
};
using BoundSockets = std::map<std::uint64_t, BoundSocket>; // by cookie

class Pacer
{
public:
  // Puts back what a killed run left behind. `file`: KeeperOptions::pacing_file. Never throws.
  Pacer(std::string file, std::unique_ptr<SocketPacing> sockets);
  ~Pacer(); // every socket has its own value again
  Pacer(const Pacer&) = delete;
  Pacer& operator=(const Pacer&) = delete;

  // Throws std::invalid_argument for a plan that does not pass validate(); every other failure is in state().
  void carry_out(const PacingPlan& plan);

  bool in_force() const { return !bound_.empty(); }
  void suspend(); // every socket has its own value again, until resume()
  void resume();

  // As SocketPacing::untidy(): call tidy() now and then until it is not.
  bool untidy() const { return sockets_->untidy(); }
  void tidy();

  const PacingState& state() const { return state_; }

  // For the daemon whose keeper was killed: puts back by the file alone.
  static void clear(const std::string& file, const PacingProgram& program) noexcept;

private:
  void recover() noexcept;
  void change();
  std::vector<SocketPace> read(const std::map<std::uint64_t, std::uint32_t>& wanted);
  void note(const BoundSockets& bound);

  std::string file_;
  std::unique_ptr<SocketPacing> sockets_;
  PacingPlan plan_ {};
  BoundSockets bound_ {};
  std::map<std::uint64_t, bool> left_alone_ {}; // of the plan; true: it was counted
  PacingState state_ {};
};

// The note for the next start. An empty text: nothing to put back.
std::string render_bound(const BoundSockets& bound);
// Nothing of another boot or network namespace. Throws std::exception for a bad text.
BoundSockets parse_bound(const std::string& text);

} // namespace tandem::kernel
