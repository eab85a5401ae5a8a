// TCP request and response of one byte, over and over on one connection: the round-trip time that a program sees.
#include "src/kernel/check.h"
#include "src/kernel/fd.h"
#include "tools/bench/endpoint.h"

#include <CLI/CLI.hpp>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

using tandem::bench::endpoint;
using tandem::kernel::check;
using tandem::kernel::Fd;
using Clock = std::chrono::steady_clock;

struct Settings
{
  std::string address;
  std::uint16_t port = 7700;
  unsigned rounds = 10000;
  unsigned warmup = 500;
  bool busy = false;
};

void set(const Fd& socket, int level, int option, int value)
{
  check("set a socket option", setsockopt(socket.get(), level, option, &value, sizeof value));
}

// One byte in; false at the end of the connection.
bool receive(const Fd& socket, bool busy)
{
  char byte = 0;
  for (;;)
  {
    const ssize_t count = recv(socket.get(), &byte, 1, busy ? MSG_DONTWAIT : 0);
    if (count == 1) return true;
    if (count == 0) return false;
    if (errno != EAGAIN && errno != EINTR) check("receive", -1);
  }
}

void serve(const Settings& settings)
{
  Fd listener { static_cast<int>(check("open a socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))) };
  set(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  const sockaddr_in place = endpoint("0.0.0.0", settings.port);
  check("bind", bind(listener.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place));
  check("listen", listen(listener.get(), 8));
  std::puts("ready");
  std::fflush(stdout);
  for (;;)
  {
    Fd peer { static_cast<int>(check("accept", accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))) };
    set(peer, IPPROTO_TCP, TCP_NODELAY, 1);
    // A client that goes away ends its connection, not the server.
    while (receive(peer, settings.busy))
      if (send(peer.get(), "x", 1, MSG_NOSIGNAL) != 1) break;
  }
}

double microseconds(Clock::duration span)
{
  return std::chrono::duration<double, std::micro>(span).count();
}

void ping(const Settings& settings)
{
  Fd socket { static_cast<int>(check("open a socket", ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))) };
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  const sockaddr_in place = endpoint(settings.address, settings.port);
  check("connect", connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place));
  std::vector<Clock::duration> spans;
  spans.reserve(settings.rounds);
  for (unsigned round = 0; round < settings.warmup + settings.rounds; ++round)
  {
    const Clock::time_point began = Clock::now();
    check("send", send(socket.get(), "x", 1, MSG_NOSIGNAL));
    if (!receive(socket, settings.busy)) throw std::runtime_error { "the server closed the connection" };
    if (round >= settings.warmup) spans.push_back(Clock::now() - began);
  }
  std::sort(spans.begin(), spans.end());
  const auto at = [&](double share)
  {
    return microseconds(
        spans[std::min(spans.size() - 1, static_cast<std::size_t>(share * static_cast<double>(spans.size())))]);
  };
  Clock::duration sum {};
  for (const Clock::duration span : spans)
    sum += span;
  std::puts(nlohmann::json { { "rounds", settings.rounds },
                             { "minimum_us", at(0) },
                             { "p50_us", at(0.5) },
                             { "p90_us", at(0.9) },
                             { "p99_us", at(0.99) },
                             { "p999_us", at(0.999) },
                             { "maximum_us", at(1) },
                             { "mean_us", microseconds(sum) / settings.rounds } }
                .dump()
                .c_str());
}

} // namespace

int main(int argc, char** argv)
{
  Settings settings;
  CLI::App app { "Request and response of one byte over TCP; prints the round-trip times' percentiles as JSON.",
                 "tandem-bench-ping-pong" };
  app.require_subcommand(1);
  app.add_option("--port", settings.port, "TCP port");
  app.add_flag("--busy", settings.busy, "poll without sleeping");
  CLI::App* server = app.add_subcommand("server", "answer until killed");
  CLI::App* client = app.add_subcommand("client", "ask");
  client->add_option("address", settings.address, "the server")->required();
  client->add_option("--rounds", settings.rounds, "round trips that are measured")->check(CLI::Range(1u, 10'000'000u));
  client->add_option("--warmup", settings.warmup, "round trips before that");
  CLI11_PARSE(app, argc, argv);
  try
  {
    if (server->parsed())
      serve(settings);
    else
      ping(settings);
  }
  catch (const std::exception& error)
  {
    std::fprintf(stderr, "tandem-bench-ping-pong: %s\n", error.what());
    return 1;
  }
}
