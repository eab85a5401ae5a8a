#include "tools/tandem/top.h"

#include "tools/tandem/json_values.h"
#include "tools/tandem/output.h"
#include "tools/tandem/table.h"
#include "tools/tandem/top_view.h"
#include "tools/tandem/why_view.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>

namespace tandem::cli
{
namespace
{

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int bad_input = 2;
constexpr const char* help = "1-9 switch a module, p pause, q quit";

// The terminal without line buffering and echo, on its second screen; as it was at the end, however that comes.
class Screen
{
public:
  Screen()
  {
    if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0 || ::tcgetattr(STDIN_FILENO, &before_) != 0)
      throw Failure { "tandem top needs a terminal; for scripts: tandem status --json", bad_input };
    sigset_t ends {};
    sigemptyset(&ends);
    for (const int signal : { SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP })
      sigaddset(&ends, signal);
    ::sigprocmask(SIG_BLOCK, &ends, nullptr);
    signals_ = ::signalfd(-1, &ends, SFD_CLOEXEC);
    enter();
  }
  ~Screen()
  {
    leave();
    if (signals_ >= 0) ::close(signals_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  static winsize size()
  {
    winsize found {};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0 || found.ws_row == 0 || found.ws_col == 0)
      found = { .ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0 };
    return found;
  }

  // The key that was pressed within that time; 0: none; 'q' also for a signal that ends.
  char key(std::chrono::milliseconds within) const
  {
    std::array<pollfd, 2> wait { { { STDIN_FILENO, POLLIN, 0 }, { signals_, POLLIN, 0 } } };
    if (::poll(wait.data(), wait.size(), static_cast<int>(std::max<std::int64_t>(within.count(), 0))) <= 0) return 0;
    if (wait[1].revents != 0)
    {
      signalfd_siginfo told {};
      if (::read(signals_, &told, sizeof told) != sizeof told) return 'q';
      if (told.ssi_signo == SIGTSTP) stop();
      return told.ssi_signo == SIGWINCH || told.ssi_signo == SIGTSTP ? 0 : 'q';
    }
    char pressed = 0;
    if (::read(STDIN_FILENO, &pressed, 1) != 1) return 'q'; // the terminal is gone
    if (pressed != '\x1b') return pressed;
    skip_sequence();
    return 0;
  }

private:
  void enter() const
  {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    std::cout << "\x1b[?1049h\x1b[?25l" << std::flush;
  }

  void leave() const
  {
    std::cout << "\x1b[?25h\x1b[?1049l" << std::flush;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  // Ctrl-Z: the shell gets its terminal as it was, until `fg`.
  void stop() const
  {
    leave();
    ::raise(SIGSTOP);
    enter();
  }

  // What follows ESC: of Page Down "[6~", of F1 "OP", of Alt and a digit that digit. No command is meant by it.
  static void skip_sequence()
  {
    const auto next = []() -> char
    {
      pollfd more { STDIN_FILENO, POLLIN, 0 };
      char one = 0;
      constexpr int apart_ms = 50; // over a network the key may come in pieces
      return ::poll(&more, 1, apart_ms) > 0 && ::read(STDIN_FILENO, &one, 1) == 1 ? one : '\0';
    };
    const char kind = next();
    if (kind == 'O') next();
    if (kind != '[') return;
    for (char one = next(); one != '\0' && (one < '@' || one > '~');)
      one = next(); // ECMA-48: parameters, then one letter or ~
  }

  termios before_ {};
  int signals_ = -1;
};

Peer resolve(const std::string& server)
{
  Peer peer { .name = server, .addresses = {}, .port = 0 };
  std::string host = server;
  // A single colon, or one behind a bracket, begins a port; an IPv6 address alone has more.
  const std::size_t colon = server.rfind(':');
  const bool bracketed = server.starts_with('[');
  if (colon != std::string::npos && (bracketed ? server[colon - 1] == ']' : server.find(':') == colon))
  {
    const char* const end = server.data() + server.size();
    const auto [stopped, fault] = std::from_chars(server.data() + colon + 1, end, peer.port);
    if (fault != std::errc {} || stopped != end || peer.port == 0)
      throw Failure { "\"" + printable(server) + "\": behind the colon a port from 1 to 65535 is needed", bad_input };
    host = server.substr(0, colon);
  }
  if (bracketed && host.size() > 1 && host.back() == ']') host = host.substr(1, host.size() - 2);

  if (host.empty())
    throw Failure { "\"" + printable(server) + "\": the name or address of a server is needed", bad_input };

  addrinfo wanted {};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int fault = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found); fault != 0)
    throw Failure { printable(host) + ": " + ::gai_strerror(fault)
                    + "; `tandem flows` shows the addresses of all connections" };
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all { found, ::freeaddrinfo };
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
  {
    std::array<char, INET6_ADDRSTRLEN> text {};
    const void* address = one->ai_family == AF_INET
                              ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(one->ai_addr)->sin_addr)
                              : &reinterpret_cast<const sockaddr_in6*>(one->ai_addr)->sin6_addr;
    if (::inet_ntop(one->ai_family, address, text.data(), text.size()) != nullptr)
      peer.addresses.emplace_back(text.data());
  }
  return peer;
}

} // namespace

