// A UDP download with or without small datagrams the other way, one for every so many received: the self-contention of
// a half-duplex link, shown without TCP (Tsao and Sivakumar, CoNEXT 2009: 1464 bytes of data, 32 bytes of "ACK").
//
// iperf3 -u does not serve: what it sends the other way (--bidir) has a rate of its own, and does not fall as data is
// lost, which is what contends here.
#include "src/kernel/check.h"
#include "src/kernel/fd.h"
#include "tools/bench/endpoint.h"

#include <CLI/CLI.hpp>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

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
using std::chrono::duration_cast;
using std::chrono::nanoseconds;

struct Settings
{
  std::string address;
  std::uint16_t port = 7701;
  double seconds = 5;
  double warmup = 1;
  double patience = 1; // s without a datagram: the stream is over
  double mbps = 10;    // of UDP payload, sent whatever arrives
  unsigned size = 1464;
  unsigned reply_every = 0; // 0: none
  unsigned reply_size = 32;
};

Fd bound_socket(std::uint16_t port)
{
  Fd socket { static_cast<int>(check("open a socket", ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))) };
  const sockaddr_in place = endpoint("0.0.0.0", port);
  check("bind", bind(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place));
  return socket;
}

void sleep_until(Clock::time_point when)
{
  const nanoseconds left = duration_cast<nanoseconds>(when - Clock::now());
  if (left.count() <= 0) return;
  const timespec span { static_cast<time_t>(left.count() / 1'000'000'000),
                        static_cast<long>(left.count() % 1'000'000'000) };
  nanosleep(&span, nullptr);
}

// Sends at a steady rate; what comes back is counted.
void send_stream(const Settings& settings)
{
  Fd socket = bound_socket(settings.port);
  const sockaddr_in place = endpoint(settings.address, settings.port);
  const std::vector<char> payload(settings.size);
  const auto gap = std::chrono::duration<double>(settings.size * 8e-6 / settings.mbps);
  const Clock::time_point began = Clock::now();
  const Clock::time_point end =
      began + duration_cast<nanoseconds>(std::chrono::duration<double>(settings.seconds + settings.warmup));
  std::uint64_t sent = 0, replies = 0;
  for (Clock::time_point due = began; due < end;
       due = began + duration_cast<nanoseconds>(gap * static_cast<double>(sent)))
  {
    sleep_until(due);
    // A full queue on the way is the network's matter; the rate stays.
    (void)!sendto(socket.get(), payload.data(), payload.size(), MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&place),
                  sizeof place);
    ++sent;
    char buffer[64];
    while (recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT) >= 0)
      ++replies;
  }
  std::puts(nlohmann::json { { "sent", sent }, { "replies_received", replies } }.dump().c_str());
}

// Receives until nothing has come for `patience`; counts from `warmup` after the first datagram on.
void receive_stream(const Settings& settings)
{
  Fd socket = bound_socket(settings.port);
  std::puts("ready");
  std::fflush(stdout);
  std::vector<char> buffer(65536);
  const std::vector<char> reply(settings.reply_size);
  std::uint64_t count = 0, bytes = 0, all = 0, replies = 0;
  Clock::time_point first {}, last {};
  pollfd wait { .fd = socket.get(), .events = POLLIN, .revents = 0 };
  const auto warmup = std::chrono::duration<double>(settings.warmup);
  const auto length = std::chrono::duration<double>(settings.seconds);
  const int patience = static_cast<int>(settings.patience * 1e3);
  while (poll(&wait, 1, all == 0 ? 10'000 : patience) > 0)
  {
    sockaddr_in from {};
    socklen_t from_length = sizeof from;
    const ssize_t got =
        recvfrom(socket.get(), buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&from), &from_length);
    if (got < 0) continue;
    const Clock::time_point now = Clock::now();
    if (all++ == 0) first = now;
    if (now - first >= warmup && now - first < warmup + length)
    {
      if (count == 0)
        last = now; // the clock starts with the first counted datagram, whose bytes do not count
      else
        bytes += static_cast<std::uint64_t>(got);
      ++count;
    }
    if (settings.reply_every != 0 && all % settings.reply_every == 0
        && sendto(socket.get(), reply.data(), reply.size(), MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&from),
                  from_length)
               >= 0)
      ++replies;
  }
  if (count == 0) throw std::runtime_error { "no datagram arrived" };
  const double span = settings.seconds - std::chrono::duration<double>(last - first - warmup).count();
  std::puts(nlohmann::json { { "received", all },
                             { "counted", count },
                             { "mbps", static_cast<double>(bytes) * 8e-6 / span },
                             { "replies_sent", replies } }
                .dump()
                .c_str());
}

} // namespace

int main(int argc, char** argv)
{
  Settings settings;
  CLI::App app { "A UDP stream at a steady rate, and its receiver, which may answer every so many datagrams.",
                 "tandem-bench-udp-stream" };
  app.require_subcommand(1);
  app.add_option("--port", settings.port, "UDP port on both sides");
  app.add_option("--seconds", settings.seconds, "that are counted")->check(CLI::PositiveNumber);
  app.add_option("--warmup", settings.warmup, "seconds before that")->check(CLI::NonNegativeNumber);
  app.add_option("--patience", settings.patience, "seconds without a datagram after which the receiver ends")
      ->check(CLI::Range(0.1, 3600.0));
  CLI::App* sender = app.add_subcommand("send", "send");
  sender->add_option("address", settings.address, "the receiver")->required();
  sender->add_option("--mbps", settings.mbps, "rate of the payload")->check(CLI::PositiveNumber);
  sender->add_option("--size", settings.size, "bytes of payload")->check(CLI::Range(1u, 65000u));
  CLI::App* receiver = app.add_subcommand("receive", "receive and count");
  receiver->add_option("--reply-every", settings.reply_every, "answer one datagram in this many; 0 = none");
  receiver->add_option("--reply-size", settings.reply_size, "bytes of an answer")->check(CLI::Range(1u, 1464u));
  CLI11_PARSE(app, argc, argv);
  try
  {
    if (sender->parsed())
      send_stream(settings);
    else
      receive_stream(settings);
  }
  catch (const std::exception& error)
  {
    std::fprintf(stderr, "tandem-bench-udp-stream: %s\n", error.what());
    return 1;
  }
}
