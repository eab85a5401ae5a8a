#include "src/control/server.h"

#include "src/control/dashboard.h"
#include "src/control/prometheus.h"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>

namespace tandem::control
{
namespace
{

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using nlohmann::json;
// One kind of stream for Unix and TCP sessions: Beast is compiled once.
using Stream = beast::basic_stream<asio::generic::stream_protocol>;
using Local = asio::local::stream_protocol;
using Tcp = asio::ip::tcp;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

constexpr std::string_view json_type = "application/json";

[[noreturn]] void refuse_start(const std::string& what)
{
  throw std::runtime_error { what };
}

std::string fault_text()
{
  return std::strerror(errno);
}

// A module's name, a knob, a value: whatever a client typed, on one line of the log.
std::string for_log(std::string_view text)
{
  constexpr std::size_t longest = 80;
  std::string out = "\"";
  for (const char c : text.substr(0, longest))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '"' ? '?' : c;
  return out + (text.size() > longest ? "...\"" : "\"");
}

// ---- The socket file ----

// Binds beside the final name and renames: the socket is never seen with other permissions than its own, and the file
// of a dead daemon is replaced in one step.
class SocketFile
{
public:
  SocketFile(const std::filesystem::path& path, const std::string& group) : path_ { path }
  {
    if (!path.is_absolute() || path.string().size() > 100)
      refuse_start("control socket " + path.string() + ": an absolute path of at most 100 characters is needed");
    const gid_t owner = find_group(group);
    prepare_directory(path.parent_path(), owner);
    refuse_live_one();

    const std::string fresh = path.string() + ".new";
    ::unlink(fresh.c_str());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) refuse_start("control socket: " + fault_text());
    descriptor = fd;
    const Local::endpoint endpoint { fresh };
    if (::bind(fd, endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 || ::chmod(fresh.c_str(), 0660) != 0
        || ::chown(fresh.c_str(), static_cast<uid_t>(-1), owner) != 0 || ::listen(fd, 64) != 0
        || ::rename(fresh.c_str(), path.c_str()) != 0)
    {
      const std::string why = fault_text();
      ::unlink(fresh.c_str());
      ::close(fd);
      refuse_start("control socket " + path.string() + ": " + why);
    }
    struct stat status
    {
    };
    if (::stat(path.c_str(), &status) == 0) inode_ = status.st_ino;
  }

  ~SocketFile()
  {
    // Only our own: by now another daemon may have put its socket there.
    struct stat status
    {
    };
    if (::stat(path_.c_str(), &status) == 0 && status.st_ino == inode_) ::unlink(path_.c_str());
  }
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

  int descriptor = -1; // handed to the acceptor, which closes it

private:
  std::filesystem::path path_;
  ino_t inode_ = 0;

  static gid_t find_group(const std::string& group)
  {
    if (group.empty()) return static_cast<gid_t>(-1);
    const struct group* found = ::getgrnam(group.c_str());
    if (!found)
      refuse_start("daemon.socket_group = \"" + group + "\": no such group; create it (groupadd --system " + group
                   + ") or leave the setting empty");
    return found->gr_gid;
  }

