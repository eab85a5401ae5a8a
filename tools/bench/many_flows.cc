// Many TCP connections at once: some held open and used now and then, others opened and closed at a steady rate. Client
// and server are one program; on every connection the client asks for a few bytes and counts what comes.
#include "src/kernel/check.h"
#include "src/kernel/fd.h"
#include "tools/bench/endpoint.h"

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nlohmann/json.hpp>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

using tandem::bench::endpoint;
using tandem::kernel::check;
using tandem::kernel::Fd;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Settings
{
  std::string address;
  std::uint16_t port = 7800;
  unsigned ports = 8; // from `port` on
  unsigned hold = 1000;
  double open_rate = 2000; // connections to hold, opened per second
  double churn_rate = 0;   // short connections per second, once all are held
  double seconds = 5;      // after all are held
  double interval = 5;     // between two uses of a held connection
  std::uint32_t bytes = 4096;
  double timeout = 10; // a use that takes longer has failed
};

// The request is the number of bytes wanted, in network byte order.
using Request = std::array<unsigned char, 4>;
constexpr std::uint32_t longest_answer = 1u << 20;

// Raises the limit of open files towards `wanted`; gives what it is then, at least `needed`.
std::size_t allow_descriptors(std::size_t wanted, std::size_t needed)
{
  rlimit limit {};
  check("read the limit of open files", getrlimit(RLIMIT_NOFILE, &limit));
  if (limit.rlim_cur < wanted)
  {
    // Beyond the hard limit only with CAP_SYS_RESOURCE; without it, up to the hard limit.
    rlimit more { wanted, std::max<rlim_t>(limit.rlim_max, wanted) };
    if (setrlimit(RLIMIT_NOFILE, &more) < 0)
    {
      more = { std::min<rlim_t>(limit.rlim_max, wanted), limit.rlim_max };
      check("raise the limit of open files", setrlimit(RLIMIT_NOFILE, &more));
    }
    limit = more;
  }
  if (limit.rlim_cur < needed)
    throw std::runtime_error { "only " + std::to_string(limit.rlim_cur) + " open files are allowed (ulimit -Hn), "
                               + std::to_string(needed) + " are needed" };
  return limit.rlim_cur;
}

void watch(const Fd& epoll, int operation, int socket, std::uint32_t events, std::uint64_t data)
{
  epoll_event event {};
  event.events = events;
  event.data.u64 = data;
  check("watch a socket", epoll_ctl(epoll.get(), operation, socket, &event));
}

// ---- server

struct Peer
{
  Fd socket {};
  Request request {};
  std::size_t have = 0;   // bytes of the request
  std::uint32_t owed = 0; // bytes of the answer
};

class Server
{
public:
  explicit Server(const Settings& settings) : settings_ { settings }
  {
    allow_descriptors(65536, 1024);
    epoll_ = Fd { static_cast<int>(check("open an epoll", epoll_create1(EPOLL_CLOEXEC))) };
    for (unsigned i = 0; i < settings.ports; ++i)
    {
      Fd listener { static_cast<int>(
          check("open a socket", socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0))) };
      const int one = 1;
      check("reuse the address", setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
      const sockaddr_in place = endpoint("0.0.0.0", static_cast<std::uint16_t>(settings.port + i));
      check("bind", bind(listener.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place));
      check("listen", listen(listener.get(), 4096));
      watch(epoll_, EPOLL_CTL_ADD, listener.get(), EPOLLIN, static_cast<std::uint64_t>(listener.get()));
      listeners_.push_back(std::move(listener));
    }
    std::puts("ready");
    std::fflush(stdout);
  }

  void run()
  {
    std::array<epoll_event, 256> events {};
    for (;;)
    {
      const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < count; ++i)
      {
        const int socket = static_cast<int>(events[static_cast<std::size_t>(i)].data.u64);
        const bool listens =
            std::any_of(listeners_.begin(), listeners_.end(), [&](const Fd& l) { return l.get() == socket; });
        if (listens)
          welcome(socket);
        else if (const auto found = peers_.find(socket); found != peers_.end() && !serve(found->second))
          peers_.erase(found);
      }
    }
  }

