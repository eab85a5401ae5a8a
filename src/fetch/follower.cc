#include "src/fetch/follower.h"

#include "src/fetch/http_head.h"

#include <algorithm>
#include <cstring>

namespace tandem::fetch
{

namespace
{

// No window is larger (RFC 7323 2.3), so nothing of the connection is further away.
constexpr std::int32_t farthest = 1 << 30;
constexpr std::string_view one_sided = "no bytes to compare with on one side";

using Bytes = std::span<const std::byte>;

// Position of the empty line's end, or 0.
std::size_t head_end(Bytes bytes)
{
  constexpr std::string_view empty_line = "\r\n\r\n";
  const std::string_view text { reinterpret_cast<const char*>(bytes.data()), bytes.size() };
  const std::size_t at = text.find(empty_line);
  return at == std::string_view::npos ? 0 : at + empty_line.size();
}

} // namespace

void Edge::extend_behind(Bytes more)
{
  if (more.size() >= longest)
  {
    std::memcpy(bytes_.data(), more.data() + (more.size() - longest), longest);
    size_ = longest;
    return;
  }
  if (more.empty()) return;
  const std::size_t kept = std::min(size_, longest - more.size());
  std::memmove(bytes_.data(), bytes_.data() + (size_ - kept), kept);
  std::memcpy(bytes_.data() + kept, more.data(), more.size());
  size_ = kept + more.size();
}

void Edge::extend_before(Bytes more)
{
  const std::size_t taken = std::min(more.size(), longest - size_);
  if (taken == 0) return;
  std::memcpy(bytes_.data() + size_, more.data(), taken);
  size_ += taken;
}

std::uint64_t Follower::position(Seq seq) const
{
  // 64 bits from 32: the one nearest to what arrived last.
  const Seq top = remote_first_ + static_cast<std::uint32_t>(top_);
  return top_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(seq - top));
}

bool Follower::known(Seq seq) const
{
  const std::int32_t distance = seq - (remote_first_ + static_cast<std::uint32_t>(top_));
  return distance < farthest && distance > -farthest && static_cast<std::int64_t>(top_) + distance >= 0;
}

std::uint64_t Follower::progress() const
{
  const std::uint64_t all = holes_.empty() ? top_ : holes_.front().from;
  return all > answer_at_ ? all - answer_at_ : 0;
}

void Follower::refuse(std::string_view why)
{
  if (over()) return;
  phase_ = Phase::refused;
  content_ = Content::refused;
  why_ = why;
  request_ = {};
  head_ = {};
  holes_ = {};
  download_.reset();
}

void Follower::see(const Segment& segment, Bytes payload)
{
  if (segment.has(tcp_flag::rst))
  {
    // Only one that TCP would accept ends the connection (RFC 5961 3.2), but following stops in any case: it costs
    // nothing but this download's chance.
    refuse("a reset on the connection");
    phase_ = Phase::closed;
    return;
  }
  if (over())
  {
    if (segment.has(tcp_flag::fin)) phase_ = Phase::closed;
    return;
  }
  if (segment.has(tcp_flag::syn))
  {
    if (phase_ != Phase::handshake) return; // a copy of an old one
    if (!payload.empty()) return refuse("data on the SYN (TCP Fast Open)");
    if (segment.has_option(option::mptcp)) return refuse("MPTCP");
    if (segment.has_option(option::md5 | option::ao)) return refuse("TCP-MD5 or TCP-AO");
    if (segment.direction == Direction::egress)
    {
      local_next_ = segment.end();
      syn_ = true;
    }
    else
    {
      remote_first_ = segment.end();
      server_ack_ = segment.ack;
      syn_ack_ = true;
    }
    if (syn_ && syn_ack_) phase_ = Phase::request;
    return;
  }
  if (phase_ == Phase::handshake) return refuse("the connection's beginning was not seen");
  // What a copy lacks cannot be made up.
  if (payload.size() != segment.payload_length) return refuse("a packet was copied in part");
  if (segment.direction == Direction::egress)
    leaving(segment, payload);
  else
    arriving(segment, payload);
  if (segment.has(tcp_flag::fin) && segment.direction == Direction::egress && !over()) phase_ = Phase::closed;
}

