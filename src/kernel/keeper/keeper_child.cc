#include "src/kernel/keeper/keeper_child.h"

#include "src/kernel/clock.h"
#include "src/kernel/fd.h"
#include "src/kernel/keeper/rule_delivery.h"
#include "src/kernel/keeper/ruleset_watch.h"
#include "src/kernel/mptcp/steerer.h"
#include "src/kernel/pacing/pacer.h"
#include "src/kernel/packet/packet_queue.h"
#include "src/kernel/rules/arp_setting.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <vector>

namespace tandem::kernel
{

using nlohmann::json;

namespace
{

// Closes what was open at the fork, but for `kept`.
void close_others(std::vector<int> kept)
{
  std::sort(kept.begin(), kept.end());
  unsigned from = 3;
  for (const int one : kept)
  {
    if (one < static_cast<int>(from)) continue;
    const auto next = static_cast<unsigned>(one);
    if (next > from) close_range(from, next - 1, 0);
    from = next + 1;
  }
  close_range(from, ~0u, 0);
}

void become_keeper(int socket, const KeeperOptions& options)
{
  prctl(PR_SET_NAME, "tandem-keeper");
  // Ctrl-C, a terminal's end or a signal to the daemon's group must not end the one that cleans up.
  setsid();
  for (int signal : { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE, SIGUSR1, SIGUSR2 })
    std::signal(signal, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Where the service manager has set another lowest value, it stays as it is (drop_privileges()).
  std::ofstream { "/proc/self/oom_score_adj" } << "-1000";
  // Nothing else of the daemon's is kept open, least of all what should close when it dies.
  std::vector<int> kept = options.inherited;
  for (const int one : { socket, options.pacing.map, options.pacing.link })
    if (one >= 0) kept.push_back(one);
  close_others(std::move(kept));
  Fd null { open("/dev/null", O_RDWR | O_CLOEXEC) };
  if (null) dup2(null.get(), 0);
}

class Guard
{
public:
  Guard(int socket, const std::atomic<std::uint64_t>& heartbeat, const KeeperOptions& options)
      : socket_ { socket }, heartbeat_ { heartbeat }, options_ { options }
  {
  }

  void serve(const RoutePlan& stale)
  {
    try
    {
      PolicyRoute::clear_with_lower(stale);
      ArpAnnounce { options_.arp_file }.recover();
      backend_ = choose_backend(options_.backend);
      steerer_.emplace(options_.steering_file);
      state_.steering = steerer_->state();
      placer_.emplace(options_.placement_file);
      state_.placement = placer_->state();
      packets_wait(true); // in the queues of other programs, at any time
      pacer_.emplace(options_.pacing_file, make_socket_pacing(options_.pacing));
      state_.pacing = pacer_->state();
      state_.backend = backend_->name();
      state_.why = backend_->why();
      state_.since = now();
      answer(1, "");
    }
    catch (const std::exception& e)
    {
      answer(1, e.what());
      return;
    }
    while (turn())
    {
    }
    undo();
  }

private:
  // One round of waiting and doing. False: the daemon is gone.
  bool turn()
  {
    std::vector<pollfd> polled { { socket_, POLLIN, 0 },
                                 { route_ ? route_->fd() : -1, POLLIN, 0 },
                                 { rulesets_.fd(), POLLIN, 0 } };
    for (const int fd : placer_->fds())
      polled.push_back({ fd, POLLIN, 0 });
    int ready = poll(polled.data(), polled.size(), wait_ms());
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0 && polled[2].revents != 0 && rulesets_.take())
    {
      look_for_rules_soon();
      placer_->rules_changed();
    }
    if (ready > 0 && polled[1].revents != 0) follow_routes();
    if (ready > 0 && std::any_of(polled.begin() + 3, polled.end(), [](const pollfd& one) { return one.revents != 0; }))
      placer_->refresh();
    if (ready > 0 && polled[0].revents != 0 && !take_order()) return false;
    if (must_watch()) look();
    if (now() >= std::min(look_for_rules_, look_unasked_)) mend();
    if (placer_->look(now())) tell_placement();
    if (pacer_->untidy() && now() >= tidied_ + tidy_period) tidy();
    return true;
  }

  // For how long to sleep; -1: until something comes.
  int wait_ms() const
  {
    using std::chrono::ceil, std::chrono::milliseconds;
    Duration wait = Duration::max();
    if (must_watch()) wait = options_.period;
    if (const Tick next = std::min(look_for_rules_, look_unasked_); next != Tick::max())
      wait = std::min(wait, std::max(next - now(), Duration {}));
    if (pacer_->untidy()) wait = std::min(wait, std::max(tidied_ + tidy_period - now(), Duration {}));
    if (placer_->next() != Tick::max()) wait = std::min(wait, std::max(placer_->next() - now(), Duration {}));
    return wait == Duration::max() ? -1 : static_cast<int>(ceil<milliseconds>(wait).count());
  }

  // Who flushes everything mostly goes on changing; and who does it again and again is not to be fought.
  void look_for_rules_soon()
  {
    constexpr Duration settle = std::chrono::milliseconds { 200 };
    if (look_for_rules_ == Tick::max()) look_for_rules_ = std::max(now() + settle, mended_ + back_off_);
  }

  // The legacy iptables tells nobody what is done with it. There is no look without rules, which is without flows.
  void look_unasked_later()
  {
    constexpr Duration period = std::chrono::seconds { 30 };
    const bool needed = state_.phase == KeeperState::Phase::armed && !backend_->announced();
    look_unasked_ = needed ? now() + std::max(period, back_off_) : Tick::max();
  }

  void make_route()
  {
    route_.emplace(route_plan_, options_.arp_file);
    state_.route = route_->state();
  }

  bool read_routes()
  {
    routes_unread_ = route_.has_value(); // until they have been
    const bool changed = route_ && route_->refresh();
    if (route_) state_.route = route_->state();
    routes_unread_ = false;
    return changed;
  }

  // Puts back what others took away, and makes the route that could not be made.
  void mend()
  {
    constexpr Duration first = std::chrono::seconds { 1 }, longest = std::chrono::seconds { 60 };
    look_for_rules_ = Tick::max();
    look_unasked_later();
    bool rules = false;
    std::string unread {}; // why it is not known whether they are there
    try
    {
      rules = state_.phase == KeeperState::Phase::armed && !backend_->in_place();
    }
    catch (const std::exception& e)
    {
      unread = e.what();
    }
    const bool route = route_ && !route_->has_rules(), no_route = !route_ && !route_plan_.cell.empty();
    if (!rules && !route && !no_route && !routes_unread_ && unread.empty()) return;
    back_off_ = now() - mended_ > 2 * longest ? first : std::clamp(2 * back_off_, first, longest);
    mended_ = now();
    look_unasked_later();
    try
    {
      if (rules) backend_->apply(plan_);
      const bool put = route && route_->put_rules_back();
      if (rules || put) ++state_.restored;
      if (no_route) make_route();
      if (routes_unread_) read_routes();
      if (!unread.empty()) throw std::runtime_error { unread };
    }
    catch (const std::exception& e)
    {
      state_.last_error = e.what();
      look_for_rules_ = mended_ + back_off_;
    }
    rulesets_.take(); // of its own
    answer(0, "");
  }

  // Placement alone is not worth ten looks a second.
  bool must_watch() const
  {
    return plan_.traffic != 0 || steerer_->in_force() || steerer_->state().suspended || placement_held_
           || pacer_->in_force() || pacer_->state().suspended;
  }

  bool take_order()
  {
    iovec part { buffer_.data(), buffer_.size() };
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control {};
    msghdr header {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    ssize_t length = recvmsg(socket_, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0) return errno == EAGAIN || errno == EINTR;
    if (length == 0) return false;
    Fd passed;
    if (cmsghdr* c = CMSG_FIRSTHDR(&header); c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
    {
      int number;
      std::memcpy(&number, CMSG_DATA(c), sizeof number);
      passed.reset(number);
    }
    json order = json::parse(buffer_.data(), buffer_.data() + length, nullptr, false);
    if (order.is_discarded()) return true;
    std::string error;
    try
    {
      carry_out(order, std::move(passed));
    }
    catch (const std::exception& e)
    {
      error = e.what();
    }
    state_.last_error = error;
    // The daemon that gave an order lives; the wait starts anew.
    restart_watch();
    answer(order.value("ticket", std::uint64_t { 0 }), error);
    return true;
  }

  void carry_out(const json& order, Fd passed)
  {
    const std::string what = order.at("order");
    if (what == "apply")
    {
      auto plan = order.at("plan").get<RulePlan>();
      if (plan.traffic != 0)
      {
        load(plan);
        rulesets_.take(); // of its own
      }
      else
        take_away();
      plan_ = plan;
      enter(plan.traffic != 0 ? KeeperState::Phase::armed : KeeperState::Phase::idle);
      state_.why = backend_->why();
    }
    else if (what == "route")
    {
      route_plan_ = order.at("plan").get<RoutePlan>();
      route_.reset();
      state_.route = {}; // also when the new one cannot be made
      if (route_plan_.cell.empty()) return;
      try
      {
        make_route();
      }
      catch (...)
      {
        look_for_rules_soon(); // which tries it again
        throw;
      }
    }
    else if (what == "steering")
    {
      steerer_->carry_out(order.at("plan").get<SteeringPlan>());
      state_.steering = steerer_->state();
    }
    else if (what == "placement")
    {
      placement_ = order.at("plan").get<PlacementPlan>();
      placement_held_ = false;
      placer_->carry_out(placement_);
      state_.placement = placer_->state();
      rulesets_.take(); // of its own
    }
    else if (what == "pacing")
    {
      pacer_->carry_out(order.at("plan").get<PacingPlan>());
      state_.pacing = pacer_->state();
    }
    else if (what == "guard")
    {
      queue_ = std::move(passed);
      queue_number_ = order.at("number");
    }
    else
      throw std::runtime_error { "unknown order " + what };
  }

  void follow_routes()
  {
    bool changed = false;
    try
    {
      changed = read_routes();
    }
    catch (const std::exception& e)
    {
      state_.last_error = e.what();
      changed = true;
      look_for_rules_soon(); // which reads them again
    }
    if (!route_->has_rules()) look_for_rules_soon();
    if (changed) answer(0, "");
  }

  void restart_watch()
  {
    last_heartbeat_ = heartbeat_.load(std::memory_order_relaxed);
    last_moved_ = now();
    still_looks_ = 0;
  }

  void look()
  {
    const std::uint64_t count = heartbeat_.load(std::memory_order_relaxed);
    if (count != last_heartbeat_)
    {
      restart_watch();
      last_heartbeat_ = count;
      if (state_.phase == KeeperState::Phase::suspended && now() >= resume_at_) resume();
      if (steerer_->state().suspended) steer_again();
      if (placement_held_) place_again();
      if (pacer_->state().suspended) hold_pacing(false);
      return;
    }
    ++still_looks_;
    // Looks count besides time: when this process itself did not get to run, the daemon is not to blame.
    const bool still = now() - last_moved_ > options_.timeout && still_looks_ * options_.period >= options_.timeout;
    if (still && steerer_->in_force()) stop_steering();
    if (still && placer_->state().in_force) hold_placement();
    if (still && pacer_->in_force()) hold_pacing(true);
    if (state_.phase == KeeperState::Phase::armed && still)
      suspend();
    else if (state_.phase == KeeperState::Phase::suspended)
      release();
  }

  // Nobody watches the links: no connection is begun on them that would not be there by itself.
  void hold_placement()
  {
    PlacementPlan held = placement_;
    held.choose = held.let_go = false;
    placer_->carry_out(held);
    placement_held_ = true;
    tell_placement();
  }

  void place_again()
  {
    placement_held_ = false;
    placer_->carry_out(placement_);
    tell_placement();
  }

  void hold_pacing(bool hold)
  {
    if (hold)
      pacer_->suspend();
    else
      pacer_->resume();
    state_.pacing = pacer_->state();
    answer(0, "");
  }

  // An interface where packets waited as the last paced upload ended.
  void tidy()
  {
    pacer_->tidy();
    state_.pacing = pacer_->state();
    tidied_ = now();
  }

  void tell_placement()
  {
    state_.placement = placer_->state();
    answer(0, "");
  }

  void release()
  {
    if (queue_) release_waiting(queue_.get(), queue_number_);
  }

  // Hooks stay until the end (undo()): other programs' queues hold packets while Tandem is idle, too.
  void take_away()
  {
    backend_->pause();
    release();
  }

  void load(const RulePlan& plan)
  {
    backend_->apply(plan);
    ++state_.applied;
  }

  void packets_wait(bool wait) noexcept
  {
    steerer_->packets_wait(wait);
    placer_->packets_wait(wait);
  }

  void suspend()
  {
    release();
    try
    {
      backend_->pause();
    }
    catch (const std::exception& e)
    {
      state_.last_error = e.what(); // the queue is emptied at every look, so packets pass even so
    }
    release();
    resume_at_ = Tick {};
    resume_pause_ = Duration {};
    ++state_.suspensions;
    enter(KeeperState::Phase::suspended);
    answer(0, "");
  }

  void resume()
  {
    try
    {
      load(plan_);
      state_.suspended_total += now() - state_.since;
      enter(KeeperState::Phase::armed);
    }
    catch (const std::exception& e)
    {
      state_.last_error = e.what();
      resume_pause_ =
          std::clamp<Duration>(2 * resume_pause_, RuleDelivery::first_back_off, RuleDelivery::longest_back_off);
      resume_at_ = now() + resume_pause_;
    }
    restart_watch();
    answer(0, "");
  }

  void stop_steering()
  {
    steerer_->suspend();
    state_.steering = steerer_->state();
    answer(0, "");
  }

  void steer_again()
  {
    steerer_->resume();
    state_.steering = steerer_->state();
    answer(0, "");
  }

  void undo() noexcept
  {
    // Where one of them fails, for another program's lock on iptables, the next may not.
    for (const auto step : { &RuleBackend::pause, &RuleBackend::clear })
    {
      release();
      try
      {
        (*backend_.*step)();
      }
      catch (const std::exception&)
      {
      }
    }
    release();
    packets_wait(false);
    steerer_.reset();
    placer_.reset();
    pacer_.reset();
    route_.reset();
    release();
    queue_.reset();
  }

  void enter(KeeperState::Phase phase)
  {
    if (phase != state_.phase) state_.since = now();
    state_.phase = phase;
    look_unasked_later();
  }

  void answer(std::uint64_t ticket, const std::string& error)
  {
    state_.watching = pacer_ && must_watch();
    std::string text = json { { "ticket", ticket }, { "error", error }, { "state", state_ } }.dump(
        -1, ' ', false, json::error_handler_t::replace);
    // A daemon that hangs does not read; it must not stop us.
    (void)send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  static constexpr Duration tidy_period = std::chrono::seconds { 1 };
  int socket_;
  const std::atomic<std::uint64_t>& heartbeat_;
  KeeperOptions options_;
  std::unique_ptr<RuleBackend> backend_ {};
  RoutePlan route_plan_ {}; // wanted
  std::optional<PolicyRoute> route_ {};
  bool routes_unread_ = false; // the last time they were to be followed
  RulesetWatch rulesets_ {};
  Tick look_for_rules_ = Tick::max(); // after news
  Tick look_unasked_ = Tick::max();   // without any
  Tick mended_ {};
  Duration back_off_ {};
  std::optional<Steerer> steerer_ {};
  std::optional<Placer> placer_ {};
  std::optional<Pacer> pacer_ {};
  Tick tidied_ {};
  Tick resume_at_ {}; // rules that were taken away since the daemon hung, and could not be loaded again
  Duration resume_pause_ {};
  PlacementPlan placement_ {};
  bool placement_held_ = false; // stopped since the daemon hangs
  RulePlan plan_ {};
  KeeperState state_ {};
  Fd queue_ {};
  std::uint16_t queue_number_ = 0;
  std::uint64_t last_heartbeat_ = 0;
  Tick last_moved_ {};
  std::int64_t still_looks_ = 0;
  std::vector<char> buffer_ = std::vector<char>(keeper_message_limit);
};

} // namespace

void run_keeper(int socket, const std::atomic<std::uint64_t>& heartbeat, const KeeperOptions& options,
                const RoutePlan& stale) noexcept
{
  become_keeper(socket, options);
  Guard { socket, heartbeat, options }.serve(stale);
  _exit(0);
}

} // namespace tandem::kernel