  static void prepare_directory(const std::filesystem::path& directory, gid_t owner)
  {
    if (::mkdir(directory.c_str(), 0750) == 0)
    {
      if (::chmod(directory.c_str(), 0750) != 0 || ::chown(directory.c_str(), static_cast<uid_t>(-1), owner) != 0)
        refuse_start("directory " + directory.string() + " of the control socket: " + fault_text());
      return;
    }
    struct stat status
    {
    };
    if (errno != EEXIST || ::stat(directory.c_str(), &status) != 0)
      refuse_start("directory " + directory.string() + " of the control socket: " + fault_text());
    if (!S_ISDIR(status.st_mode))
      refuse_start(directory.string() + " is not a directory; the control socket needs one");
    if ((status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0)
      refuse_start("directory " + directory.string()
                   + " is writable by everyone: anyone could replace the control "
                     "socket there; remove that permission (chmod o-w) or choose another daemon.socket");
  }

  void refuse_live_one() const
  {
    struct stat status
    {
    };
    if (::lstat(path_.c_str(), &status) != 0) return;
    if (!S_ISSOCK(status.st_mode))
      refuse_start(path_.string() + " exists and is not a socket; remove it or choose another daemon.socket");
    const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const Local::endpoint endpoint { path_.string() };
    const bool live = probe >= 0
                      && (::connect(probe, endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0
                          || errno == EAGAIN /* its backlog is full: it lives */);
    if (probe >= 0) ::close(probe);
    if (live) refuse_start("a daemon already answers on " + path_.string() + "; stop it first (tandem down)");
  }
};

// ---- Requests and answers ----

struct Answer
{
  http::status status = http::status::ok;
  std::string type { json_type };
  std::string body;
  std::string allow {}; // with 405
};

std::string dumped(const json& value)
{
  // Facts may carry bytes of packets: replaced rather than refused when they are no UTF-8.
  return value.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

Answer error(http::status status, const std::string& words)
{
  return { .status = status, .body = dumped({ { "error", words } }) };
}

Answer ok(const json& value)
{
  return { .body = dumped(value) };
}

Answer method_not_allowed(const std::string& allow)
{
  Answer answer = error(http::status::method_not_allowed, "only " + allow + " is possible here");
  answer.allow = allow;
  return answer;
}

struct Peer
{
  bool local = false; // came by the Unix socket
  std::string who;    // for the log
};

// Parts of the path, without the query.
std::vector<std::string> split_path(std::string_view target)
{
  target = target.substr(0, target.find('?'));
  std::vector<std::string> parts;
  while (!target.empty())
  {
    target.remove_prefix(1); // the slash
    const std::size_t slash = std::min(target.find('/'), target.size());
    parts.emplace_back(target.substr(0, slash));
    target.remove_prefix(slash);
  }
  return parts;
}

// The one member `key` of the JSON object in `body`, which must have no other. Throws Refused with words.
json only_member(const std::string& body, const std::string& key)
{
  const std::string wanted = "a JSON object such as {\"" + key + "\": ...} is needed";
  json object;
  try
  {
    object = json::parse(body);
  }
  catch (const json::parse_error& fault)
  {
    throw Refused { Refused::Kind::bad_request,
                    "the request's body is not JSON (at byte " + std::to_string(fault.byte) + "); " + wanted };
  }
  if (!object.is_object() || object.size() != 1 || !object.contains(key))
    throw Refused { Refused::Kind::bad_request, wanted };
  return object[key];
}

// Pages of other origins must not read what the browser's machine offers on loopback: a name that resolves to
// 127.0.0.1 (DNS rebinding) is told by its Host header.
bool is_loopback_host(std::string_view host)
{
  if (host.starts_with("[::1]")) return true;
  const std::string_view name = host.substr(0, host.find(':'));
  return name == "localhost"
         || (name.starts_with("127.") && name.find_first_not_of("0123456789.") == std::string_view::npos);
}

class Router
{
public:
  Router(Backend& backend, const ServerOptions& options) : backend_ { backend }, options_ { options } {}

  Answer answer(const Request& request, const Peer& peer)
  {
    try
    {
      if (!peer.local)
      {
        const auto host = request[http::field::host];
        if (!is_loopback_host({ host.data(), host.size() }))
          return error(http::status::forbidden,
                       "the Host header must name this machine: 127.0.0.1, [::1] or localhost");
        if (request.method() != http::verb::get && request.method() != http::verb::head)
          return error(http::status::forbidden, "TCP is for reading only; use the control socket");
      }
      return route(request, peer);
    }
    catch (const Refused& refused)
    {
      switch (refused.kind)
      {
      case Refused::Kind::bad_request:
        return error(http::status::bad_request, refused.what());
      case Refused::Kind::conflict:
        return error(http::status::conflict, refused.what());
      case Refused::Kind::busy:
        return error(http::status::service_unavailable, refused.what());
      }
      return error(http::status::internal_server_error, refused.what());
    }
    catch (const std::exception& fault)
    {
      return error(http::status::internal_server_error, fault.what());
    }
  }

private:
  Backend& backend_;
  const ServerOptions& options_;

  void log(const Peer& peer, const std::string& what) const
  {
    if (options_.log) options_.log("control: " + peer.who + " " + what);
  }

  Answer route(const Request& request, const Peer& peer)
  {
    const auto target = request.target();
    if (target.empty() || target.front() != '/')
      return error(http::status::bad_request, "the request's target must be a path");
    const std::vector<std::string> path = split_path({ target.data(), target.size() });
    const bool reading = request.method() == http::verb::get || request.method() == http::verb::head;
    const bool writing = request.method() == http::verb::put;
    const auto is = [&](std::initializer_list<std::string_view> wanted)
    { return std::equal(path.begin(), path.end(), wanted.begin(), wanted.end()); };

    if (path.size() >= 3 && path[0] == "v1" && path[1] == "modules")
    {
      const std::string& module = path[2];
      if (path.size() == 3) return writing ? put_module(request, peer, module) : method_not_allowed("PUT");
      if (path.size() == 4 && path[3] == "manual")
        return reading ? Answer { .type = "text/markdown; charset=utf-8", .body = backend_.manual(module) }
                       : method_not_allowed("GET");
      if (path.size() == 5 && path[3] == "knobs")
        return writing ? put_knob(request, peer, module, path[4]) : method_not_allowed("PUT");
    }

    if (is({ "v1", "links", "wifi", "announce" }))
      return request.method() == http::verb::post ? announce(request, peer) : method_not_allowed("POST");
    if (is({ "" })) return reading ? page() : method_not_allowed("GET");
    if (is({ "metrics" })) return reading ? metrics() : method_not_allowed("GET");
    if (is({ "v1", "status" })) return reading ? ok(backend_.status()) : method_not_allowed("GET");
    if (is({ "v1", "modules" })) return reading ? ok(backend_.modules()) : method_not_allowed("GET");
    if (is({ "v1", "links" })) return reading ? ok(backend_.links()) : method_not_allowed("GET");
    if (is({ "v1", "flows" })) return reading ? ok(backend_.flows()) : method_not_allowed("GET");
    if (is({ "v1", "doctor" }) && options_.doctor) return reading ? ok(options_.doctor()) : method_not_allowed("GET");
    if (is({ "v1", "recording" })) return reading ? recording(peer) : method_not_allowed("GET");
    return error(http::status::not_found, "no such path; docs/control-api.md lists them");
  }

  static Answer page() { return { .type = "text/html; charset=utf-8", .body = std::string { dashboard_page } }; }

  Answer metrics()
  {
    return { .type = "text/plain; version=0.0.4; charset=utf-8", .body = prometheus_text(backend_.metrics()) };
  }

  Answer recording(const Peer& peer)
  {
    if (!peer.local)
      return error(http::status::forbidden, "a recording holds packets; it is given out by the control socket only");
    log(peer, "takes the recording");
    return { .type = "application/vnd.tcpdump.pcap", .body = backend_.recording() };
  }

  Answer announce(const Request& request, const Peer& peer)
  {
    const std::string wanted = "a JSON object such as {\"what\": \"risk\", \"for_s\": 0.5} is needed";
    const json object = json::parse(request.body(), nullptr, false);
    if (!object.is_object() || !object.contains("what") || !object["what"].is_string()
        || object.size() != 1 + object.count("for_s") || (object.contains("for_s") && !object["for_s"].is_number()))
      throw Refused { Refused::Kind::bad_request, wanted };
    const std::string what = object["what"];
    const double for_s = object.value("for_s", 0.5);
    backend_.announce(what, for_s);
    log(peer, "announces " + for_log(what));
    return ok({ { "what", what }, { "for_s", for_s } });
  }

  Answer put_module(const Request& request, const Peer& peer, const std::string& module)
  {
    const json enabled = only_member(request.body(), "enabled");
    if (!enabled.is_boolean()) throw Refused { Refused::Kind::bad_request, "enabled: true or false is needed" };
    backend_.enable(module, enabled.get<bool>());
    log(peer, "switches module " + for_log(module) + (enabled.get<bool>() ? " on" : " off"));
    return ok({ { "module", module }, { "enabled", enabled } });
  }

  Answer put_knob(const Request& request, const Peer& peer, const std::string& module, const std::string& knob)
  {
    const json value = only_member(request.body(), "value");
    if (!value.is_string() && !value.is_number() && !value.is_boolean())
      throw Refused { Refused::Kind::bad_request, "value: a text, a number, true or false is needed" };
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (text.size() > 200) throw Refused { Refused::Kind::bad_request, "value: at most 200 characters" };
    backend_.set(module, knob, text);
    log(peer, "sets " + for_log(module + "." + knob) + " to " + for_log(text));
    return ok({ { "module", module }, { "knob", knob }, { "value", text } });
  }
};

// ---- Sessions ----

class Session;

struct Sessions
{
  const ServerOptions& options;
  Router router;
  std::unordered_set<Session*> all {};
};

class Session : public std::enable_shared_from_this<Session>
{
public:
  Session(asio::generic::stream_protocol::socket socket, Peer peer, Sessions& sessions)
      : stream_ { std::move(socket) }, peer_ { std::move(peer) }, sessions_ { sessions }
  {
    sessions_.all.insert(this);
  }
  ~Session() { sessions_.all.erase(this); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void read()
  {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(sessions_.options.max_header));
    parser_->body_limit(sessions_.options.max_body);
    // One deadline for the whole request: a client that trickles bytes does not move it.
    stream_.expires_after(sessions_.options.timeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code fault, std::size_t) { self->have_read(fault); });
  }

  void close() { stream_.close(); }

private:
  Stream stream_;
  Peer peer_;
  Sessions& sessions_;
  // Bounds what a client can make the parser keep before it has seen a whole header.
  beast::flat_static_buffer<32u << 10> buffer_ {};
  std::optional<http::request_parser<http::string_body>> parser_ {};
  Response response_ {};

  void have_read(beast::error_code fault)
  {
    if (!fault)
    {
      const Request request = parser_->release();
      return write(sessions_.router.answer(request, peer_), request.version(), request.keep_alive(),
                   request.method() == http::verb::head);
    }
    if (fault == http::error::body_limit)
      return write(error(http::status::payload_too_large,
                         "a request's body has at most " + std::to_string(sessions_.options.max_body) + " bytes"));
    if (fault == http::error::header_limit || fault == http::error::buffer_overflow)
      return write(error(http::status::request_header_fields_too_large,
                         "a request's header has at most " + std::to_string(sessions_.options.max_header) + " bytes"));
    if (fault.category() == make_error_code(http::error::bad_method).category() && fault != http::error::end_of_stream
        && fault != http::error::partial_message)
      return write(error(http::status::bad_request, "not an HTTP request: " + fault.message()));
    // The client went away, or was too slow.
  }

  void write(Answer answer, unsigned version = 11, bool keep_alive = false, bool head_only = false)
  {
    response_ = {};
    response_.version(version);
    response_.result(answer.status);
    response_.set(http::field::content_type, answer.type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    if (answer.type.starts_with("text/html"))
      response_.set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; "
                                               "style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'");
    if (!answer.allow.empty()) response_.set(http::field::allow, answer.allow);
    response_.body() = std::move(answer.body);
    response_.keep_alive(keep_alive);
    response_.prepare_payload();
    if (head_only) response_.body().clear();
    stream_.expires_after(sessions_.options.timeout);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code fault, std::size_t)
                      {
                        if (!fault && self->response_.keep_alive()) return self->read();
                        beast::error_code ignored;
                        self->stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
                      });
  }
};

Peer local_peer(int descriptor)
{
  ucred credentials {};
  socklen_t size = sizeof credentials;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    return { true, "an unknown process" };
  return { true, "uid " + std::to_string(credentials.uid) + " (pid " + std::to_string(credentials.pid) + ")" };
}

} // namespace

struct Server::Parts
{
  Parts(Backend& backend, ServerOptions given)
      : options { std::move(given) }, file { options.socket, options.group }, sessions { options, { backend, options } }
  {
    local.assign(Local {}, file.descriptor);
    if (options.tcp) listen_on_tcp();
  }

