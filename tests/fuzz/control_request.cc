// Any bytes as a request to the control socket: each is answered by JSON, by words or by a page, never by a fault, and
// an error says something.
#include "src/control/router.h"
#include "tests/fuzz/check.h"
#include "tests/unit/control/fake_backend.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

using namespace tandem;
using tandem::fuzz::check;
namespace http = boost::beast::http;

namespace
{

const std::set<unsigned> statuses { 200, 400, 403, 404, 405, 409, 413, 431, 503 };

void look(const control::Request& request)
{
  control::FakeBackend backend {};
  backend.disk_full = request.body.size() % 3 == 1;
  control::Router router { backend,
                           [] {
                             return nlohmann::json { { "health", "ok" } };
                           },
                           [](const std::string&, const std::string&) {} };
  const control::Answer answer = router.answer(request);
  check(statuses.contains(answer.status), "a status that is documented");
  check((answer.status == 405) != answer.allow.empty(), "405 says what is allowed");
  const bool json = answer.type.starts_with("application/json");
  const nlohmann::json read = json ? nlohmann::json::parse(answer.body, nullptr, false) : nlohmann::json {};
  check(!read.is_discarded(), "JSON is JSON");
  if (answer.status != 200) check(json && !read.at("error").get<std::string>().empty(), "an error has words");
  if (!request.local && request.method != "GET" && request.method != "HEAD")
    check(answer.status != 200 || backend.calls().empty(), "nobody writes by TCP");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  if (size < 1) return 0;
  const bool local = (data[0] & 1) != 0;
  // As the server reads it.
  http::request_parser<http::string_body> parser {};
  parser.header_limit(8u << 10);
  parser.body_limit(16u << 10);
  parser.eager(true);
  boost::beast::error_code fault {};
  std::size_t used = 0;
  while (used < size - 1 && !parser.is_done() && !fault)
  {
    const std::size_t taken = parser.put(boost::asio::buffer(data + 1 + used, size - 1 - used), fault);
    if (taken == 0) break;
    used += taken;
  }
  if (fault || !parser.is_done()) return 0;
  const auto message = parser.release();
  const auto view = [](boost::beast::string_view text) { return std::string_view { text.data(), text.size() }; };
  look({ .method = view(message.method_string()),
         .target = view(message.target()),
         .host = view(message[http::field::host]),
         .body = message.body(),
         .local = local,
         .who = "somebody" });
  return 0;
}
