#include "src/fetch/mirror_connection.h"

#include "src/fetch/replay_rules.h"
#include "src/fetch/source.h"
#include "src/kernel/clock.h"
#include "src/wire/checksum.h"
#include "src/wire/parse.h"

#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <sys/random.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace tandem::fetch
{
namespace
{

namespace asio = boost::asio;

// A port stays ours for a while after its connection: what the server still had on the way would be answered by the
// kernel otherwise.
constexpr auto linger = std::chrono::seconds { 3 };
// The head is a little longer on the mirror now and then (a date, a cookie, a hop more).
constexpr std::uint64_t head_allowance = 256;

std::uint32_t random_word()
{
  std::uint32_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value)
    value = static_cast<std::uint32_t>(kernel::now().time_since_epoch().count());
  return value;
}

asio::steady_timer::time_point as_steady(Tick tick)
{
  // Both are CLOCK_MONOTONIC.
  return asio::steady_timer::time_point { tick.time_since_epoch() };
}

} // namespace

MirrorConnection::MirrorConnection(asio::io_context& context, const ReplayOptions& options,
                                   std::shared_ptr<const Download> download, std::uint64_t& total)
    : context_ { context }, options_ { options }, download_ { std::move(download) }, total_ { total },
      timer_ { context }, descriptor_ { context }
{
}

std::string_view MirrorConnection::open()
{
  const bool v6 = download_->key.remote.v6;
  const auto local = source(v6);
  if (!local) return "the cellular link has no address of the server's IP version";
  const std::size_t headers = v6 ? 60 : 40;
  const std::size_t packet = kernel::packet_limit(options_.cell);
  if (packet < headers + 536) return "the cellular link is not there";
  try
  {
    port_.emplace(options_.cell, options_.marks, *local, download_->key.remote, download_->key.remote_port);
    // A duplicate, because both the port and Asio close theirs.
    descriptor_.assign(::fcntl(port_->fd(), F_DUPFD_CLOEXEC, 0));
  }
  catch (const std::exception&)
  {
    return "no raw port on the cellular link";
  }
  MirrorConfig config;
  config.key = port_->key();
  config.initial_sequence = { random_word() };
  config.initial_clock = { random_word() };
  config.mss = static_cast<std::uint16_t>(std::min<std::size_t>(packet - headers, 8960));
  config.optimistic = options_.optimistic;
  config.guard = options_.guard;
  config.early_guard = options_.early_guard;
  config.sweep_rate = options_.sweep_rate;
  config.sweep_window = options_.sweep_window;
  config.near = options_.near;
  tcp_.emplace(config, download_->request);
  const Tick now = kernel::now();
  head_ = { 0, download_->head.size() };
  tcp_->want(head_, now);
  tcp_->open(now);
  wait_for_packets();
  settle();
  return {};
}

std::optional<Address> MirrorConnection::source(bool v6) const
{
  return options_.addresses.empty() ? kernel::global_address(options_.cell, v6)
                                    : first_of_version(options_.addresses, v6);
}

bool MirrorConnection::take(Ask& ask)
{
  if (!usable()) return false;
  if (shift_)
  {
    if (!place(ask)) return false;
  }
  asks_.push_back(std::move(ask));
  settle();
  return true;
}

void MirrorConnection::follow(std::uint64_t progress)
{
  if (!usable() || progress <= followed_) return;
  followed_ = progress;
  keep_up();
  settle();
}

std::uint64_t MirrorConnection::take_unbooked()
{
  if (!tcp_) return 0;
  const std::uint64_t sum = tcp_->stats().bytes_in + tcp_->stats().bytes_out;
  return sum - std::exchange(charged_, sum);
}

void MirrorConnection::close(std::string_view why)
{
  if (over_) return;
  if (tcp_)
  {
    if (tcp_->phase() != MirrorPhase::closed) tcp_->abort();
    send();
    fail_all(why, why == refusal_);
  }
  finish();
}

bool MirrorConnection::place(Ask& ask)
{
  const auto moved = [&](std::uint64_t offset)
  { return static_cast<std::uint64_t>(static_cast<std::int64_t>(offset) + *shift_); };
  ask.mirrored = { moved(ask.wanted.from), moved(ask.wanted.to) };
  ask.placed = tcp_->want(ask.mirrored, kernel::now());
  return ask.placed;
}

void MirrorConnection::keep_up()
{
  if (!shift_ || followed_ == 0 || followed_ >= download_->head.size() + download_->length) return;
  const auto at = static_cast<std::uint64_t>(static_cast<std::int64_t>(followed_) + *shift_);
  const Piece next { at, at + 1 };
  if (goal_ == next) return;
  const Tick now = kernel::now();
  // The new one first, so that the window does not close in between.
  const std::optional<Piece> before = std::exchange(goal_, std::nullopt);
  if (tcp_->want(next, now)) goal_ = next;
  if (before) tcp_->unwant(*before, now);
}