void Follower::leaving(const Segment& segment, Bytes payload)
{
  // Only a cumulative acknowledgement says so for sure, and only up to what was seen.
  if (segment.has(tcp_flag::ack) && known(segment.ack)) forget_holes_before(std::min(position(segment.ack), top_));
  if (payload.empty()) return;
  const std::int32_t ahead = segment.seq - local_next_;
  if (ahead > 0) return refuse("a part of a request was not seen");
  const auto old = static_cast<std::size_t>(-static_cast<std::int64_t>(ahead));
  if (old >= payload.size()) return; // sent again
  payload = payload.subspan(old);
  local_next_ = local_next_ + static_cast<std::uint32_t>(payload.size());
  if (phase_ == Phase::head) return refuse("a request before the last one was answered");
  if (phase_ == Phase::body)
  {
    if (top_ < body_end_) return refuse("a request before the last one was answered");
    // The next exchange on a connection that is kept open.
    phase_ = Phase::request;
    content_ = Content::unknown;
    why_ = {};
    download_.reset();
    answer_at_ = body_end_;
    holes_.clear();
  }
  if (request_.size() + payload.size() > limits_.head) return refuse("the request is too long");
  request_.insert(request_.end(), payload.begin(), payload.end());
  read_request();
}

void Follower::read_request()
{
  constexpr std::string_view get = "GET ";
  const std::size_t compared = std::min(get.size(), request_.size());
  if (std::memcmp(request_.data(), get.data(), compared) != 0) return refuse("not a GET of plaintext HTTP");
  const std::size_t end = head_end(request_);
  if (end == 0) return;
  if (end != request_.size()) return refuse("a request with a body, or two at once");
  if (const std::string_view why = check_request(request_); !why.empty()) return refuse(why);
  phase_ = Phase::head;
  head_.clear();
}

void Follower::arriving(const Segment& segment, Bytes payload)
{
  if (segment.has(tcp_flag::ack) && segment.ack.after(server_ack_)) server_ack_ = segment.ack;
  server_window_ = segment.window;
  if (payload.empty()) return;
  if (!known(segment.seq)) return; // old, or none of this connection's
  const std::uint64_t from = position(segment.seq);
  const std::uint64_t to = from + payload.size();
  if (to <= answer_at_) return; // of an earlier answer
  if (phase_ == Phase::request) return refuse("the server speaks unasked");
  if (phase_ == Phase::body && to > body_end_) return refuse("more than Content-Length");
  arrived(from, payload);
  if (phase_ == Phase::head)
  {
    // In order only. What came before its turn is not kept: when it belongs to the head, this download is not followed.
    const std::uint64_t next = answer_at_ + head_.size();
    if (from <= next && to > next)
    {
      const Bytes fresh = payload.subspan(static_cast<std::size_t>(next - from));
      const std::size_t room = limits_.head - std::min(limits_.head, head_.size());
      head_.insert(head_.end(), fresh.begin(),
                   fresh.begin() + static_cast<std::ptrdiff_t>(std::min(room, fresh.size())));
      read_answer();
    }
  }
}

void Follower::read_answer()
{
  const std::size_t end = head_end(head_);
  if (end == 0)
  {
    if (head_.size() >= limits_.head) return refuse("the answer's head is too long");
    // Bytes behind the ones held have arrived and are gone.
    if (top_ > answer_at_ + head_.size()) refuse("a part of the answer's head was lost");
    return;
  }
  head_.resize(end);
  const AnswerHead answer = read_answer_head(head_);
  if (!answer.why.empty() && !answer.length) return refuse(answer.why);
  phase_ = Phase::body;
  body_end_ = answer_at_ + end + *answer.length;
  if (top_ > body_end_) return refuse("more than Content-Length");
  why_ = answer.why;
  if (why_.empty() && *answer.length < limits_.shortest) why_ = "the answer is short";
  if (why_.empty())
  {
    content_ = Content::http;
    download_ =
        std::make_shared<const Download>(Download { .flow = id_,
                                                    .key = key_,
                                                    .request = request_,
                                                    .answer = remote_first_ + static_cast<std::uint32_t>(answer_at_),
                                                    .head = head_,
                                                    .length = *answer.length,
                                                    .validator = answer.validator });
  }
  else
    content_ = Content::refused; // this one; the next exchange is looked at again
  request_.clear();
  head_.clear();
}

void Follower::arrived(std::uint64_t from, Bytes bytes)
{
  const std::uint64_t to = from + bytes.size();
  if (from < top_) close_holes(from, bytes);
  if (to <= top_) return;
  if (from > top_)
  {
    if (holes_.size() == limits_.holes) holes_.erase(holes_.begin());
    Hole hole { .from = top_, .to = from, .before = tail_ };
    hole.after.extend_before(bytes);
    holes_.push_back(hole);
    tail_.clear();
    tail_.extend_behind(bytes);
  }
  else
  {
    const Bytes fresh = bytes.subspan(static_cast<std::size_t>(top_ - from));
    // A short segment behind a hole: what follows it belongs to the same side.
    if (!holes_.empty() && holes_.back().to + holes_.back().after.size() == top_)
      holes_.back().after.extend_before(fresh);
    tail_.extend_behind(fresh);
  }
  top_ = to;
}