  ServerOptions options;
  asio::io_context context { 1 };
  Local::acceptor local { context };
  Tcp::acceptor tcp { context };
  asio::steady_timer pause { context };
  SocketFile file;
  Sessions sessions;
  std::thread thread {};

  void listen_on_tcp()
  {
    const std::string name = options.tcp->host + " port " + std::to_string(options.tcp->port);
    try
    {
      const Tcp::endpoint endpoint { asio::ip::make_address(options.tcp->host), options.tcp->port };
      if (!endpoint.address().is_loopback())
        refuse_start("metrics.listen: " + name + " is not a loopback address; only this machine may ask");
      tcp.open(endpoint.protocol());
      tcp.set_option(Tcp::acceptor::reuse_address { true });
      tcp.bind(endpoint);
      tcp.listen(64);
    }
    catch (const boost::system::system_error& fault)
    {
      refuse_start("metrics.listen: cannot listen on " + name + ": " + fault.code().message()
                   + "; choose another port or leave the setting empty");
    }
  }

  template <class Acceptor>
  void accept(Acceptor& acceptor)
  {
    using Socket = typename Acceptor::protocol_type::socket;
    acceptor.async_accept(
        [this, &acceptor](beast::error_code fault, Socket socket)
        {
          if (fault == asio::error::operation_aborted) return;
          if (fault)
          {
            // Out of descriptors, most likely: a loop at full speed would not bring any back.
            pause.expires_after(std::chrono::milliseconds { 100 });
            pause.async_wait(
                [this, &acceptor](beast::error_code stopped)
                {
                  if (!stopped) accept(acceptor);
                });
            return;
          }
          begin(std::move(socket));
          accept(acceptor);
        });
  }