private:
  void welcome(int listener)
  {
    for (;;)
    {
      const int socket = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (socket < 0) return;
      watch(epoll_, EPOLL_CTL_ADD, socket, EPOLLIN | EPOLLRDHUP, static_cast<std::uint64_t>(socket));
      peers_[socket] = Peer { .socket = Fd { socket } };
    }
  }

  // False when the connection is over.
  bool serve(Peer& peer)
  {
    for (;;)
    {
      while (peer.owed > 0)
      {
        const ssize_t sent =
            send(peer.socket.get(), zeros_.data(), std::min<std::size_t>(peer.owed, zeros_.size()), MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
        {
          watch(epoll_, EPOLL_CTL_MOD, peer.socket.get(), EPOLLOUT, static_cast<std::uint64_t>(peer.socket.get()));
          return true;
        }
        if (sent < 0) return false;
        peer.owed -= static_cast<std::uint32_t>(sent);
        if (peer.owed == 0)
          watch(epoll_, EPOLL_CTL_MOD, peer.socket.get(), EPOLLIN | EPOLLRDHUP,
                static_cast<std::uint64_t>(peer.socket.get()));
      }
      const ssize_t got = recv(peer.socket.get(), peer.request.data() + peer.have, peer.request.size() - peer.have, 0);
      if (got < 0 && errno == EAGAIN) return true;
      if (got <= 0) return false;
      peer.have += static_cast<std::size_t>(got);
      if (peer.have < peer.request.size()) continue;
      std::uint32_t wanted = 0;
      std::memcpy(&wanted, peer.request.data(), sizeof wanted);
      peer.owed = std::min(ntohl(wanted), longest_answer);
      peer.have = 0;
    }
  }

  Settings settings_;
  Fd epoll_ {};
  std::vector<Fd> listeners_;
  std::map<int, Peer> peers_;
  std::vector<char> zeros_ = std::vector<char>(16384);
};

// ---- client

struct Flow
{
  Fd socket {};
  bool held = false; // stays open
  bool connected = false;
  bool busy = false; // waits for the connection or for an answer
  std::uint32_t missing = 0;
  Clock::time_point began {}; // of the connection attempt or of the use
};

class Client
{
public:
  explicit Client(const Settings& settings) : settings_ { settings }
  {
    const std::size_t places = allow_descriptors(settings.hold + 20000, settings.hold + 1000) - 64;
    epoll_ = Fd { static_cast<int>(check("open an epoll", epoll_create1(EPOLL_CLOEXEC))) };
    flows_.resize(std::min<std::size_t>(places, settings.hold + 20000));
    for (std::size_t i = flows_.size(); i-- > 0;)
      free_.push_back(i);
  }

  void run()
  {
    open_held();
    std::puts(nlohmann::json { { "phase", "held" }, { "open", held_.size() }, { "failed", failed() } }.dump().c_str());
    std::fflush(stdout);
    use_them();
    settle();
    std::sort(connect_times_.begin(), connect_times_.end());
    std::sort(use_times_.begin(), use_times_.end());
    std::puts(nlohmann::json {
        { "phase", "done" },
        { "attempted", attempted_ },
        { "connected", connect_times_.size() },
        { "uses", use_times_.size() },
        { "failed", failed() },
        { "failures", failures_ },
        { "bytes", bytes_ },
        { "opened_per_second", churn_seconds_ > 0 ? static_cast<double>(churned_) / churn_seconds_ : 0.0 },
        { "connect_p50_ms", at(connect_times_, 0.5) },
        { "connect_p99_ms", at(connect_times_, 0.99) },
        { "use_p50_ms", at(use_times_, 0.5) },
        { "use_p99_ms", at(use_times_, 0.99) } }
                  .dump()
                  .c_str());
  }

private:
  static double at(const std::vector<double>& sorted, double share)
  {
    return sorted.empty() ? 0
                          : sorted[std::min(sorted.size() - 1,
                                            static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
  }

  std::uint64_t failed() const
  {
    std::uint64_t sum = 0;
    for (const auto& [reason, count] : failures_)
      sum += count;
    return sum;
  }

  void open_held()
  {
    const Clock::time_point began = Clock::now();
    while (held_.size() < settings_.hold)
    {
      const auto due = static_cast<std::size_t>(Seconds(Clock::now() - began).count() * settings_.open_rate) + 1;
      while (held_.size() < std::min<std::size_t>(due, settings_.hold))
        held_.push_back(open(true));
      wait(1);
    }
    while (busy_ > 0)
      wait(10);
  }

  void use_them()
  {
    const Clock::time_point began = Clock::now();
    std::size_t opened = 0, used = 0;
    const double use_rate = static_cast<double>(held_.size()) / settings_.interval;
    for (;;)
    {
      const double now = Seconds(Clock::now() - began).count();
      if (now >= settings_.seconds) break;
      for (const auto due = static_cast<std::size_t>(now * settings_.churn_rate); opened < due; ++opened)
        open(false);
      for (const auto due = static_cast<std::size_t>(now * use_rate); used < due; ++used)
        if (Flow& flow = flows_[held_[used % held_.size()]]; flow.socket && flow.connected && !flow.busy) ask(flow);
      wait(1);
    }
    churned_ = opened;
    churn_seconds_ = Seconds(Clock::now() - began).count();
  }

  void settle()
  {
    while (busy_ > 0)
      wait(10);
  }

  std::size_t open(bool held)
  {
    if (free_.empty()) throw std::runtime_error { "too many connections wait for an answer" };
    const std::size_t index = free_.back();
    free_.pop_back();
    Flow& flow = flows_[index];
    flow = Flow { .held = held, .began = Clock::now() };
    flow.socket =
        Fd { static_cast<int>(check("open a socket", socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0))) };
    const sockaddr_in place =
        endpoint(settings_.address, static_cast<std::uint16_t>(settings_.port + attempted_++ % settings_.ports));
    if (connect(flow.socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) < 0 && errno != EINPROGRESS)
    {
      flow.busy = true;
      ++busy_;
      fail(index, errno);
      return index;
    }
    flow.busy = true;
    ++busy_;
    watch(epoll_, EPOLL_CTL_ADD, flow.socket.get(), EPOLLOUT, index);
    return index;
  }

  void ask(Flow& flow)
  {
    if (!flow.busy) ++busy_;
    flow.busy = true;
    flow.began = Clock::now();
    flow.missing = settings_.bytes;
    const std::uint32_t wanted = htonl(settings_.bytes);
    const auto index = static_cast<std::size_t>(&flow - flows_.data());
    if (send(flow.socket.get(), &wanted, sizeof wanted, MSG_NOSIGNAL) != sizeof wanted) fail(index, errno);
  }

  void wait(int milliseconds)
  {
    std::array<epoll_event, 512> events {};
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds);
    for (int i = 0; i < count; ++i)
      advance(static_cast<std::size_t>(events[static_cast<std::size_t>(i)].data.u64));
    if (const Clock::time_point now = Clock::now(); now - swept_ > std::chrono::seconds { 1 })
    {
      swept_ = now;
      for (std::size_t i = 0; i < flows_.size(); ++i)
        if (flows_[i].busy && Seconds(now - flows_[i].began).count() > settings_.timeout) fail(i, ETIMEDOUT);
    }
  }

