// Fetches pieces of a download by replay, without a daemon: what the tests of tests/lab/test_mirror_replay.py look at.
//
//   replay_probe --cell IF --server ADDRESS --path /random [--port 80] [--wifi IF] --piece FROM-TO ... [--out FILE]
//
// The original head comes by an ordinary connection, which then closes. Offsets of pieces are of the body. Prints one
// JSON object per piece, in order of completion, and one of the sums.
#include "src/fetch/replay.h"
#include "src/kernel/check.h"
#include "src/kernel/clock.h"
#include "src/kernel/fd.h"

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <boost/asio/steady_timer.hpp>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace
{

using namespace tandem;
using nlohmann::json;

struct Settings
{
  fetch::ReplayOptions options {};
  std::string server;
  std::uint16_t port = 80;
  std::string path = "/random";
  std::string method = "GET";
  std::vector<std::string> headers;
  std::vector<std::string> pieces;
  std::string out;
  double deadline_s = 30;
  double guard_ms = 256;
  double sweep_mbps = 0;
  double pause_s = 0;
  double linger_s = 0;
  bool at_once = false;
  bool honest = false;
  bool full_guard = false;
  bool no_forget = false;
  std::string etag;         // pretends that the original answer had this one
  std::uint64_t length = 0; // pretends that the original answer had this one
};

Address address(const std::string& text)
{
  Address out;
  out.v6 = text.find(':') != std::string::npos;
  if (inet_pton(out.v6 ? AF_INET6 : AF_INET, text.c_str(), out.bytes.data()) != 1)
    throw std::runtime_error { "not an address: " + text };
  return out;
}

// The head of the answer to `request`, by the kernel's own TCP.
std::string original_head(const Settings& settings, const std::string& request)
{
  const Address to = address(settings.server);
  const kernel::Fd tcp { static_cast<int>(
      kernel::check("open a socket", ::socket(to.v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0))) };
  sockaddr_storage storage {};
  socklen_t size = 0;
  if (to.v6)
  {
    sockaddr_in6 v6 {};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(settings.port);
    std::memcpy(&v6.sin6_addr, to.bytes.data(), 16);
    std::memcpy(&storage, &v6, size = sizeof v6);
  }
  else
  {
    sockaddr_in v4 {};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(settings.port);
    std::memcpy(&v4.sin_addr, to.bytes.data(), 4);
    std::memcpy(&storage, &v4, size = sizeof v4);
  }
  kernel::check("connect", ::connect(tcp.get(), reinterpret_cast<sockaddr*>(&storage), size));
  kernel::check("send the request", ::send(tcp.get(), request.data(), request.size(), 0));
  std::string head;
  char buffer[4096];
  for (;;)
  {
    const auto count = kernel::check("read the answer", ::recv(tcp.get(), buffer, sizeof buffer, 0));
    if (count == 0) throw std::runtime_error { "the answer has no head" };
    head.append(buffer, static_cast<std::size_t>(count));
    if (const auto end = head.find("\r\n\r\n"); end != std::string::npos) return head.substr(0, end + 4);
  }
}

std::string field(const std::string& head, const std::string& name)
{
  const auto at = head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return {};
  const auto from = at + name.size() + 4;
  return head.substr(from, head.find("\r\n", from) - from);
}

std::vector<std::byte> bytes(const std::string& text)
{
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return { begin, begin + text.size() };
}

void replace_field(std::string& head, const std::string& name, const std::string& value)
{
  if (value.empty()) return;
  const std::string old = field(head, name);
  const auto at = head.find("\r\n" + name + ": ");
  if (at != std::string::npos) head.replace(at + name.size() + 4, old.size(), value);
}

int run(const Settings& settings)
{
  std::string request = settings.method + " " + settings.path + " HTTP/1.1\r\nHost: " + settings.server + "\r\n";
  for (const auto& header : settings.headers)
    request += header + "\r\n";
  request += "\r\n";
  std::string head = original_head(settings, request);
  replace_field(head, "ETag", settings.etag);
  if (settings.length != 0) replace_field(head, "Content-Length", std::to_string(settings.length));
  auto download = std::make_shared<fetch::Download>();
  download->flow = 1;
  download->key.remote = address(settings.server);
  download->key.remote_port = settings.port;
  download->request = bytes(request);
  download->head = bytes(head);
  if (const auto length = field(head, "Content-Length"); !length.empty()) download->length = std::stoull(length);
  download->validator = field(head, "ETag");

  boost::asio::io_context context;
  fetch::Replay replay { context, settings.options };
  std::ofstream out;
  if (!settings.out.empty()) out.open(settings.out, std::ios::binary);
  std::vector<fetch::Piece> wanted;
  for (const auto& text : settings.pieces)
  {
    const auto dash = text.find('-');
    const std::uint64_t from = std::stoull(text), to = std::stoull(text.substr(dash + 1));
    wanted.push_back({ from + head.size(), to + head.size() });
  }
  std::size_t done = 0;
  const Tick start = kernel::now();
  const auto since = [&] { return seconds(kernel::now() - start); };
  std::function<void(std::size_t)> ask = [&](std::size_t at)
  {
    replay.fetch(download, wanted[at], kernel::now() + from_seconds(settings.deadline_s),
                 [&, at](fetch::Fetched got)
                 {
                   if (got.ok && out)
                     out.write(reinterpret_cast<const char*>(got.bytes.data()),
                               static_cast<std::streamsize>(got.bytes.size()));
                   std::cout << json { { "piece", at },
                                       { "from", wanted[at].from - head.size() },
                                       { "size", got.bytes.size() },
                                       { "ok", got.ok },
                                       { "why", std::string { got.why } },
                                       { "took_ms", milliseconds(got.took) },
                                       { "cell_bytes", got.cell_bytes },
                                       { "at_s", since() } }
                             << std::endl;
                   if (++done == wanted.size()) return context.stop();
                   if (settings.at_once) return;
                   if (settings.pause_s > 0)
                   {
                     auto timer = std::make_shared<boost::asio::steady_timer>(
                         context, std::chrono::duration_cast<std::chrono::nanoseconds>(from_seconds(settings.pause_s)));
                     timer->async_wait([&, at, timer](const boost::system::error_code&) { ask(at + 1); });
                   }
                   else
                     ask(at + 1);
                 });
  };
  if (settings.at_once)
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ask(i);
  else
    ask(0);
  context.run();
  const double took = since();
  if (!settings.no_forget) replay.forget(1);
  const auto stats = replay.stats();
  std::cout << json { { "took_s", took },           { "connections", stats.connections }, { "fetched", stats.fetched },
                      { "refused", stats.refused }, { "cell_bytes", stats.cell_bytes },   { "stalls", stats.stalls },
                      { "ahead", stats.ahead } }
            << std::endl;
  if (settings.linger_s > 0)
  {
    context.restart();
    context.run_for(std::chrono::duration_cast<std::chrono::milliseconds>(from_seconds(settings.linger_s)));
  }
  return 0;
}

} // namespace

