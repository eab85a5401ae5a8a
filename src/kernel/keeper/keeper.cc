#include "src/kernel/keeper/keeper.h"

#include "src/kernel/check.h"
#include "src/kernel/clock.h"
#include "src/kernel/fd.h"
#include "src/kernel/keeper/keeper_child.h"
#include "src/kernel/mptcp/steerer.h"
#include "src/kernel/pacing/pacer.h"
#include "src/kernel/rules/arp_setting.h"

#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace tandem::kernel
{

using nlohmann::json;

struct Keeper::Parts
{
  KeeperOptions options {};
  Fd socket {};
  pid_t child = -1;
  std::atomic<std::uint64_t>* heartbeat = nullptr;
  KeeperState state {};
  RoutePlan route {};
  Tickets tickets {};
  std::vector<char> buffer = std::vector<char>(keeper_message_limit);

  ~Parts()
  {
    if (child > 0) end();
    if (heartbeat) munmap(heartbeat, sizeof *heartbeat);
  }

  // Closing our end is the order to undo everything.
  void end()
  {
    socket.reset();
    Tick deadline = now() + std::chrono::seconds { 5 };
    int status = 0; // of a keeper that undid everything
    while (now() < deadline)
    {
      pid_t ended = waitpid(child, &status, WNOHANG);
      if (ended == child || (ended < 0 && errno == ECHILD && kill(child, 0) < 0)) break;
      poll(nullptr, 0, 5);
    }
    // Killed: perhaps at this moment, and nobody has noticed before.
    if (state.phase == KeeperState::Phase::lost || WIFSIGNALED(status)) undo_here();
    child = -1;
  }

  // The keeper was killed: what it owned is undone from here.
  void undo_here() noexcept
  {
    Steerer::clear(options.steering_file);
    Placer::clear(options.placement_file);
    Pacer::clear(options.pacing_file, options.pacing);
    try
    {
      PolicyRoute::clear_with_lower(route);
      ArpAnnounce { options.arp_file }.recover();
      choose_backend(options.backend)->clear();
    }
    catch (const std::exception&)
    {
      // Without a back end there are no rules either.
    }
  }

  void lose()
  {
    if (state.phase == KeeperState::Phase::lost) return;
    state.phase = KeeperState::Phase::lost;
    state.since = now();
    state.last_error = "the keeper process ended; nothing takes the rules away when the daemon hangs";
    waitpid(child, nullptr, WNOHANG);
  }

  std::uint64_t post(json message, int passed_fd = -1)
  {
    return post_as(tickets.next(), std::move(message), passed_fd);
  }

  std::uint64_t post_as(std::uint64_t ticket, json message, int passed_fd = -1)
  {
    message["ticket"] = ticket;
    // A name of an interface may be any bytes.
    std::string text = message.dump(-1, ' ', false, json::error_handler_t::replace);
    if (text.size() > keeper_message_limit)
    {
      state.last_error = "the rule plan is too long";
      tickets.settle(ticket, state.last_error);
      return ticket;
    }
    iovec part { text.data(), text.size() };
    msghdr header {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control {};
    if (passed_fd >= 0)
    {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* c = CMSG_FIRSTHDR(&header);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(c), &passed_fd, sizeof(int));
    }
    if (!socket || sendmsg(socket.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    {
      // Without memory for a message, or room, the keeper lives all the same.
      if (!socket || (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM)) lose();
      tickets.settle(ticket,
                     state.phase == KeeperState::Phase::lost ? state.last_error : "the keeper does not keep up");
    }
    return ticket;
  }

  // Whether it left: what is settled already did not.
  bool sent(std::uint64_t ticket) const { return !tickets.settled(ticket); }

  // Takes in one message; false when there is none.
  bool take()
  {
    if (!socket) return false;
    ssize_t length = recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (length > 0)
    {
      json message = json::parse(buffer.data(), buffer.data() + length, nullptr, false);
      if (message.is_discarded()) return true;
      state = message.at("state").get<KeeperState>();
      tickets.settle(message.value("ticket", std::uint64_t { 0 }), message.value("error", ""));
      return true;
    }
    if (length == 0 || (errno != EAGAIN && errno != EINTR))
    {
      lose();
      socket.reset();
    }
    return false;
  }

  void wait_for(std::uint64_t ticket, std::chrono::seconds most = std::chrono::seconds { 10 })
  {
    Tick deadline = now() + most;
    while (!tickets.settled(ticket))
    {
      if (take()) continue;
      if (!socket) throw std::runtime_error { state.last_error };
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now()).count();
      if (left <= 0)
        throw std::runtime_error { "the keeper did not answer within " + std::to_string(most.count()) + " s" };
      pollfd wait { socket.get(), POLLIN, 0 };
      poll(&wait, 1, static_cast<int>(left));
      count_heartbeat(); // waiting here is no standstill of the packet loop
    }
    if (!tickets.failure().empty()) throw std::runtime_error { tickets.failure() };
  }

  void count_heartbeat() { heartbeat->fetch_add(1, std::memory_order_relaxed); }
};

Keeper::Keeper() : parts_ { std::make_unique<Parts>() } {}
Keeper::Keeper(Keeper&&) noexcept = default;
Keeper& Keeper::operator=(Keeper&&) noexcept = default;
Keeper::~Keeper() = default;

Keeper Keeper::start(const KeeperOptions& options, const RoutePlan& stale)
{
  Keeper keeper;
  Parts& p = *keeper.parts_;
  p.options = options;
  p.route = stale;
  void* shared =
      mmap(nullptr, sizeof(std::atomic<std::uint64_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc {};
  p.heartbeat = new (shared) std::atomic<std::uint64_t> { 0 };

  std::array<int, 2> ends { -1, -1 };
  check("open a socket to the keeper", socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()));
  p.socket = Fd { ends[0] };
  Fd far { ends[1] };
  int room = static_cast<int>(2 * keeper_message_limit);
  for (int end : ends)
    setsockopt(end, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);

  p.child = static_cast<pid_t>(check("start the keeper process", fork()));
  if (p.child == 0)
  {
    p.child = -1;
    p.socket.reset();
    run_keeper(far.get(), *p.heartbeat, options, stale); // does not return
  }
  far.reset();
  // The keeper announces itself, or says why it cannot work. Before that it tries the back ends: with iptables a dozen
  // programs, which at boot wait for the disk, and for another program's lock.
  p.wait_for(p.tickets.next(), std::chrono::seconds { 30 });
  return keeper;
}

void Keeper::heartbeat() noexcept
{
  parts_->count_heartbeat();
}

void Keeper::apply(const RulePlan& plan)
{
  validate(plan);
  parts_->wait_for(parts_->post({ { "order", "apply" }, { "plan", plan } }));
}

std::uint64_t Keeper::post_apply(const RulePlan& plan)
{
  return parts_->post_as(parts_->tickets.next_apply(), { { "order", "apply" }, { "plan", plan } });
}

std::optional<Keeper::Outcome> Keeper::take_outcome()
{
  return parts_->tickets.take_outcome();
}

void Keeper::clear()
{
  apply({});
}

void Keeper::post_clear()
{
  post_apply({});
}

void Keeper::set_route(const RoutePlan& plan)
{
  parts_->route = plan;
  parts_->wait_for(parts_->post({ { "order", "route" }, { "plan", plan } }));
}

bool Keeper::post_route(const RoutePlan& plan)
{
  parts_->route = plan;
  return parts_->sent(parts_->post({ { "order", "route" }, { "plan", plan } }));
}

void Keeper::set_steering(const SteeringPlan& plan)
{
  validate(plan);
  parts_->wait_for(parts_->post({ { "order", "steering" }, { "plan", plan } }));
}

bool Keeper::post_steering(const SteeringPlan& plan)
{
  return parts_->sent(parts_->post({ { "order", "steering" }, { "plan", plan } }));
}

void Keeper::set_placement(const PlacementPlan& plan)
{
  validate(plan);
  parts_->wait_for(parts_->post({ { "order", "placement" }, { "plan", plan } }));
}

bool Keeper::post_placement(const PlacementPlan& plan)
{
  return parts_->sent(parts_->post({ { "order", "placement" }, { "plan", plan } }));
}

void Keeper::set_pacing(const PacingPlan& plan)
{
  validate(plan);
  parts_->wait_for(parts_->post({ { "order", "pacing" }, { "plan", plan } }));
}

bool Keeper::post_pacing(const PacingPlan& plan)
{
  return parts_->sent(parts_->post({ { "order", "pacing" }, { "plan", plan } }));
}

void Keeper::guard_queue(int queue_fd, std::uint16_t number)
{
  parts_->wait_for(parts_->post({ { "order", "guard" }, { "number", number } }, queue_fd));
}

int Keeper::fd() const
{
  return parts_->socket.get();
}

bool Keeper::dispatch()
{
  bool changed = false;
  auto phase = parts_->state.phase;
  while (parts_->take())
    changed = true;
  return changed || phase != parts_->state.phase;
}

const KeeperState& Keeper::state() const
{
  return parts_->state;
}

int Keeper::pid() const
{
  return parts_->child;
}

} // namespace tandem::kernel
