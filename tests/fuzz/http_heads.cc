// Any bytes as the heads of a download: what is said of them must hold, and what is made of them must be readable.
// Input: two bytes (where the request ends, in units of 1/256 of the rest; how the answer is cut), then request and
// answer.
#include "src/fetch/follower.h"
#include "src/fetch/http_head.h"
#include "src/fetch/replay_rules.h"
#include "tests/fuzz/check.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

using namespace tandem;
using tandem::fuzz::check;

namespace
{

using Bytes = std::span<const std::byte>;

Segment segment(const FlowKey& key, Direction direction, std::uint32_t seq, std::uint32_t ack, std::uint16_t flags,
                std::size_t payload)
{
  Segment s {};
  s.key = key;
  s.direction = direction;
  s.seq = Seq { seq };
  s.ack = Seq { ack };
  s.flags = flags;
  s.payload_length = static_cast<std::uint32_t>(payload);
  return s;
}

// The same on a connection, the answer in pieces of `step` bytes, every third one late.
void follow(Bytes request, Bytes answer, std::size_t step)
{
  const FlowKey key {};
  fetch::Follower follower { key, 1, { .shortest = 1 } };
  follower.see(segment(key, Direction::egress, 99, 0, tcp_flag::syn, 0), {});
  follower.see(segment(key, Direction::ingress, 999, 100, tcp_flag::syn | tcp_flag::ack, 0), {});
  follower.see(segment(key, Direction::egress, 100, 1000, tcp_flag::ack, request.size()), request);
  const auto arrive = [&](std::size_t from)
  {
    const Bytes part = answer.subspan(from, std::min(step, answer.size() - from));
    follower.see(
        segment(key, Direction::ingress, 1000 + static_cast<std::uint32_t>(from), 100, tcp_flag::ack, part.size()),
        part);
  };
  for (std::size_t from = 0, n = 0; from < answer.size(); from += step, ++n)
    if (n % 3 != 2) arrive(from);
  for (const fetch::Hole& hole : follower.holes())
  {
    check(hole.from < hole.to && hole.to <= answer.size(), "holes inside what arrived");
    std::string_view why {};
    const auto wanted = follower.request(Seq { 1000 + static_cast<std::uint32_t>(hole.from) },
                                         Seq { 1000 + static_cast<std::uint32_t>(hole.to) }, why);
    check(wanted.has_value() == why.empty(), "a reason or a request");
    if (wanted)
      check(fetch::equal(*wanted, answer.subspan(wanted->piece.from, wanted->piece.size())), "the truth is equal");
  }
  check(follower.progress() <= answer.size(), "not farther than what arrived");
  for (std::size_t from = 2 * step; from < answer.size(); from += 3 * step)
    arrive(from);
  check(follower.over() || follower.holes().empty(), "all holes closed");
  if (const auto download = follower.download())
  {
    check(fetch::why_not_replay(*download, true) != "the answer's head is not understood", "both parsers agree");
    const fetch::MirrorAnswer again = fetch::same_answer(*download, download->head);
    // Without a strong validator nothing says that two answers are of one representation (RFC 9110 8.8.1).
    const bool told_apart = fetch::why_not_replay(*download, true).empty();
    check(!told_apart || !again.complete || again.why.empty() || again.why == "the mirror's answer has another length",
          "equal to itself");
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  if (size < 2) return 0;
  const Bytes rest = std::as_bytes(std::span { data + 2, size - 2 });
  const std::size_t split = rest.size() * data[0] / 256;
  const Bytes request = rest.first(split);
  const Bytes answer = rest.subspan(split);
  if (fetch::check_request(request).empty())
  {
    fetch::check_credentials(request, false);
    const std::string range = fetch::range_request(request, 5, 10, "\"tag\"");
    check(!range.empty(), "a request that may be made again can be");
    check(fetch::check_request(std::as_bytes(std::span { range })) == "the request is for a range itself",
          "and is one");
  }
  const fetch::AnswerHead head = fetch::read_answer_head(answer);
  check(head.length || !head.why.empty(), "no length is a reason");
  const fetch::RangeHead range = fetch::read_range_head(answer, 5, 10, 20, "\"tag\"");
  check(range.ok == range.why.empty(), "a reason or the range");
  follow(request, answer, 1 + data[1]);
  return 0;
}
