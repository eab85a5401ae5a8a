#include "src/fetch/http_head.h"

#include <boost/beast/http.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <limits>
#include <sstream>

namespace tandem::fetch
{

namespace
{

namespace http = boost::beast::http;
using boost::beast::iequals;
using Field = http::field;

constexpr std::uint32_t longest_head = 65536;

// Parses a whole head; false when it is not one. Beast is strict: no bare line feeds, no folding, no control
// characters.
template <class Parser>
bool parse(Parser& parser, std::span<const std::byte> head)
{
  parser.header_limit(longest_head);
  parser.body_limit(std::numeric_limits<std::uint64_t>::max()); // "none" refuses every body before Boost 1.75
  parser.eager(false);
  boost::beast::error_code error {};
  const std::size_t used = parser.put(boost::asio::const_buffer { head.data(), head.size() }, error);
  return !error && parser.is_header_done() && used == head.size();
}

std::string_view text(boost::beast::string_view view)
{
  return { view.data(), view.size() };
}

template <class Fields>
std::size_t count(const Fields& fields, Field name)
{
  return fields.count(name);
}

std::optional<std::uint64_t> number(std::string_view digits)
{
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (fault != std::errc {} || end != digits.data() + digits.size()) return {};
  return value;
}

// A strong entity tag, alone: no W/, no list. Not "" either: the grammar allows it, but it tells nothing apart.
bool is_strong(std::string_view tag)
{
  if (tag.size() < 3 || tag.size() > 256 || tag.front() != '"' || tag.back() != '"') return false;
  for (const char c : tag.substr(1, tag.size() - 2))
    if (c == '"' || static_cast<unsigned char>(c) <= 0x20 || c == 0x7f) return false;
  return true;
}

// "Sun, 06 Nov 1994 08:49:37 GMT", the form that servers must send (RFC 9110 5.6.7); obsolete forms are no date here.
std::optional<std::chrono::sys_seconds> date(std::string_view value)
{
  constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (value.size() != 29 || value.substr(3, 2) != ", " || value[7] != ' ' || value[11] != ' ' || value[16] != ' '
      || value[19] != ':' || value[22] != ':' || value.substr(25) != " GMT")
    return {};
  const std::size_t month = months.find(value.substr(8, 3));
  const auto day = number(value.substr(5, 2)), year = number(value.substr(12, 4)), hour = number(value.substr(17, 2)),
             minute = number(value.substr(20, 2)), second = number(value.substr(23, 2));
  if (month == std::string_view::npos || month % 3 != 0 || !day || !year || !hour || !minute || !second) return {};
  const std::chrono::year_month_day on { std::chrono::year { static_cast<int>(*year) },
                                         std::chrono::month { static_cast<unsigned>(month / 3 + 1) },
                                         std::chrono::day { static_cast<unsigned>(*day) } };
  if (!on.ok() || *hour > 23 || *minute > 59 || *second > 60) return {}; // 60: a leap second
  return std::chrono::sys_days { on } + std::chrono::hours { *hour } + std::chrono::minutes { *minute }
         + std::chrono::seconds { *second };
}

template <class Fields>
std::string validator_of(const Fields& head)
{
  const auto only = [&](Field name) { return count(head, name) == 1 ? text(head[name]) : std::string_view {}; };
  // A weak ETag says that bytes may differ: then a date proves nothing (RFC 9110 13.1.5 takes it without a tag only).
  if (count(head, Field::etag) != 0) return std::string { is_strong(only(Field::etag)) ? only(Field::etag) : "" };
  const auto modified = date(only(Field::last_modified)), sent = date(only(Field::date));
  constexpr std::chrono::seconds distance { 60 };
  return std::string { modified && sent && *sent - *modified >= distance ? only(Field::last_modified) : "" };
}

bool begins_with(std::string_view all, std::string_view beginning)
{
  return all.size() >= beginning.size()
         && iequals({ all.data(), beginning.size() }, { beginning.data(), beginning.size() });
}

// Whether a request's field holds no secret, by what it is for. Keys and tokens are sent in fields of any name, so only
// these are sure: those of RFC 9110 and 9111 but for credentials, and what browsers and players add of their own.
bool tells_no_secret(std::string_view name)
{
  constexpr std::array all { "accept",
                             "accept-charset",
                             "accept-encoding",
                             "accept-language",
                             "cache-control",
                             "connection",
                             "date",
                             "dnt",
                             "from",
                             "host",
                             "icy-metadata",
                             "if-match",
                             "if-modified-since",
                             "if-none-match",
                             "if-range",
                             "if-unmodified-since",
                             "keep-alive",
                             "origin",
                             "pragma",
                             "priority",
                             "proxy-connection",
                             "range",
                             "referer",
                             "save-data",
                             "sec-gpc",
                             "te",
                             "upgrade-insecure-requests",
                             "user-agent",
                             "via" };
  const auto is = [&](std::string_view one) { return name.size() == one.size() && begins_with(name, one); };
  return std::any_of(all.begin(), all.end(), is) || begins_with(name, "sec-fetch-") || begins_with(name, "sec-ch-ua");
}

template <class Fields>
bool identity(const Fields& fields)
{
  return count(fields, Field::content_encoding) == 0
         || (count(fields, Field::content_encoding) == 1 && iequals(fields[Field::content_encoding], "identity"));
}

} // namespace

std::string_view check_request(std::span<const std::byte> request)
{
  http::request_parser<http::buffer_body> parser {};
  if (!parse(parser, request)) return "the request is not well-formed";
  const auto& head = parser.get();
  if (head.method() != http::verb::get) return "not a GET of plaintext HTTP";
  if (head.version() != 11) return "not HTTP/1.1";
  if (head.target().empty() || head.target().front() != '/') return "a request to a proxy";
  if (count(head, Field::host) != 1) return "a request without one host";
  if (count(head, Field::content_length) != 0 || count(head, Field::transfer_encoding) != 0) return "a GET with a body";
  if (count(head, Field::upgrade) != 0) return "an upgrade of the connection";
  if (count(head, Field::expect) != 0) return "a request with an expectation";
  if (count(head, Field::range) != 0) return "the request is for a range itself";
  return {};
}

std::string_view check_credentials(std::span<const std::byte> request, bool allowed)
{
  http::request_parser<http::buffer_body> parser {};
  if (!parse(parser, request)) return "the request is not well-formed";
  for (const auto& field : parser.get())
  {
    if (field.name() == Field::authorization || field.name() == Field::proxy_authorization)
    {
      const auto is = [&](std::string_view scheme) { return begins_with(text(field.value()), scheme); };
      if (!is("basic ") && !is("bearer ")) return "the authorization is good for one request only";
      if (!allowed) return "the request carries authorization";
    }
    else if (!allowed && field.name() == Field::cookie)
      return "the request carries cookies";
    else if (!allowed && !tells_no_secret(text(field.name_string())))
      return "the request has a field that may be a credential";
  }
  return {};
}

std::string strong_validator(std::span<const std::byte> bytes)
{
  http::response_parser<http::buffer_body> parser {};
  return parse(parser, bytes) ? validator_of(parser.get()) : std::string {};
}

AnswerHead read_answer_head(std::span<const std::byte> bytes)
{
  http::response_parser<http::buffer_body> parser {};
  if (!parse(parser, bytes)) return { .why = "the answer is not well-formed" };
  const auto& head = parser.get();
  if (head.version() != 11) return { .why = "the answer is not HTTP/1.1" };
  const unsigned status = head.result_int();
  if (status < 200) return { .why = "an interim answer" };
  if (count(head, Field::transfer_encoding) != 0) return { .why = "a transfer coding" };
  if (status == 204 || status == 304) return { .length = 0, .why = "an answer without content" };
  if (count(head, Field::content_length) != 1) return { .why = "no Content-Length" };
  AnswerHead answer { .length = number(text(head[Field::content_length])) };
  constexpr std::uint64_t longest = std::uint64_t { 1 } << 50;
  if (!answer.length || *answer.length > longest) return { .why = "no Content-Length" };
  if (status != 200)
    answer.why = "the answer's status is not 200";
  else if (!identity(head))
    answer.why = "a content coding";
  else if (count(head, Field::vary) != 0 && text(head[Field::vary]).find('*') != std::string_view::npos)
    answer.why = "an answer that varies with everything";
  if (count(head, Field::etag) == 1 && is_strong(text(head[Field::etag])))
    answer.validator = std::string { text(head[Field::etag]) };
  return answer;
}

std::string range_request(std::span<const std::byte> request, std::uint64_t from, std::uint64_t to,
                          std::string_view validator)
{
  http::request_parser<http::buffer_body> parser {};
  if (!parse(parser, request)) return {};
  const auto& original = parser.get();
  http::request<http::empty_body> wanted { http::verb::get, original.target(), 11 };
  constexpr std::array own { Field::connection,
                             Field::keep_alive,
                             Field::proxy_connection,
                             Field::te,
                             Field::trailer,
                             Field::if_match,
                             Field::if_none_match,
                             Field::if_modified_since,
                             Field::if_unmodified_since,
                             Field::if_range,
                             Field::range,
                             Field::http2_settings };
  for (const auto& field : original)
    if (std::find(own.begin(), own.end(), field.name()) == own.end())
    {
      if (field.name() == Field::unknown)
        wanted.insert(field.name_string(), field.value());
      else
        wanted.insert(field.name(), field.name_string(), field.value());
    }
  wanted.set(Field::range, "bytes=" + std::to_string(from) + "-" + std::to_string(to - 1));
  wanted.set(Field::if_range, boost::beast::string_view { validator.data(), validator.size() });
  std::ostringstream out {};
  out << wanted;
  return std::move(out).str();
}

RangeHead read_range_head(std::span<const std::byte> bytes, std::uint64_t from, std::uint64_t to, std::uint64_t length,
                          std::string_view validator)
{
  const auto no = [](std::string_view why, bool final = true) { return RangeHead { .why = why, .final = final }; };
  http::response_parser<http::buffer_body> parser {};
  if (!parse(parser, bytes)) return no("the answer to the range request is not well-formed");
  const auto& head = parser.get();
  const unsigned status = head.result_int();
  if (status == 200) return no("the server ignores ranges, or has something else by now");
  if (status == 412 || status == 416) return no("the server has something else by now");
  if (status >= 500 || status == 429 || status == 408) return no("the server refuses for now", false);
  if (status != 206) return no("the server refuses the range");
  if (count(head, Field::transfer_encoding) != 0) return no("a transfer coding of the range");
  if (!identity(head)) return no("a content coding of the range");
  if (count(head, Field::etag) != 1 || text(head[Field::etag]) != validator) return no("the ETag of the range differs");
  const std::string range =
      "bytes " + std::to_string(from) + "-" + std::to_string(to - 1) + "/" + std::to_string(length);
  if (count(head, Field::content_range) != 1 || !iequals(head[Field::content_range], range))
    return no("another range than asked for");
  if (count(head, Field::content_length) != 1 || number(text(head[Field::content_length])) != to - from)
    return no("the range has another length");
  return { .ok = true, .keep_alive = parser.keep_alive() };
}

} // namespace tandem::fetch
