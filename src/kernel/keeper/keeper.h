// The fail-safe: a small process that owns rules and routes, and takes them away when the daemon dies or hangs.
//
// It watches a heartbeat in shared memory. Standing still for more than `timeout` while rules are in place: rules are
// taken away and waiting packets let pass (suspended); moving again: rules are put back (armed). When the daemon's end
// of the socket closes, by exit, crash or kill -9, waiting packets pass, rules and routes go, and the keeper ends.
#pragma once

#include "src/kernel/keeper/keeper_state.h"
#include "src/kernel/keeper/tickets.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tandem::kernel
{

class Keeper
{
public:
  // Forks; call before any thread starts. The child clears what a killed run left behind (rules, and routes of `stale`)
  // and chooses the back end; returns when that is done. Throws std::runtime_error with the child's sentence.
  static Keeper start(const KeeperOptions& options = {}, const RoutePlan& stale = {});

  Keeper(Keeper&&) noexcept;
  Keeper& operator=(Keeper&&) noexcept;
  // Orders the keeper to undo everything and waits for its end, a few seconds at most; does it in this process when the
  // keeper is lost.
  ~Keeper();

  // Call at least every 100 ms from the packet loop (a timer), and never from another thread. Costs one store. Not
  // needed while the keeper does not look (state().watching), if it is called before the next command.
  void heartbeat() noexcept;

  // Commands. The plain ones wait for the keeper's answer (typically 5 to 50 ms, at most 10 s) and throw
  // std::runtime_error with a sentence when it failed. The `post_` ones return at once; the outcome shows in state()
  // after dispatch(): use them from the packet loop.
  void apply(const RulePlan& plan);
  std::uint64_t post_apply(const RulePlan& plan); // the ticket of its outcome
  void clear();                                   // no rules
  void post_clear();
  void set_route(const RoutePlan& plan);
  bool post_route(const RoutePlan& plan); // false, here and below: it could not be sent, and is lost
  // What of a steering plan fails shows in state().steering, and is never an error of the command: the plan before, or
  // as much of the new one as could be done, is in force. The empty plan takes all of it back. Only a plan that cannot
  // be meant (validate()) throws.
  void set_steering(const SteeringPlan& plan);
  bool post_steering(const SteeringPlan& plan);
  // Likewise: state().placement says what came of it. Counts in it are told once a second while they change.
  void set_placement(const PlacementPlan& plan);
  bool post_placement(const PlacementPlan& plan);

  // How fast sockets of this host may send; likewise.
  void set_pacing(const PacingPlan& plan);
  bool post_pacing(const PacingPlan& plan);

  // Lets the keeper release the packets waiting in the queue when the daemon hangs or dies: hands it the queue's
  // socket.
  void guard_queue(int queue_fd, std::uint16_t number);

  // How the last post_apply() ended: `failure` is empty when its rules are in force. Nothing while the answer is
  // awaited, and when it has been taken.
  using Outcome = Tickets::Outcome;
  std::optional<Outcome> take_outcome();

  // Readable when the keeper has a notification or is gone.
  int fd() const;
  // Takes in the notification; never blocks. True when state() changed.
  bool dispatch();
  const KeeperState& state() const;
  int pid() const;

private:
  Keeper();
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace tandem::kernel
