#include "src/fetch/replay_rules.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem::fetch
{
namespace
{

std::vector<std::byte> bytes(std::string_view text)
{
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return { begin, begin + text.size() };
}

constexpr std::string_view ok_head =
    "HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT\r\nContent-Length: 1000000\r\n"
    "Content-Type: application/octet-stream\r\nETag: \"a-1\"\r\n\r\n";

Download download(std::string request, std::string_view head = ok_head)
{
  Download out;
  out.request = bytes(request);
  out.head = bytes(head);
  out.length = 1000000;
  out.validator = "\"a-1\"";
  return out;
}

std::string_view why(std::string fields, std::string line = "GET /f HTTP/1.1", bool credentials = false)
{
  return why_not_replay(download(line + "\r\nHost: h\r\n" + fields + "\r\n"), credentials);
}

TEST(WhyNotReplay, TakesAPlainGet)
{
  EXPECT_EQ(why(""), "");
  EXPECT_EQ(why("Range: bytes=5-\r\n"), "");
}

TEST(WhyNotReplay, NamesWhatStandsInTheWay)
{
  EXPECT_EQ(why("", "POST /f HTTP/1.1"), "the method is not GET");
  EXPECT_EQ(why("", "HEAD /f HTTP/1.1"), "the method is not GET");
  EXPECT_EQ(why("", "GET /f HTTP/1.0"), "not HTTP/1.1");
  EXPECT_EQ(why("Content-Length: 3\r\n"), "the request has a body");
  EXPECT_EQ(why("Transfer-Encoding: chunked\r\n"), "the request has a body");
  EXPECT_EQ(why("Upgrade: h2c\r\n"), "the request asks for another protocol");
  EXPECT_EQ(why("Cookie: a=b\r\n"), "the request carries cookies");
  EXPECT_EQ(why("Authorization: Basic eA==\r\n"), "the request carries authorization");
  EXPECT_EQ(why_not_replay(download("\x16\x03\x01\x02"), false), "no plaintext HTTP/1.1 request");
  EXPECT_EQ(why_not_replay(download("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"), false),
            "no plaintext HTTP/1.1 request");
  EXPECT_EQ(why_not_replay(
                download("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
                false),
            "the answer is chunked");
  EXPECT_EQ(why_not_replay(download("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"), false),
            "the answer has no length");
}

// An answer's head of the download's length with these validators.
std::string head_with(std::string_view validators)
{
  return "HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT\r\nContent-Length: 1000000\r\n"
         + std::string { validators } + "\r\n";
}

constexpr std::string_view get = "GET /f HTTP/1.1\r\nHost: h\r\n\r\n";
constexpr std::string_view long_ago = "Last-Modified: Thu, 19 Nov 2026 12:00:00 GMT\r\n";

TEST(WhyNotReplay, AnAnswerNeedsAStrongValidator)
{
  const auto refusal = [](std::string_view validators)
  { return why_not_replay(download(std::string { get }, head_with(validators)), false); };
  EXPECT_EQ(refusal("ETag: \"a-1\"\r\n"), "");
  EXPECT_EQ(refusal(long_ago), "");
  for (const char* weak : { "", "ETag: \r\n", "ETag: \"\"\r\n", "ETag: W/\"a-1\"\r\n",
                            "Last-Modified: Fri, 20 Nov 2026 12:00:00 GMT\r\n" })
    EXPECT_EQ(refusal(weak), "the answer has no strong validator") << weak;
}

TEST(WhyNotReplay, CredentialsWhenAllowedButNeverThoseForOneRequest)
{
  EXPECT_EQ(why("Cookie: a=b\r\n", "GET /f HTTP/1.1", true), "");
  EXPECT_EQ(why("Authorization: Bearer x\r\n", "GET /f HTTP/1.1", true), "");
  for (const char* scheme : { "Digest nonce=1", "NTLM x", "Negotiate x" })
    EXPECT_EQ(why(std::string { "Authorization: " } + scheme + "\r\n", "GET /f HTTP/1.1", true),
              "the authorization is good for one request only");
}

TEST(WhyNotReplay, AKeyInAFieldOfTheServersOwnIsACredential)
{
  for (const char* field :
       { "X-Api-Key: k", "Private-Token: t", "Proxy-Authorization: Basic eA==", "Cookie2: a=b", "X-Own: 1" })
    EXPECT_NE(why(std::string { field } + "\r\n"), "") << field;
  EXPECT_EQ(why("X-Api-Key: k\r\n"), "the request has a field that may be a credential");
  EXPECT_EQ(why("X-Api-Key: k\r\nProxy-Authorization: Bearer x\r\n", "GET /f HTTP/1.1", true), "");
  // A second one is as good for one request as the first.
  for (const char* once :
       { "Proxy-Authorization: Digest nonce=1\r\n", "Authorization: Basic eA==\r\nAuthorization: NTLM x\r\n" })
    EXPECT_EQ(why(once, "GET /f HTTP/1.1", true), "the authorization is good for one request only") << once;
}

TEST(WhyNotReplay, WhatDownloadersSayOfThemselvesIsNoCredential)
{
  for (const char* fields :
       { "User-Agent: curl/8\r\nAccept: */*\r\n",
         "user-agent: Wget/1\r\nAccept-Encoding: identity\r\nConnection: Keep-Alive\r\n",
         "User-Agent: Debian APT-HTTP/1.3\r\nCache-Control: max-age=0\r\nIf-Modified-Since: "
         "Thu, 19 Nov 2026 12:00:00 GMT\r\n",
         "User-Agent: Mozilla/5.0\r\nAccept-Language: de\r\nReferer: http://example.org/\r\nDNT: 1\r\nSec-GPC: "
         "1\r\nPriority: "
         "u=0\r\nUpgrade-Insecure-Requests: 1\r\nSec-Fetch-Mode: navigate\r\nsec-ch-ua-platform: \"Linux\"\r\n"
         "Pragma: no-cache\r\nOrigin: null\r\nSave-Data: on\r\nDate: Thu, 19 Nov 2026 12:00:00 GMT\r\n",
         "User-Agent: Lavf/60\r\nIcy-MetaData: 1\r\nRange: bytes=0-\r\n" })
    EXPECT_EQ(why(fields), "") << fields;
}

MirrorAnswer compare(std::string_view mirror)
{
  return same_answer(download("GET /f HTTP/1.1\r\nHost: h\r\n\r\n"), bytes(mirror));
}

TEST(SameAnswer, AnotherDateIsTheSame)
{
  const std::string mirror =
      "HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 12:00:09 GMT\r\nX-Served-By: b\r\n"
      "Content-Length: 1000000\r\nContent-Type: application/octet-stream\r\nETag: \"a-1\"\r\n\r\n";
  const MirrorAnswer answer = compare(mirror + "body");
  EXPECT_TRUE(answer.complete);
  EXPECT_EQ(answer.why, "");
  EXPECT_EQ(answer.head, mirror.size());
}

TEST(SameAnswer, WaitsForTheWholeHead)
{
  for (std::size_t size = 1; size < ok_head.size(); ++size)
  {
    const MirrorAnswer answer = compare(ok_head.substr(0, size));
    EXPECT_FALSE(answer.complete) << size;
    EXPECT_EQ(answer.why, "") << size;
  }
  EXPECT_TRUE(compare(ok_head).complete);
}

// Equal, and yet not validated: the server does not promise that the bytes are the same.
TEST(SameAnswer, EqualIsNotEnoughWithoutAStrongValidator)
{
  const auto twice = [](std::string_view validators)
  {
    const std::string head = head_with(validators);
    return same_answer(download(std::string { get }, head), bytes(head)).why;
  };
  EXPECT_EQ(twice("ETag: \"a-1\"\r\n"), "");
  EXPECT_EQ(twice(long_ago), "");
  for (const char* weak : { "", "ETag: \r\n", "ETag: \"\"\r\n", "ETag: W/\"a-1\"\r\n",
                            "Last-Modified: Fri, 20 Nov 2026 12:00:00 GMT\r\n" })
    EXPECT_EQ(twice(weak), "the answer has no strong validator") << weak;
}

TEST(SameAnswer, AValidatorOnOneSideOnlyIsADifference)
{
  const auto between = [](std::string_view original, std::string_view mirror)
  { return same_answer(download(std::string { get }, head_with(original)), bytes(head_with(mirror))).why; };
  EXPECT_EQ(between(long_ago, ""), "the mirror's answer has another validator");
  EXPECT_EQ(between("ETag: \"a-1\"\r\n", "ETag: W/\"a-1\"\r\n"), "the mirror's answer has another validator");
  EXPECT_EQ(between(long_ago, "Last-Modified: Thu, 19 Nov 2026 12:00:01 GMT\r\n"),
            "the mirror's answer has another validator");
  // A tag decides, but a date that contradicts it is doubt enough.
  const std::string both = "ETag: \"a-1\"\r\n" + std::string { long_ago };
  EXPECT_EQ(between(both, both), "");
  EXPECT_EQ(between(both, "ETag: \"a-1\"\r\nLast-Modified: Thu, 19 Nov 2026 12:00:01 GMT\r\n"),
            "the mirror's answer has another date of modification");
}

TEST(SameAnswer, NamesTheDifference)
{
  const auto with = [](std::string_view from, std::string_view to)
  {
    std::string head { ok_head };
    head.replace(head.find(from), from.size(), to);
    return compare(head).why;
  };
  EXPECT_EQ(with("200 OK", "304 Not Modified"), "the mirror's answer has another status");
  EXPECT_EQ(with("200 OK", "500 Internal Server Error"), "the mirror's answer has another status");
  EXPECT_EQ(with("1000000", "1000001"), "the mirror's answer has another length");
  EXPECT_EQ(with("a-1", "a-2"), "the mirror's answer has another validator");
  EXPECT_EQ(with("ETag: \"a-1\"\r\n", ""), "the mirror's answer has another validator");
  EXPECT_EQ(with("Content-Length: 1000000", "Transfer-Encoding: chunked"), "the mirror's answer is chunked");
  EXPECT_EQ(with("Content-Length: 1000000\r\n", ""), "the mirror's answer has another length");
  EXPECT_EQ(with("application/octet-stream", "multipart/byteranges; boundary=7"),
            "the mirror's answer is of another type");
  EXPECT_EQ(with("Date: ", "Content-Encoding: gzip\r\nDate: "), "the mirror's answer is coded differently");
  EXPECT_EQ(compare("SSH-2.0-OpenSSH_9\r\n").why, "the mirror's answer is not HTTP");
  EXPECT_EQ(compare("HTTP/1.1 200 OK\r\nX: " + std::string(40000, 'x')).why.empty(), false);
}

} // namespace
} // namespace tandem::fetch
