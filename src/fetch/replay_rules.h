// Which downloads may be asked for again, and whether the answer to the second asking is the same one. Pure.
#pragma once

#include "src/fetch/fetcher.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tandem::fetch
{

// Empty when the request may be sent a second time, on another network; else a literal reason.
//
// Only a GET without a body (RFC 9110 9.2.1: safe) in plaintext HTTP/1.1. Cookies and authorization are refused unless
// `credentials` says otherwise, and so are fields that may be another credential: a server may take the same session
// from another address for theft and end it, a token may be good for one time only, and they would be shown to another
// network. Authorization that is made for one request or one connection (Digest, NTLM, Negotiate) is always refused. So
// is an answer without a fixed length, or without a strong validator (src/fetch/http_head.h): nothing else shows that
// another answer has the same bytes.
std::string_view why_not_replay(const Download& download, bool credentials);

struct MirrorAnswer
{
  std::string_view why {}; // literal: why it is another answer; empty when it is the same, or not complete yet
  bool complete = false;   // the whole head is there
  std::uint64_t head = 0;  // its length, with the empty line
};

// Compares the beginning of the mirror connection's answer with the download's: status, length, coding, range and
// validators must agree, and the validator must be a strong one. The bytes themselves are compared by who knows some of
// them.
MirrorAnswer same_answer(const Download& download, std::span<const std::byte> beginning);

} // namespace tandem::fetch