int main(int argc, char** argv)
{
  Settings settings;
  CLI::App app { "Fetches pieces of a download by replay" };
  app.add_option("--cell", settings.options.cell)->required();
  app.add_option("--server", settings.server)->required();
  app.add_option("--port", settings.port);
  app.add_option("--path", settings.path);
  app.add_option("--method", settings.method);
  app.add_option("--header", settings.headers);
  app.add_option("--piece", settings.pieces)->required();
  app.add_option("--out", settings.out);
  app.add_option("--deadline", settings.deadline_s);
  app.add_option("--guard", settings.guard_ms, "ms");
  app.add_option("--sweep-rate", settings.sweep_mbps, "Mb/s");
  app.add_option("--sweep-window", settings.options.sweep_window, "bytes");
  app.add_option("--pause", settings.pause_s, "seconds between one piece and the next");
  app.add_option("--linger", settings.linger_s, "seconds to stay at the end");
  app.add_option("--pretend-etag", settings.etag);
  app.add_option("--pretend-length", settings.length);
  app.add_flag("--at-once", settings.at_once);
  app.add_flag("--honest", settings.honest);
  app.add_flag("--full-guard", settings.full_guard);
  app.add_flag("--credentials", settings.options.credentials);
  app.add_flag("--no-forget", settings.no_forget);
  CLI11_PARSE(app, argc, argv);
  settings.options.guard = from_seconds(settings.guard_ms / 1e3);
  settings.options.optimistic = !settings.honest;
  settings.options.early_guard = !settings.full_guard;
  if (settings.sweep_mbps > 0) settings.options.sweep_rate = { settings.sweep_mbps * 1e6 };
  try
  {
    return run(settings);
  }
  catch (const std::exception& error)
  {
    std::fprintf(stderr, "replay_probe: %s\n", error.what());
    return 1;
  }
}
