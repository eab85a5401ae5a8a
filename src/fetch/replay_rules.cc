#include "src/fetch/replay_rules.h"

#include "src/fetch/http_head.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

namespace tandem::fetch
{
namespace
{

namespace http = boost::beast::http;
using boost::asio::const_buffer;

constexpr std::uint32_t head_limit = 32 * 1024;
constexpr std::string_view no_validator = "the answer has no strong validator";

const_buffer buffer(std::span<const std::byte> bytes)
{
  return { bytes.data(), bytes.size() };
}

template <class Parser>
struct Read
{
  Parser parser {};
  bool complete = false;
  bool broken = false;
  std::uint64_t length = 0;
};

template <class Parser>
void read(Read<Parser>& into, std::span<const std::byte> bytes)
{
  into.parser.header_limit(head_limit);
  into.parser.skip(true); // no body, whatever the head says
  boost::system::error_code error;
  into.length = into.parser.put(buffer(bytes), error);
  into.complete = into.parser.is_header_done();
  into.broken = !into.complete && error && error != http::error::need_more;
}

using Request = Read<http::request_parser<http::empty_body>>;
using Response = Read<http::response_parser<http::empty_body>>;

} // namespace

std::string_view why_not_replay(const Download& download, bool credentials)
{
  Request request;
  read(request, download.request);
  if (!request.complete || request.length != download.request.size()) return "no plaintext HTTP/1.1 request";
  const auto& head = request.parser.get();
  if (head.method() != http::verb::get) return "the method is not GET";
  if (head.version() != 11) return "not HTTP/1.1";
  if (head.find(http::field::content_length) != head.end() || head.find(http::field::transfer_encoding) != head.end())
    return "the request has a body";
  if (head.find(http::field::upgrade) != head.end()) return "the request asks for another protocol";
  if (head.find(http::field::expect) != head.end()) return "the request expects an answer before it is complete";
  if (const std::string_view why = check_credentials(download.request, credentials); !why.empty()) return why;

  Response response;
  read(response, download.head);
  if (!response.complete || response.length != download.head.size()) return "the answer's head is not understood";
  if (response.parser.chunked()) return "the answer is chunked";
  if (!response.parser.content_length()) return "the answer has no length";
  if (*response.parser.content_length() != download.length) return "the answer's length is not clear";
  const unsigned status = response.parser.get().result_int();
  if (status != 200 && status != 206) return "the answer is neither 200 nor 206";
  if (strong_validator(download.head).empty()) return no_validator;
  return {};
}

MirrorAnswer same_answer(const Download& download, std::span<const std::byte> beginning)
{
  MirrorAnswer answer;
  Response mirror;
  read(mirror, beginning);
  if (mirror.broken) return { .why = "the mirror's answer is not HTTP" };
  if (!mirror.complete)
  {
    if (beginning.size() >= head_limit) answer.why = "the mirror's answer has too long a head";
    return answer;
  }
  answer.complete = true;
  answer.head = mirror.length;
  Response original;
  read(original, download.head);
  if (!original.complete)
  {
    answer.why = "the answer's head is not understood";
    return answer;
  }
  const auto& a = original.parser.get();
  const auto& b = mirror.parser.get();
  const auto same = [&](http::field field) { return a[field] == b[field]; };
  const std::string validator = strong_validator(download.head);
  if (a.result_int() != b.result_int())
    answer.why = "the mirror's answer has another status";
  else if (mirror.parser.chunked())
    answer.why = "the mirror's answer is chunked";
  else if (mirror.parser.content_length() != original.parser.content_length()
           || mirror.parser.content_length() != boost::optional<std::uint64_t> { download.length })
    answer.why = "the mirror's answer has another length";
  else if (validator.empty())
    answer.why = no_validator;
  else if (strong_validator(beginning.first(static_cast<std::size_t>(mirror.length))) != validator)
    answer.why = "the mirror's answer has another validator";
  else if (!same(http::field::last_modified))
    answer.why = "the mirror's answer has another date of modification";
  else if (!same(http::field::content_encoding) || !same(http::field::transfer_encoding))
    answer.why = "the mirror's answer is coded differently";
  else if (!same(http::field::content_range))
    answer.why = "the mirror's answer is of another range";
  else if (!same(http::field::content_type))
    answer.why = "the mirror's answer is of another type"; // multipart/byteranges names its boundary here
  return answer;
}

} // namespace tandem::fetch
