#include "src/fetch/replay.h"

#include "src/fetch/replay_rules.h"
#include "src/kernel/clock.h"
#include "src/kernel/packet/raw_port.h"
#include "src/wire/checksum.h"
#include "src/wire/parse.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

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

Fetched success(std::vector<std::byte> bytes)
{
  Fetched result;
  result.ok = true;
  result.bytes = std::move(bytes);
  return result;
}

Fetched failure(std::string_view why, bool final = false)
{
  Fetched result;
  result.why = why;
  result.final = final;
  return result;
}

struct Ask
{
  Piece wanted {}; // in the download's answer
  Tick deadline {};
  Tick since {};
  Fetcher::Done done {};
  Piece mirrored {}; // the same in the mirror's answer, once its head is known
  bool placed = false;
};

} // namespace

// One mirror connection: its TCP, its port, and who waits for what.
class Mirror : public std::enable_shared_from_this<Mirror>
{
public:
  Mirror(asio::io_context& context, const ReplayOptions& options, std::shared_ptr<const Download> download,
         std::uint64_t& total)
      : context_ { context }, options_ { options }, download_ { std::move(download) }, total_ { total },
        timer_ { context }, descriptor_ { context }
  {
  }

  // Empty, or why there can be no connection.
  std::string_view open()
  {
    const bool v6 = download_->key.remote.v6;
    const auto local = kernel::global_address(options_.cell, v6);
    if (!local) return "the cellular link has no address of the server's IP version";
    const std::size_t headers = v6 ? 60 : 40;
    const std::size_t packet = kernel::packet_limit(options_.cell);
    if (packet < headers + 536) return "the cellular link is not there";
    try
    {
      port_.emplace(options_.cell, options_.marks, *local, download_->key.remote, download_->key.remote_port);
      // A duplicate, because both the port and Asio close theirs.
      descriptor_.assign(::dup(port_->fd()));
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

  bool usable() const { return tcp_ && tcp_->phase() != MirrorPhase::closed && refusal_.empty(); }
  bool busy() const { return !asks_.empty(); }
  std::string_view refusal() const { return refusal_; } // the server gives another answer: for good
  const MirrorStats& stats() const { return tcp_->stats(); }
  std::uint64_t position() const { return tcp_->position(); }

  // False when the piece lies behind: then `ask` is untouched.
  bool take(Ask& ask)
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

  // Goes on to there when nothing else is wanted.
  void follow(std::uint64_t progress)
  {
    if (!usable() || progress <= followed_) return;
    followed_ = progress;
    keep_up();
    settle();
  }

  std::uint64_t take_unbooked()
  {
    if (!tcp_) return 0;
    const std::uint64_t sum = tcp_->stats().bytes_in + tcp_->stats().bytes_out;
    return sum - std::exchange(charged_, sum);
  }

  void close(std::string_view why)
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

private:
  bool place(Ask& ask)
  {
    const auto moved = [&](std::uint64_t offset)
    { return static_cast<std::uint64_t>(static_cast<std::int64_t>(offset) + *shift_); };
    ask.mirrored = { moved(ask.wanted.from), moved(ask.wanted.to) };
    ask.placed = tcp_->want(ask.mirrored, kernel::now());
    return ask.placed;
  }

  // By wanting one byte there, for no other reason than to be near it.
  void keep_up()
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

  void wait_for_packets()
  {
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [self = shared_from_this()](const boost::system::error_code& error)
                           {
                             if (error || self->over_) return;
                             self->take_packets();
                             self->wait_for_packets();
                           });
  }

  void take_packets()
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

  // After every event: hand out what is there, send, and sleep until the next one.
  void settle()
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

  void read_head()
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

  void serve()
  {
    const Tick now = kernel::now();
    for (auto ask = asks_.begin(); ask != asks_.end();)
    {
      std::string_view why;
      if (ask->placed && tcp_->holds(ask->mirrored))
      {
        finish_ask(ask, success(tcp_->read(ask->mirrored)), now);
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
      finish_ask(ask, failure(why), now);
      ask = asks_.erase(ask);
    }
  }

  void finish_ask(std::list<Ask>::iterator ask, Fetched result, Tick now)
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

  void fail_all(std::string_view why, bool final = false)
  {
    const Tick now = kernel::now();
    for (auto ask = asks_.begin(); ask != asks_.end(); ask = asks_.erase(ask))
    {
      ask->placed = false;
      finish_ask(ask, failure(why, final), now);
    }
  }

  void send()
  {
    for (const auto& packet : tcp_->take_packets())
      port_->send(packet); // what is lost here is lost as on the way
    const std::uint64_t sum = tcp_->stats().bytes_in + tcp_->stats().bytes_out;
    total_ += sum - std::exchange(counted_, sum);
  }

  void finish()
  {
    if (over_) return;
    over_ = true;
    boost::system::error_code ignored;
    descriptor_.close(ignored);
    // Keeps this object, and with it the port, until then.
    timer_.expires_after(linger);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code&) {});
  }

