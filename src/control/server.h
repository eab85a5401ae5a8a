// The control API: HTTP and JSON on a Unix socket, in a thread of its own. docs/control-api.md lists the requests.
#pragma once

#include "src/control/backend.h"

#include <tandem/units.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace tandem::control
{

struct ServerOptions
{
  std::filesystem::path socket; // absolute, at most 100 characters
  std::string group {};         // may use the socket too; empty: root only

  // Loopback TCP: /metrics alone, for every user of this machine.
  struct Tcp
  {
    std::string host; // "127.0.0.1" or "::1"
    std::uint16_t port = 0;
  };
  std::optional<Tcp> tcp {};

  // Answers GET /v1/doctor; empty: 404. Called from a thread of its own, one call at a time.
  std::function<nlohmann::json()> doctor {};
  // A line for the log: who changed what, and of which module; empty: of none. Called from the control thread. Empty:
  // nothing is logged.
  std::function<void(const std::string& line, const std::string& module)> log {};

  std::size_t max_sessions = 32;                  // by the socket, and so many by TCP; one more gets 503
  std::size_t max_body = 16u << 10;               // bytes of a request's body; more gets 413
  std::size_t max_header = 8u << 10;              // bytes of a request's line and header; more gets 431
  Duration timeout = std::chrono::seconds { 10 }; // for a whole request to arrive, and for a response to be taken
};

class Server
{
public:
  // Binds and starts the thread. A socket file left by a dead daemon is replaced. Throws std::runtime_error with a
  // sentence for the user: another daemon listens there, the directory or the group does not exist, ...
  // `backend` must outlive the server; it is called from the control thread.
  Server(Backend& backend, ServerOptions options);
  // Ends every session, joins the thread and removes the socket file.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace tandem::control
