#include "src/control/server.h"

#include "src/control/router.h"
#include "src/control/socket_file.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
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
// One kind of stream for Unix and TCP sessions: Beast is compiled once.
using Stream = beast::basic_stream<asio::generic::stream_protocol>;
using Local = asio::local::stream_protocol;
using Tcp = asio::ip::tcp;
using Message = http::request<http::string_body>;
using Response = http::response<http::string_body>;

struct Peer
{
  bool local = false; // came by the Unix socket
  std::string who;    // for the log
};

std::string_view view(beast::string_view text)
{
  return { text.data(), text.size() };
}

Request request_of(const Message& message, const Peer& peer)
{
  return { .method = view(message.method_string()),
           .target = view(message.target()),
           .host = view(message[http::field::host]),
           .body = message.body(),
           .local = peer.local,
           .who = peer.who };
}

class Session;

struct Sessions
{
  const ServerOptions& options;
  Router router;
  asio::io_context& context;
  std::unordered_set<Session*> all {};
  std::optional<asio::thread_pool> slow {}; // of one thread, once it is needed
  std::atomic<bool> ending { false };

  // `work` in that thread, then `take` in this one: others are answered meanwhile. At the end no further work begins.
  void aside(std::function<Answer()> work, std::function<void(Answer)> take)
  {
    try
    {
      if (!slow) slow.emplace(1);
    }
    catch (const std::exception&)
    {
      return take(work()); // no thread is to be had
    }
    asio::post(*slow,
               [this, work = std::move(work), take = std::move(take), stay = asio::make_work_guard(context)]() mutable
               {
                 Answer answer = ending ? error(503, "the daemon is stopping") : work();
                 // Moved, so that the session ends in this thread, whichever is done first.
                 asio::post(context, [take = std::exchange(take, nullptr), answer = std::move(answer)]() mutable
                            { take(std::move(answer)); });
               });
  }
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
  bool local() const { return peer_.local; }

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
    if (!fault) return answer(std::make_shared<const Message>(parser_->release()));
    if (fault == http::error::body_limit)
      return write(error(413, "a request's body has at most " + std::to_string(sessions_.options.max_body) + " bytes"));
    if (fault == http::error::header_limit || fault == http::error::buffer_overflow)
      return write(
          error(431, "a request's header has at most " + std::to_string(sessions_.options.max_header) + " bytes"));
    if (fault.category() == make_error_code(http::error::bad_method).category() && fault != http::error::end_of_stream
        && fault != http::error::partial_message)
      return write(error(400, "not an HTTP request: " + fault.message()));
    // The client went away, or was too slow.
  }

  void answer(const std::shared_ptr<const Message>& message)
  {
    const Request request = request_of(*message, peer_); // which points into the message
    const auto work = [&router = sessions_.router, message, request] { return router.answer(request); };
    const auto take = [self = shared_from_this(), message](Answer found) {
      self->write(std::move(found), message->version(), message->keep_alive(), message->method() == http::verb::head);
    };
    Router::takes_long(request) ? sessions_.aside(work, take) : take(work());
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
      : options { std::move(given) }, file { options.socket, options.group }, sessions {
          options, { backend, options.doctor, options.log }, context
        }
  {
    local.assign(Local {}, file.descriptor);
    if (options.tcp) listen_on_tcp();
  }

  ServerOptions options;
  asio::io_context context { 1 };
  Local::acceptor local { context };
  Tcp::acceptor tcp { context };
  // One each: who waits for descriptors must not end the other's wait.
  asio::steady_timer local_pause { context };
  asio::steady_timer tcp_pause { context };
  SocketFile file;
  Sessions sessions;
  bool ending = false; // a client that was accepted before, and is told of now, gets no session
  std::thread thread {};

  void listen_on_tcp()
  {
    const std::string name = options.tcp->host + " port " + std::to_string(options.tcp->port);
    try
    {
      const Tcp::endpoint endpoint { asio::ip::make_address(options.tcp->host), options.tcp->port };
      if (!endpoint.address().is_loopback())
        throw std::runtime_error { "metrics.listen: " + name
                                   + " is not a loopback address; only this machine may ask" };
      tcp.open(endpoint.protocol());
      tcp.set_option(Tcp::acceptor::reuse_address { true });
      tcp.bind(endpoint);
      tcp.listen(64);
    }
    catch (const boost::system::system_error& fault)
    {
      throw std::runtime_error { "metrics.listen: cannot listen on " + name + ": " + fault.code().message()
                                 + "; choose another port or leave the setting empty" };
    }
  }

  template <class Acceptor>
  void accept(Acceptor& acceptor, asio::steady_timer& pause)
  {
    using Socket = typename Acceptor::protocol_type::socket;
    acceptor.async_accept(
        [this, &acceptor, &pause](beast::error_code fault, Socket socket)
        {
          if (ending || fault == asio::error::operation_aborted) return;
          if (fault)
          {
            // Out of descriptors, most likely: a loop at full speed would not bring any back.
            pause.expires_after(std::chrono::milliseconds { 100 });
            pause.async_wait(
                [this, &acceptor, &pause](beast::error_code stopped)
                {
                  if (!ending && !stopped) accept(acceptor, pause);
                });
            return;
          }
          begin(std::move(socket));
          accept(acceptor, pause);
        });
  }

  template <class Socket>
  void begin(Socket socket)
  {
    Peer peer { false, "a TCP client" };
    if constexpr (std::is_same_v<Socket, Local::socket>) peer = local_peer(socket.native_handle());
    // Every user of this machine can connect by TCP: the socket's places are its own.
    const auto alike = std::count_if(sessions.all.begin(), sessions.all.end(),
                                     [&peer](const Session* session) { return session->local() == peer.local; });
    if (static_cast<std::size_t>(alike) >= options.max_sessions)
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
  parts_->accept(parts_->local, parts_->local_pause);
  if (parts_->tcp.is_open()) parts_->accept(parts_->tcp, parts_->tcp_pause);
  parts_->thread = std::thread { [parts = parts_.get()] { parts->context.run(); } };
}

Server::~Server()
{
  asio::post(parts_->context,
             [parts = parts_.get()]
             {
               parts->ending = parts->sessions.ending = true;
               parts->local.close();
               parts->tcp.close();
               parts->local_pause.cancel();
               parts->tcp_pause.cancel();
               for (Session* session : parts->sessions.all)
                 session->close();
             });
  parts_->thread.join();
}

} // namespace tandem::control