  asio::io_context& context_;
  const ReplayOptions& options_;
  std::shared_ptr<const Download> download_;
  std::uint64_t& total_;
  asio::steady_timer timer_;
  asio::posix::stream_descriptor descriptor_;
  std::optional<kernel::RawPort> port_ {};
  std::optional<MirrorTcp> tcp_ {};
  std::list<Ask> asks_ {};
  Piece head_ {};
  std::uint64_t looked_ = 0;
  std::optional<std::int64_t> shift_ {}; // what the mirror's head is longer than the download's
  std::string_view refusal_ {};
  std::uint64_t followed_ = 0;   // how far the download has come
  std::optional<Piece> goal_ {}; // a byte there that is wanted
  std::uint64_t charged_ = 0;
  std::uint64_t counted_ = 0;
  bool settling_ = false;
  bool over_ = false;
};

struct Replay::Parts
{
  struct Entry
  {
    std::shared_ptr<const Download> download {};
    std::string_view refusal {};
    std::vector<std::shared_ptr<Mirror>> mirrors {};
  };

  Parts(asio::io_context& io, ReplayOptions wanted) : context { io }, options { std::move(wanted) } {}

  asio::io_context& context;
  ReplayOptions options;
  ReplayStats stats {};
  std::map<std::uint64_t, Entry> entries {};

  std::uint64_t unbooked = 0; // of mirror connections that are over

  void retire(Mirror& mirror)
  {
    unbooked += mirror.take_unbooked();
    stats.stalls += mirror.stats().stalls;
    stats.ahead += mirror.stats().ahead;
  }

  void drop(Entry& entry, std::size_t at)
  {
    retire(*entry.mirrors[at]);
    entry.mirrors.erase(entry.mirrors.begin() + static_cast<std::ptrdiff_t>(at));
  }

  // Throws away what is over; remembers why when the server gives another answer.
  void tidy(Entry& entry)
  {
    for (std::size_t i = entry.mirrors.size(); i-- > 0;)
    {
      if (entry.mirrors[i]->usable()) continue;
      if (!entry.mirrors[i]->refusal().empty()) entry.refusal = entry.mirrors[i]->refusal();
      drop(entry, i);
    }
  }

  // The download's entry, made when it is new; null when there is no room.
  Entry* entry_of(const std::shared_ptr<const Download>& download)
  {
    auto found = entries.find(download->flow);
    if (found != entries.end() && found->second.download != download && !same(*found->second.download, *download))
    {
      forget(download->flow, "the download is over"); // the next exchange on a connection that is kept open
      found = entries.end();
    }
    if (found == entries.end())
    {
      if (entries.size() >= options.downloads) return nullptr;
      found = entries.emplace(download->flow, Entry { .download = download }).first;
      found->second.refusal = why_not_replay(*download, options.credentials);
    }
    return &found->second;
  }

  static bool same(const Download& a, const Download& b)
  {
    return a.answer == b.answer && a.request == b.request && a.head == b.head;
  }

  // Empty when `entry` has a fresh connection as its last one.
  std::string_view connect(Entry& entry)
  {
    auto mirror = std::make_shared<Mirror>(context, options, entry.download, stats.cell_bytes);
    if (const std::string_view why = mirror->open(); !why.empty())
    {
      mirror->close(why);
      return why;
    }
    ++stats.connections;
    entry.mirrors.push_back(std::move(mirror));
    return {};
  }

