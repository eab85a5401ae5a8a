// What the heads of HTTP/1.1 messages say about a download. Pure; the parsing is Boost.Beast's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem::fetch
{

// Why a request, given with its empty line, cannot be made a second time without effect or doubt; empty when it can: a
// GET of an origin server by HTTP/1.1 without a body, an upgrade or a range of its own (RFC 9110 9.2.2, 14.2).
std::string_view check_request(std::span<const std::byte> request);

// Why such a request must not be shown to another network; empty when it may: cookies, authorization and fields that
// may be another credential (an API key, a token) only when they are `allowed`, for a server may take the same session
// from another address for theft, and end it. Never an authorization that is made for one request or connection
// (Digest, NTLM, Negotiate).
std::string_view check_credentials(std::span<const std::byte> request, bool allowed);

// What shows that two answers are the same bytes (RFC 9110 8.8.1): the strong ETag; without any ETag the Last-Modified,
// where the answer's own Date makes it strong. Empty when there is neither, or when the head is not well-formed.
//
// A Last-Modified is strong when the Date is at least 60 s later: RFC 9110 8.8.2.2 wants a second when both come from
// one clock, and otherwise a distance that makes their difference unlikely to matter; RFC 7232 2.2.2 had 60 s.
std::string strong_validator(std::span<const std::byte> head);

struct AnswerHead
{
  std::optional<std::uint64_t> length {}; // of the body; empty: where the answer ends is not known
  std::string validator {};               // strong ETag with its quotes (RFC 9110 8.8.3); empty when there is none
  std::string_view why {};                // why nothing of this answer is to be fetched; literal
};

// The head of an answer to such a request, with its empty line.
AnswerHead read_answer_head(std::span<const std::byte> head);

// The request for bytes [from, to) of the same representation's body, if it still is the same (RFC 9110 13.1.5, 14.2):
// the original's fields without those that concern its connection or are conditions of their own.
std::string range_request(std::span<const std::byte> request, std::uint64_t from, std::uint64_t to,
                          std::string_view validator);

// What the head of the answer to such a request says.
struct RangeHead
{
  bool ok = false; // the body is exactly what was asked for
  bool keep_alive = false;
  std::string_view why {}; // literal: the reason when not
  bool final = false;      // and it would be the same again
};
RangeHead read_range_head(std::span<const std::byte> head, std::uint64_t from, std::uint64_t to, std::uint64_t length,
                          std::string_view validator);

} // namespace tandem::fetch
