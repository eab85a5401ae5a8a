#include "tools/tandem/client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <optional>
#include <utility>

namespace tandem::cli
{
namespace
{

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Local = asio::local::stream_protocol;

// Larger than any recording the configuration allows.
constexpr std::uint64_t largest_answer = 2ull << 30;

[[noreturn]] void fail_to_connect(const std::filesystem::path& socket, const beast::error_code& fault)
{
  if (fault == boost::system::errc::no_such_file_or_directory || fault == boost::system::errc::connection_refused)
    throw NotRunning { "tandemd is not running (nobody answers on " + socket.string() + "); start it: tandem up" };
  if (fault == boost::system::errc::permission_denied)
    throw Failure { "no permission for " + socket.string()
                    + "; use sudo, or join the group named by daemon.socket_group in the configuration" };
  throw Failure { socket.string() + ": " + fault.message() };
}

[[noreturn]] void fail_without_answer(Duration timeout)
{
  throw Failure { "the daemon did not answer within "
                  + std::to_string(std::chrono::ceil<std::chrono::seconds>(timeout).count())
                  + " s; see its log, or restart it: tandem down, tandem up" };
}

// connect(2) on this machine is at once, but for a server that hangs: it waits then for a place in the queue of those
// that were not accepted, as long as sends may (unix(7)).
void connect(Local::socket& socket, const std::string& path, Duration timeout, beast::error_code& fault)
{
  const auto longest = std::chrono::ceil<std::chrono::microseconds>(timeout).count();
  const timeval limit { .tv_sec = longest / 1'000'000, .tv_usec = longest % 1'000'000 };
  socket.open(Local {}, fault);
  if (!fault && ::setsockopt(socket.native_handle(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)
    fault.assign(errno, beast::error_code {}.category());
  if (!fault) socket.connect(Local::endpoint { path }, fault);
}

// EAGAIN of connect(2), which Asio takes for want of buffers.
bool no_place(const beast::error_code& fault)
{
  return fault == boost::system::errc::resource_unavailable_try_again || fault == boost::system::errc::no_buffer_space;
}

// What is no UTF-8 cannot be said in JSON. With something else in its place another network, say, would be meant.
std::string said(const nlohmann::json& body)
{
  try
  {
    return body.dump();
  }
  catch (const nlohmann::json::type_error&)
  {
    throw Failure { "what was given is not UTF-8, which is needed", exit_bad_input };
  }
}

// The words of {"error": ...}, or what else came.
std::string words(const std::string& body, unsigned status)
{
  const auto answer = nlohmann::json::parse(body, nullptr, false);
  if (answer.is_object() && answer.contains("error") && answer["error"].is_string()) return answer["error"];
  return "the daemon answered with status " + std::to_string(status);
}

} // namespace

std::string Client::request(const std::string& method, const std::string& target, const std::string& body,
                            Duration timeout) const
{
  if (socket_.empty()) throw Failure { "--socket: the path of the control socket is needed", exit_bad_input };
  if (socket_.string().size() > 107)
    throw Failure { socket_.string() + ": too long for a socket's path", exit_bad_input };
  asio::io_context context { 1 };
  beast::basic_stream<Local> stream { context };
  beast::error_code fault;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  connect(stream.socket(), socket_.string(), timeout, fault);
  if (no_place(fault)) fail_without_answer(timeout);
  if (fault) fail_to_connect(socket_, fault);

  http::request<http::string_body> request { http::string_to_verb(method), target, 11 };
  request.set(http::field::host, "tandem");
  request.set(http::field::connection, "close");
  if (!body.empty()) request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();

  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(largest_answer);
  std::optional<beast::error_code> outcome;
  stream.expires_at(deadline);
  http::async_write(stream, request,
                    [&](const beast::error_code&, std::size_t)
                    {
                      // Written or not: a server that refuses early has said why.
                      http::async_read(stream, buffer, parser,
                                       [&](const beast::error_code& read, std::size_t) { outcome = read; });
                    });
  context.run();

  if (!outcome || *outcome == beast::error::timeout) fail_without_answer(timeout);
  if (*outcome) throw Failure { "the daemon broke off its answer (" + outcome->message() + "); see its log" };
  auto response = parser.release();
  const unsigned status = response.result_int();
  if (status == 200) return std::move(response.body());
  throw Failure { words(response.body(), status), status == 400 ? 2 : 1 };
}

std::string Client::get(const std::string& target, Duration timeout) const
{
  return request("GET", target, "", timeout);
}

nlohmann::json Client::get_json(const std::string& target, Duration timeout) const
{
  auto answer = nlohmann::json::parse(get(target, timeout), nullptr, false);
  if (!answer.is_structured()) // nor what could not be read
    throw Failure { "the daemon's answer to " + target + " is not understood; is it another version?" };
  return answer;
}

nlohmann::json Client::change(const std::string& method, const std::string& target, const nlohmann::json& body) const
{
  auto answer = nlohmann::json::parse(request(method, target, said(body), std::chrono::seconds { 5 }), nullptr, false);
  // What is no such thing is no confirmation either.
  if (!answer.is_object())
    throw Failure { "the daemon's answer to " + target
                    + " is not understood, and whether anything has changed is not known; is it another version?" };
  return answer;
}

nlohmann::json Client::put(const std::string& target, const nlohmann::json& body) const
{
  return change("PUT", target, body);
}

nlohmann::json Client::post(const std::string& target, const nlohmann::json& body) const
{
  return change("POST", target, body);
}

} // namespace tandem::cli