  std::string_view serve(const std::shared_ptr<const Download>& download, Ask& ask)
  {
    const Piece& piece = ask.wanted;
    if (piece.from >= piece.to || piece.to > download->head.size() + download->length) return "no such piece";
    if (piece.from < download->head.size()) return "the piece lies in the answer's head";
    if (piece.size() > options.longest_piece) return "the piece is too long";
    Entry* entry = entry_of(download);
    if (entry == nullptr) return "too many downloads have a mirror connection";
    tidy(*entry);
    if (!entry->refusal.empty()) return entry->refusal;
    for (const auto& mirror : entry->mirrors)
      if (mirror->take(ask)) return {};
    // A fresh one has all before the piece to skip.
    const Duration skip = options.sweep_rate.time_for(piece.from);
    if (ask.deadline - ask.since < options.guard || ask.deadline - ask.since - options.guard < skip)
      return "too far for a fresh mirror connection";
    if (entry->mirrors.size() >= std::max<std::size_t>(options.connections, 1))
    {
      const auto idle =
          std::find_if(entry->mirrors.begin(), entry->mirrors.end(), [](const auto& m) { return !m->busy(); });
      if (idle == entry->mirrors.end()) return "the mirror connection has passed the piece";
      (*idle)->close("replaced by a fresh mirror connection");
      drop(*entry, static_cast<std::size_t>(idle - entry->mirrors.begin()));
    }
    if (const std::string_view why = connect(*entry); !why.empty()) return why;
    if (!entry->mirrors.back()->take(ask)) return "the mirror connection failed at once";
    return {};
  }

  void forget(std::uint64_t flow, std::string_view why)
  {
    const auto found = entries.find(flow);
    if (found == entries.end()) return;
    for (const auto& mirror : found->second.mirrors)
    {
      mirror->close(why);
      retire(*mirror);
    }
    entries.erase(found);
  }
};

Replay::Replay(asio::io_context& context, ReplayOptions options)
    : parts_ { std::make_shared<Parts>(context, std::move(options)) }
{
}

Replay::~Replay()
{
  while (!parts_->entries.empty())
    parts_->forget(parts_->entries.begin()->first, "the mirror connections are closed");
}

void Replay::fetch(std::shared_ptr<const Download> download, Piece wanted, Tick deadline, Done done)
{
  ++parts_->stats.asked;
  const std::weak_ptr<Parts> counted = parts_;
  Ask ask { .wanted = wanted, .deadline = deadline, .since = kernel::now() };
  ask.done = [counted, done = std::move(done)](Fetched result)
  {
    if (const auto parts = counted.lock()) ++(result.ok ? parts->stats.fetched : parts->stats.refused);
    done(std::move(result));
  };
  const std::string_view why = parts_->serve(download, ask);
  if (why.empty()) return;
  // What the rules or another answer refuse they will refuse again.
  const auto entry = parts_->entries.find(download->flow);
  const bool final = entry != parts_->entries.end() && why == entry->second.refusal;
  asio::post(parts_->context, [done = std::move(ask.done), why, final]() { done(failure(why, final)); });
}

void Replay::follow(const std::shared_ptr<const Download>& download, std::uint64_t progress)
{
  const auto found = parts_->entries.find(download->flow);
  if (found == parts_->entries.end() || !Parts::same(*found->second.download, *download)) return;
  Parts::Entry& entry = found->second;
  parts_->tidy(entry);
  // The one that has come farthest.
  const auto best = std::max_element(entry.mirrors.begin(), entry.mirrors.end(),
                                     [](const auto& a, const auto& b) { return a->position() < b->position(); });
  if (best != entry.mirrors.end()) (*best)->follow(progress);
}

std::uint64_t Replay::take_unbooked()
{
  std::uint64_t sum = std::exchange(parts_->unbooked, 0);
  for (const auto& [flow, entry] : parts_->entries)
    for (const auto& mirror : entry.mirrors)
      sum += mirror->take_unbooked();
  return sum;
}

void Replay::forget(std::uint64_t flow)
{
  parts_->forget(flow, "the download is over");
}

void Replay::prepare(const std::shared_ptr<const Download>& download)
{
  Parts::Entry* entry = parts_->entry_of(download);
  if (entry == nullptr) return;
  parts_->tidy(*entry);
  if (entry->refusal.empty() && entry->mirrors.empty()) parts_->connect(*entry);
}

ReplayStats Replay::stats() const
{
  ReplayStats sum = parts_->stats;
  for (const auto& [flow, entry] : parts_->entries)
    for (const auto& mirror : entry.mirrors)
    {
      sum.stalls += mirror->stats().stalls;
      sum.ahead += mirror->stats().ahead;
    }
  return sum;
}

} // namespace tandem::fetch