  void advance(std::size_t index)
  {
    Flow& flow = flows_[index];
    if (!flow.socket) return;
    if (!flow.connected)
    {
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(flow.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error != 0) return fail(index, error);
      flow.connected = true;
      connect_times_.push_back(Seconds(Clock::now() - flow.began).count() * 1e3);
      watch(epoll_, EPOLL_CTL_MOD, flow.socket.get(), EPOLLIN, index);
      return ask(flow);
    }
    std::array<char, 65536> buffer;
    for (;;)
    {
      const ssize_t got = recv(flow.socket.get(), buffer.data(), buffer.size(), 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (got <= 0) return fail(index, got == 0 ? ECONNRESET : errno);
      bytes_ += static_cast<std::uint64_t>(got);
      flow.missing -= std::min(flow.missing, static_cast<std::uint32_t>(got));
      if (flow.missing > 0 || !flow.busy) continue;
      use_times_.push_back(Seconds(Clock::now() - flow.began).count() * 1e3);
      flow.busy = false;
      --busy_;
      if (!flow.held) return close(index);
    }
  }

  void fail(std::size_t index, int reason)
  {
    Flow& flow = flows_[index];
    ++failures_[std::string { flow.connected ? "use: " : "connect: " } + std::strerror(reason)];
    if (flow.busy) --busy_;
    flow.busy = false;
    close(index);
  }

  void close(std::size_t index)
  {
    flows_[index].socket.reset();
    if (!flows_[index].held) free_.push_back(index); // a held one keeps its place in held_
  }

  Settings settings_;
  Fd epoll_ {};
  std::vector<Flow> flows_;
  std::vector<std::size_t> free_;
  std::vector<std::size_t> held_;
  std::vector<double> connect_times_, use_times_;
  std::map<std::string, std::uint64_t> failures_;
  std::uint64_t bytes_ = 0;
  std::size_t attempted_ = 0, busy_ = 0, churned_ = 0;
  double churn_seconds_ = 0;
  Clock::time_point swept_ {};
};

} // namespace

int main(int argc, char** argv)
{
  Settings settings;
  CLI::App app { "Many TCP connections at once, held and short; prints failures and times as JSON.",
                 "tandem-bench-many-flows" };
  app.require_subcommand(1);
  app.add_option("--port", settings.port, "first TCP port");
  app.add_option("--ports", settings.ports, "number of ports")->check(CLI::Range(1u, 100u));
  CLI::App* server = app.add_subcommand("server", "answer until killed");
  CLI::App* client = app.add_subcommand("client", "open connections and use them");
  client->add_option("address", settings.address, "the server")->required();
  client->add_option("--hold", settings.hold, "connections that stay open")->check(CLI::Range(0u, 40000u));
  client->add_option("--open-rate", settings.open_rate, "of these, opened per second")->check(CLI::PositiveNumber);
  client->add_option("--churn-rate", settings.churn_rate, "short connections per second")
      ->check(CLI::NonNegativeNumber);
  client->add_option("--seconds", settings.seconds, "after all are open")->check(CLI::NonNegativeNumber);
  client->add_option("--interval", settings.interval, "seconds between two uses of one")->check(CLI::PositiveNumber);
  client->add_option("--bytes", settings.bytes, "asked for in each use")->check(CLI::Range(1u, longest_answer));
  CLI11_PARSE(app, argc, argv);
  try
  {
    if (server->parsed())
      Server { settings }.run();
    else
      Client { settings }.run();
  }
  catch (const std::exception& error)
  {
    std::fprintf(stderr, "tandem-bench-many-flows: %s\n", error.what());
    return 1;
  }
}