// Bytes that arrive late: sent again, or overtaken by others.
void Follower::close_holes(std::uint64_t from, Bytes bytes)
{
  const std::uint64_t to = from + bytes.size();
  for (std::size_t i = 0; i < holes_.size();)
  {
    Hole& hole = holes_[i];
    if (to <= hole.from || from >= hole.to)
    {
      ++i;
      continue;
    }
    const std::uint64_t left = std::max(from, hole.from);
    const std::uint64_t right = std::min(to, hole.to);
    const Bytes inside = bytes.subspan(static_cast<std::size_t>(left - from), static_cast<std::size_t>(right - left));
    if (left == hole.from && right == hole.to)
    {
      holes_.erase(holes_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (left == hole.from)
    {
      hole.before.extend_behind(inside);
      hole.from = right;
    }
    else if (right == hole.to)
    {
      Edge after {};
      after.extend_before(inside);
      after.extend_before(hole.after.bytes());
      hole.after = after;
      hole.to = left;
    }
    else
    {
      Hole rest { .from = right, .to = hole.to, .after = hole.after };
      rest.before.extend_behind(inside);
      hole.to = left;
      hole.after.clear();
      hole.after.extend_before(inside);
      if (holes_.size() < limits_.holes) holes_.insert(holes_.begin() + static_cast<std::ptrdiff_t>(i) + 1, rest);
      ++i;
    }
    ++i;
  }
}

void Follower::forget_holes_before(std::uint64_t position)
{
  const auto first = std::find_if(holes_.begin(), holes_.end(), [&](const Hole& hole) { return hole.to > position; });
  holes_.erase(holes_.begin(), first);
}

std::optional<Request> Follower::request(Seq from, Seq to, std::string_view& why) const
{
  if (content_ != Content::http)
  {
    why = why_.empty() ? std::string_view { "no download is on the way" } : why_;
    return {};
  }
  const std::uint64_t body = answer_at_ + download_->head.size();
  if (!from.before(to) || !known(from) || !known(to) || position(from) < body || position(to) > body_end_)
  {
    why = "not within the answer's body";
    return {};
  }
  const std::uint64_t left = position(from), right = position(to);
  if (right > top_)
  {
    why = one_sided;
    return {};
  }
  std::uint64_t begin = left, end = right;
  std::vector<Request::Known> known_bytes {};
  for (const Hole& hole : holes_)
  {
    if (hole.to <= left || hole.from >= right) continue;
    // Of the side that lies in the answer's head nothing can be fetched.
    const std::uint64_t before = std::min<std::uint64_t>(hole.before.size(), hole.from - std::min(hole.from, body));
    const std::uint64_t after = std::min<std::uint64_t>(hole.after.size(), body_end_ - hole.to);
    if (before == 0 || after == 0)
    {
      why = one_sided;
      return {};
    }
    begin = std::min(begin, hole.from - before);
    end = std::max(end, hole.to + after);
    Request::Known edge { .at = hole.from - before - answer_at_ };
    edge.edge.extend_behind(hole.before.bytes().last(static_cast<std::size_t>(before)));
    known_bytes.push_back(edge);
    edge = { .at = hole.to - answer_at_ };
    edge.edge.extend_before(hole.after.bytes().first(static_cast<std::size_t>(after)));
    known_bytes.push_back(edge);
  }
  if (known_bytes.empty())
  {
    why = "it has arrived meanwhile";
    return {};
  }
  if (end - begin > limits_.piece)
  {
    why = "the hole is too large";
    return {};
  }
  return Request { .download = download_,
                   .piece = { begin - answer_at_, end - answer_at_ },
                   .known = std::move(known_bytes),
                   .offset = left - begin };
}

bool equal(const Request& request, Bytes bytes)
{
  return bytes.size() == request.piece.size()
         && std::all_of(request.known.begin(), request.known.end(),
                        [&](const Request::Known& known)
                        {
                          const Bytes edge = known.edge.bytes();
                          const auto at = static_cast<std::size_t>(known.at - request.piece.from);
                          return std::equal(edge.begin(), edge.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
                        });
}

} // namespace tandem::fetch