int top(const Client& client)
{
  json status = client.get_json("/v1/status"); // before the screen changes: why nobody answers stays readable
  json flows = client.get_json("/v1/flows");
  const Style style = style_of_stdout();
  const Screen screen {};
  TopView view {};
  constexpr auto every = std::chrono::seconds { 1 };
  Clock::time_point asked = Clock::now(), next = asked + every; // a look that is due in a pause is left out
  double seconds = 0;
  bool paused = false;
  std::string said = help;
  while (true)
  {
    const winsize size = Screen::size();
    const std::string text = view.show(status, flows, seconds, size.ws_row - 1u, size.ws_col, style);
    std::cout << "\x1b[H\x1b[2J" << text << "\x1b[" << size.ws_row << ";1H"
              << style(Tone::faint, cut((paused ? "paused; " : "") + said, size.ws_col)) << std::flush;
    said = help;
    const char key = screen.key(std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()));
    if (key == 'q' || key == 3 || key == 4) return 0;
    if (key == 'p') paused = !paused;
    if (key >= '1' && key <= '9' && static_cast<std::size_t>(key - '1') < view.modules().size())
    {
      const std::string module = view.modules()[static_cast<std::size_t>(key - '1')];
      try
      {
        client.put("/v1/modules/" + module, { { "enabled", !view.enabled(module) } });
        said = module + (view.enabled(module) ? " is off now" : " is on now");
        next = Clock::now(); // shown at once
      }
      catch (const Failure& failure)
      {
        said = failure.what();
      }
    }
    seconds = 0;
    const auto now = Clock::now();
    if (now < next) continue;
    next = now + every;
    if (paused) continue;
    try
    {
      status = client.get_json("/v1/status");
      flows = client.get_json("/v1/flows");
      seconds = std::chrono::duration<double>(now - asked).count();
    }
    catch (const Failure& failure)
    {
      said = failure.what(); // it may come back: a restart
    }
    asked = now;
  }
}

int why(const Client& client, const std::string& server, bool as_json)
{
  const Peer peer = resolve(server);
  const json all = client.get_json("/v1/flows");
  const std::vector<json> flows = flows_to(peer, all);
  if (flows.empty())
  {
    std::string addresses;
    for (const std::string& address : peer.addresses)
      addresses += (addresses.empty() ? "" : ", ") + address;
    const json status = client.get_json("/v1/status");
    const std::string off = words_of(status, "hands_off");
    constexpr std::size_t most_told = 1000; // by the daemon
    const double known = number(part(status, "flows"), "count");
    const std::string among = all.size() < most_told ? "known"
                                                     : "among the " + std::to_string(all.size()) + " of "
                                                           + fixed(known, 0) + " that are told";
    throw Failure { "no connection to " + printable(server) + (addresses == server ? "" : " (" + addresses + ")")
                    + " is " + among + ". "
                    + (off.empty() ? "Tandem follows those that begin while it runs; `tandem flows` shows them"
                                   : "Tandem has its hands off all of them: " + off) };
  }
  print(as_json ? pretty(flows) : explain_flows(flows, client.get_json("/v1/modules"), style_of_stdout()));
  return 0;
}

} // namespace tandem::cli
