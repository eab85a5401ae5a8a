#include "src/fetch/http_head.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem::fetch
{
namespace
{

using namespace std::literals;

std::span<const std::byte> bytes(std::string_view text)
{
  return std::as_bytes(std::span { text.data(), text.size() });
}

std::string_view request(std::string_view text)
{
  return check_request(bytes(text));
}

AnswerHead answer(std::string_view text)
{
  return read_answer_head(bytes(text));
}

TEST(RequestHead, OnlyAPlainGetCanBeMadeAgain)
{
  EXPECT_EQ(request("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"), "");
  EXPECT_EQ(request("GET /a?b=c HTTP/1.1\r\nHost: x\r\nCookie: a=b\r\nAuthorization: Basic eA==\r\n\r\n"), "");
  EXPECT_EQ(request("POST /a HTTP/1.1\r\nHost: x\r\n\r\n"), "not a GET of plaintext HTTP");
  EXPECT_EQ(request("GET /a HTTP/1.0\r\nHost: x\r\n\r\n"), "not HTTP/1.1");
  EXPECT_EQ(request("GET http://example.org/a HTTP/1.1\r\nHost: x\r\n\r\n"), "a request to a proxy");
  EXPECT_EQ(request("GET /a HTTP/1.1\r\n\r\n"), "a request without one host");
  EXPECT_EQ(request("GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"), "a request without one host");
  EXPECT_EQ(request("GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), "a GET with a body");
  EXPECT_EQ(request("GET /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"), "a GET with a body");
  EXPECT_EQ(request("GET /a HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\n\r\n"), "an upgrade of the connection");
  EXPECT_EQ(request("GET /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n"), "a request with an expectation");
  EXPECT_EQ(request("GET /a HTTP/1.1\r\nHost: x\r\nRange: bytes=0-5\r\n\r\n"), "the request is for a range itself");
  for (const auto bad : { "GET /a HTTP/1.1\nHost: x\n\r\n\r\n"sv, "GET  HTTP/1.1\r\nHost: x\r\n\r\n"sv, "\r\n\r\n"sv,
                          ""sv, "GET /a HTTP/1.1\r\nHost: x\r\n folded\r\nbroken line\r\n\r\n"sv,
                          "GET /a\0b HTTP/1.1\r\nHost: x\r\n\r\n"sv, "GET /a HTTP/1.1\r\nHost: x\r\n"sv })
    EXPECT_EQ(request(bad), "the request is not well-formed") << bad;
}

TEST(AnswerHead, WhereItEndsMustBeKnown)
{
  const AnswerHead good =
      answer("HTTP/1.1 200 OK\r\nContent-Length: 123456\r\nETag: \"a-b\"\r\nAccept-Ranges: bytes\r\n\r\n");
  EXPECT_EQ(good.why, "");
  EXPECT_EQ(good.length, 123456u);
  EXPECT_EQ(good.validator, "\"a-b\"");
  const auto ends_nowhere = [](std::string_view head, std::string_view why)
  {
    const AnswerHead read = answer(head);
    EXPECT_FALSE(read.length) << head;
    EXPECT_EQ(read.why, why) << head;
  };
  ends_nowhere("HTTP/1.1 200 OK\r\nETag: \"a\"\r\n\r\n", "no Content-Length");
  ends_nowhere("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "a transfer coding");
  ends_nowhere("HTTP/1.1 100 Continue\r\n\r\n", "an interim answer");
  ends_nowhere("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "an interim answer");
  ends_nowhere("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", "the answer is not HTTP/1.1");
  for (const auto bad :
       { "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"sv, "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n"sv,
         "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n"sv,
         "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"sv, "HTTP/1.1 xyz OK\r\n\r\n"sv,
         "SSH-2.0-x\r\n\r\n"sv, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"sv })
    EXPECT_FALSE(answer(bad).length) << bad;
}

TEST(AnswerHead, OtherAnswersAreFollowedToTheirEndButNotFetched)
{
  const auto skipped = [](std::string_view head, std::uint64_t length, std::string_view why)
  {
    const AnswerHead read = answer(head);
    EXPECT_EQ(read.length, length) << head;
    EXPECT_EQ(read.why, why) << head;
  };
  skipped("HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n", 0, "an answer without content");
  skipped("HTTP/1.1 404 Not Found\r\nContent-Length: 77\r\n\r\n", 77, "the answer's status is not 200");
  skipped("HTTP/1.1 206 Partial\r\nContent-Length: 77\r\n\r\n", 77, "the answer's status is not 200");
  skipped("HTTP/1.1 200 OK\r\nContent-Length: 77\r\nContent-Encoding: gzip\r\n\r\n", 77, "a content coding");
  skipped("HTTP/1.1 200 OK\r\nContent-Length: 77\r\nVary: *\r\n\r\n", 77, "an answer that varies with everything");
}

TEST(AnswerHead, OnlyAStrongTagIsAValidator)
{
  const auto tag = [](std::string_view line)
  { return answer("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n" + std::string { line } + "\r\n\r\n").validator; };
  EXPECT_EQ(tag("ETag: \"x\""), "\"x\"");
  EXPECT_EQ(tag("ETag: \"\""), "") << "tells nothing apart";
  EXPECT_EQ(tag("ETag: W/\"x\""), "");
  EXPECT_EQ(tag("ETag: x"), "");
  EXPECT_EQ(tag("ETag: \"x\", \"y\""), "");
  EXPECT_EQ(tag("ETag: \"x"), "");
  EXPECT_EQ(tag("ETag: \"x\"\r\nETag: \"y\""), "");
  EXPECT_EQ(tag("Last-Modified: Sat, 29 Oct 1994 19:43:31 GMT"), "");
}

// RFC 9110 8.8.2.2: by the server's own clock, the last change is over for longer than the clock is coarse.
TEST(StrongValidator, ADateOnlyWhenTheAnswerIsClearlyYounger)
{
  const auto validator = [](std::string_view fields)
  { return strong_validator(bytes("HTTP/1.1 200 OK\r\n" + std::string { fields } + "\r\n")); };
  const std::string modified = "Last-Modified: Sat, 29 Oct 1994 19:43:31 GMT\r\n";
  const std::string value = "Sat, 29 Oct 1994 19:43:31 GMT";
  EXPECT_EQ(validator(modified + "Date: Sat, 29 Oct 1994 19:44:31 GMT\r\n"), value);
  EXPECT_EQ(validator(modified + "Date: Sun, 30 Oct 1994 00:00:00 GMT\r\n"), value);
  EXPECT_EQ(validator("ETag: \"x\"\r\n" + modified + "Date: Sun, 30 Oct 1994 00:00:00 GMT\r\n"), "\"x\"");
  EXPECT_EQ(validator(modified), "") << "no Date";
  EXPECT_EQ(validator(modified + "Date: Sat, 29 Oct 1994 19:44:30 GMT\r\n"), "") << "too close";
  EXPECT_EQ(validator(modified + "Date: Sat, 29 Oct 1994 19:43:31 GMT\r\n"), "") << "the same second";
  EXPECT_EQ(validator(modified + "Date: Fri, 28 Oct 1994 19:43:31 GMT\r\n"), "") << "modified in the future";
  EXPECT_EQ(validator("ETag: W/\"x\"\r\n" + modified + "Date: Sun, 30 Oct 1994 00:00:00 GMT\r\n"), "")
      << "the server says itself that bytes may differ";
  EXPECT_EQ(validator(modified + modified + "Date: Sun, 30 Oct 1994 00:00:00 GMT\r\n"), "") << "two dates";
  for (const char* odd :
       { "Saturday, 29-Oct-94 19:43:31 GMT", "Sat Oct 29 19:43:31 1994", "Sat, 31 Feb 1994 19:43:31 GMT",
         "Sat, 29 Okt 1994 19:43:31 GMT", "Sat, 29 Oct 1994 19:43:31 CET", "Sat, 29 Oct 1994 24:43:31 GMT",
         "Sat, +9 Oct 1994 19:43:31 GMT", "" })
    EXPECT_EQ(validator("Last-Modified: " + std::string { odd } + "\r\nDate: Sun, 01 Jan 1995 00:00:00 GMT\r\n"), "")
        << odd;
}

TEST(RangeRequest, AsksForTheSameRepresentation)
{
  const std::string made = range_request(
      bytes(
          "GET /a?b HTTP/1.1\r\nHost: x:8080\r\nUser-Agent: w/1\r\nAccept-Encoding: gzip\r\nConnection: close, x-y\r\n"
          "Cookie: a=b\r\nX-Own: 1\r\nIf-Modified-Since: Sat, 29 Oct 1994 19:43:31 GMT\r\nTE: trailers\r\n"
          "Authorization: Basic eA==\r\n\r\n"),
      100, 200, "\"tag\"");
  EXPECT_EQ(made, "GET /a?b HTTP/1.1\r\nHost: x:8080\r\nUser-Agent: w/1\r\nAccept-Encoding: gzip\r\nCookie: a=b\r\n"
                  "X-Own: 1\r\nAuthorization: Basic eA==\r\nRange: bytes=100-199\r\nIf-Range: \"tag\"\r\n\r\n");
  EXPECT_EQ(check_request(bytes(made)), "the request is for a range itself") << "well-formed";
}

TEST(RangeHead, NothingButExactlyWhatWasAskedFor)
{
  const std::string status = "HTTP/1.1 206 Partial Content\r\n", etag = "ETag: \"t\"\r\n",
                    range = "Content-Range: bytes 100-199/5000\r\n", length = "Content-Length: 100\r\n";
  const auto read = [](const std::string& head) { return read_range_head(bytes(head), 100, 200, 5000, "\"t\""); };
  EXPECT_TRUE(read(status + etag + range + length + "\r\n").ok);
  EXPECT_TRUE(read(status + etag + range + length + "\r\n").keep_alive);
  EXPECT_FALSE(read(status + etag + range + length + "Connection: close\r\n\r\n").keep_alive);
  const auto refused = [&](const std::string& head, std::string_view why, bool final = true)
  {
    const RangeHead result = read(head);
    EXPECT_FALSE(result.ok) << head;
    EXPECT_EQ(result.why, why) << head;
    EXPECT_EQ(result.final, final) << head;
  };
  refused("HTTP/1.1 200 OK\r\n" + etag + "Content-Length: 5000\r\n\r\n",
          "the server ignores ranges, or has something else by now");
  refused("HTTP/1.1 416 No\r\nContent-Length: 0\r\n\r\n", "the server has something else by now");
  refused("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", "the server refuses the range");
  refused("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "the server refuses for now", false);
  // Of a connection that was kept open for too long (RFC 9110 15.5.9).
  refused("HTTP/1.1 408 No\r\nContent-Length: 0\r\n\r\n", "the server refuses for now", false);
  refused(status + "ETag: \"u\"\r\n" + range + length + "\r\n", "the ETag of the range differs");
  refused(status + range + length + "\r\n", "the ETag of the range differs");
  refused(status + "ETag: W/\"t\"\r\n" + range + length + "\r\n", "the ETag of the range differs");
  refused(status + etag + "Content-Range: bytes 100-199/5001\r\n" + length + "\r\n", "another range than asked for");
  refused(status + etag + "Content-Range: bytes 100-199/*\r\n" + length + "\r\n", "another range than asked for");
  refused(status + etag + "Content-Range: bytes 101-200/5000\r\n" + length + "\r\n", "another range than asked for");
  refused(status + etag + "Content-Type: multipart/byteranges; boundary=x\r\n" + length + "\r\n",
          "another range than asked for");
  refused(status + etag + range + "Content-Length: 99\r\n\r\n", "the range has another length");
  refused(status + etag + range + length + "Content-Encoding: gzip\r\n\r\n", "a content coding of the range");
  refused(status + etag + range + "Transfer-Encoding: chunked\r\n\r\n", "a transfer coding of the range");
  refused("nonsense\r\n\r\n", "the answer to the range request is not well-formed");
}

// Whatever arrives, nothing but a verdict comes of it.
TEST(Heads, AnyBytesAreSurvived)
{
  std::mt19937_64 random { 1 };
  const std::string whole = "HTTP/1.1 206 Partial Content\r\nETag: \"t\"\r\nContent-Range: bytes 100-199/5000\r\n"
                            "Content-Length: 100\r\n\r\n";
  for (int round = 0; round < 20'000; ++round)
  {
    std::string head = round % 2 == 0 ? whole : "GET /a HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n";
    for (std::uint64_t flips = random() % 4; flips-- > 0;)
      head[random() % head.size()] = static_cast<char>(random());
    if (random() % 4 == 0) head.resize(random() % head.size());
    check_request(bytes(head));
    read_answer_head(bytes(head));
    const RangeHead result = read_range_head(bytes(head), 100, 200, 5000, "\"t\"");
    EXPECT_NE(result.ok, !result.why.empty());
    range_request(bytes(head), 1, 2, "\"t\"");
  }
}

} // namespace
} // namespace tandem::fetch