  template <class Socket>
  void begin(Socket socket)
  {
    Peer peer { false, "a TCP client" };
    if constexpr (std::is_same_v<Socket, Local::socket>) peer = local_peer(socket.native_handle());
    if (sessions.all.size() >= options.max_sessions)
    {
      const std::string body = R"({"error": "too many clients at a time; try again in a second"})";
      const std::string full = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                               "Connection: close\r\nContent-Length: "
                               + std::to_string(body.size()) + "\r\n\r\n" + body;
      beast::error_code ignored;
      socket.non_blocking(true, ignored); // the send buffer of a fresh socket is empty: this fits
      socket.write_some(asio::buffer(full), ignored);
      return;
    }
    std::make_shared<Session>(std::move(socket), std::move(peer), sessions)->read();
  }
};

Server::Server(Backend& backend, ServerOptions options)
    : parts_ { std::make_unique<Parts>(backend, std::move(options)) }
{
  parts_->accept(parts_->local);
  if (parts_->tcp.is_open()) parts_->accept(parts_->tcp);
  parts_->thread = std::thread { [parts = parts_.get()] { parts->context.run(); } };
}

Server::~Server()
{
  asio::post(parts_->context,
             [parts = parts_.get()]
             {
               parts->local.close();
               parts->tcp.close();
               parts->pause.cancel();
               for (Session* session : parts->sessions.all)
                 session->close();
             });
  parts_->thread.join();
}

} // namespace tandem::control