void MirrorConnection::wait_for_packets()
{
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const boost::system::error_code& error)
                         {
                           if (error || self->over_) return;
                           self->take_packets();
                           self->wait_for_packets();
                         });
}

void MirrorConnection::take_packets()
{
  const Tick now = kernel::now();
  const int count = port_->receive(
      [&](const kernel::RawArrival& arrival)
      {
        const wire::Parsed parsed = wire::parse(arrival.bytes, Direction::ingress);
        if (!parsed.ok()) return;
        if (!arrival.checksum_verified && !wire::verify(arrival.bytes, parsed.segment)) return;
        Segment segment = parsed.segment;
        segment.link = Link::cell;
        tcp_->arrive(segment, now);
      });
  if (over_) return;
  if (count < 0)
    close("the cellular link is gone");
  else
    settle();
}

void MirrorConnection::settle()
{
  if (over_) return;
  if (settling_) return;
  settling_ = true;
  read_head();
  serve();
  settling_ = false;
  if (over_) return;
  send();
  const Tick now = kernel::now();
  if (tcp_->phase() == MirrorPhase::closed)
  {
    fail_all(tcp_->why());
    return finish();
  }
  Tick next = tcp_->wake();
  for (const Ask& ask : asks_)
    next = std::min(next, ask.deadline);
  timer_.cancel();
  if (next == Tick::max()) return;
  timer_.expires_at(as_steady(std::max(next, now)));
  timer_.async_wait(
      [self = shared_from_this()](const boost::system::error_code& error)
      {
        if (error || self->over_) return;
        self->tcp_->tick(kernel::now());
        self->settle();
      });
}

void MirrorConnection::read_head()
{
  if (shift_ || !refusal_.empty()) return;
  const std::uint64_t there = tcp_->beginning();
  if (there <= looked_) return;
  looked_ = there;
  const MirrorAnswer answer = same_answer(*download_, tcp_->read({ 0, there }));
  if (!answer.why.empty())
  {
    refusal_ = answer.why;
    return close(answer.why);
  }
  const Tick now = kernel::now();
  if (!answer.complete)
  {
    if (there < head_.to) return;
    const Piece before = std::exchange(head_, { 0, head_.to + head_allowance });
    tcp_->want(head_, now);
    tcp_->unwant(before, now);
    return;
  }
  shift_ = static_cast<std::int64_t>(answer.head) - static_cast<std::int64_t>(download_->head.size());
  for (Ask& ask : asks_)
    place(ask);
  keep_up();
  // Only now, so that the window does not close in between.
  tcp_->unwant(head_, now);
}

void MirrorConnection::serve()
{
  const Tick now = kernel::now();
  for (auto ask = asks_.begin(); ask != asks_.end();)
  {
    std::string_view why;
    if (ask->placed && tcp_->holds(ask->mirrored))
    {
      finish_ask(ask, { .ok = true, .bytes = tcp_->read(ask->mirrored) }, now);
      ask = asks_.erase(ask);
      continue;
    }
    if (shift_ && !ask->placed)
      why = "the mirror connection has passed the piece";
    else if (ask->placed && tcp_->end() && *tcp_->end() < ask->mirrored.to)
      why = "the mirror's answer ended early";
    else if (now >= ask->deadline)
      why = "not fetched in time";
    if (why.empty())
    {
      ++ask;
      continue;
    }
    finish_ask(ask, { .why = why }, now);
    ask = asks_.erase(ask);
  }
}

void MirrorConnection::finish_ask(std::list<Ask>::iterator ask, Fetched result, Tick now)
{
  if (ask->placed) tcp_->unwant(ask->mirrored, now);
  result.took = now - ask->since;
  // Each byte is charged once: to the piece that is done first.
  const std::uint64_t sum = tcp_->stats().bytes_in + tcp_->stats().bytes_out;
  result.cell_bytes = sum - charged_;
  charged_ = sum;
  // Called later: whoever asked may ask again at once.
  asio::post(context_,
             [done = std::move(ask->done), result = std::move(result)]() mutable { done(std::move(result)); });
}

void MirrorConnection::fail_all(std::string_view why, bool final)
{
  const Tick now = kernel::now();
  for (auto ask = asks_.begin(); ask != asks_.end(); ask = asks_.erase(ask))
  {
    ask->placed = false;
    finish_ask(ask, { .why = why, .final = final }, now);
  }
}

void MirrorConnection::send()
{
  for (const auto& packet : tcp_->take_packets())
    port_->send(packet); // what is lost here is lost as on the way
  const std::uint64_t sum = tcp_->stats().bytes_in + tcp_->stats().bytes_out;
  total_ += sum - std::exchange(counted_, sum);
}

void MirrorConnection::finish()
{
  if (over_) return;
  over_ = true;
  boost::system::error_code ignored;
  descriptor_.close(ignored);
  // Keeps this object, and with it the port, until then.
  timer_.expires_after(linger);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code&) {});
}

} // namespace tandem::fetch
