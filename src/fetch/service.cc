#include "src/fetch/service.h"

#include "src/fetch/follower.h"
#include "src/kernel/clock.h"
#include "src/kernel/packet/local_input.h"
#include "src/kernel/packet/tap.h"
#include "src/wire/checksum.h"
#include "src/wire/parse.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

namespace tandem::fetch
{

namespace
{

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr Duration idle = 120s;
constexpr Duration linger = 5s; // after FIN or RST
// A way to fetch keeps up with a download in steps of so many bytes, for so long after the last piece that was asked
// for: whoever backs off, or has spent the budget, asks no more.
constexpr std::uint64_t follow_step = 32768;
constexpr Duration follow_for = 3s;

struct KeyHash
{
  std::size_t operator()(const FlowKey& key) const
  {
    std::array<char, 36> all {};
    std::memcpy(all.data(), key.local.bytes.data(), 16);
    std::memcpy(all.data() + 16, key.remote.bytes.data(), 16);
    std::memcpy(all.data() + 32, &key.local_port, 2);
    std::memcpy(all.data() + 34, &key.remote_port, 2);
    return std::hash<std::string_view> {}({ all.data(), all.size() });
  }
};

struct Followed
{
  Follower follower;
  std::uint64_t id = 0;
  Tick last {};
  Content told = Content::unknown;
  std::string_view told_why {};
  std::shared_ptr<const Download> download {}; // that the fetchers know of
  std::string_view refusal {};                 // by the way to fetch, for this download
  FetchHow how = FetchHow::range;              // the way that is used
  Tick asked {};                               // when a piece of this download was last asked for
  std::size_t pieces = 0;                      // under way
  bool halted = false;                         // the ways to fetch were told that it is over
  std::uint64_t kept_up = 0;                   // Fetcher::follow() was told
};

} // namespace

struct FetchThread::Parts
{
  Parts(ServiceOptions given, Maker make, Follows look, Deliver take)
      : options { std::move(given) }, maker { std::move(make) }, follows { std::move(look) },
        deliver { std::move(take) }, local_input { options.marks }, tap { options.wifi, options.ports }, tap_events {
          context, ::fcntl(tap.fd(), F_DUPFD_CLOEXEC, 0)
        }
  {
  }

  void run();
  void wait_for_packets();
  void drain();
  void see(const kernel::TappedPacket& packet);
  void tell(const FlowKey& key, Followed& followed);
  void keep_up(Followed& followed);
  void handle(const Job& job);
  void judge(const Job& job, std::uint64_t id, const Request& request, Fetched&& fetched);
  void refuse(const Job& job, std::string_view why, bool final, std::uint64_t cell_bytes = 0, Duration took = {});
  void push(Message&& message);
  void flush();
  void tidy();
  void tick();
  Fetcher* fetcher(FetchHow how);
  void forget(Followed& followed);
  void make_room();
  void let_go(std::uint64_t id);
  void book(Fetcher& way);
  void book_last();

  const ServiceOptions options;
  Maker maker;
  Follows follows;
  std::atomic<bool> halted = false; // the budget is spent
  Deliver deliver;
  kernel::LocalInput local_input; // of whoever calls hand_over()
  asio::io_context context { 1 };
  kernel::Tap tap;
  asio::posix::stream_descriptor tap_events; // a descriptor of its own, of the same socket
  asio::steady_timer second { context };
  bool ticking = false; // `second` runs
  asio::steady_timer again { context };
  kernel::SocketQuery sockets {};
  std::array<std::unique_ptr<Fetcher>, 2> fetchers {};
  std::optional<FetchHow> lately {}; // the way that is in use
  std::unordered_map<FlowKey, Followed, KeyHash> connections {};
  std::uint64_t next_id = 1;
  std::size_t pieces = 0;
  std::uint64_t bytes = 0; // of pieces under way
  std::deque<Message> undelivered {};

  struct
  {
    std::atomic<std::uint64_t> connections { 0 }, downloads { 0 }, tap_drops { 0 }, asked { 0 }, fetched { 0 },
        differed { 0 }, bytes { 0 };
  } count {};
  std::thread thread {};
};

FetchThread::FetchThread(ServiceOptions options, Maker maker, Follows follows, Deliver deliver)
    : parts_ { std::make_unique<Parts>(std::move(options), std::move(maker), std::move(follows), std::move(deliver)) }
{
  // Signals are for the main thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  parts_->thread = std::thread { [parts = parts_.get()] { parts->run(); } };
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(parts_->thread.native_handle(), "tandem-fetch");
}

void FetchThread::keep_up(bool on)
{
  parts_->halted.store(!on, std::memory_order_relaxed);
}

FetchThread::~FetchThread()
{
  parts_->context.stop();
  parts_->thread.join();
  try
  {
    parts_->book_last();
  }
  catch (const std::exception&)
  {
    // No memory: it is charged to nobody.
  }
  // Before the context that their connections live on.
  for (auto& fetcher : parts_->fetchers)
    fetcher.reset();
}

void FetchThread::ask(const Job& job)
{
  asio::post(parts_->context, [parts = parts_.get(), job] { parts->handle(job); });
}

int FetchThread::hand_over(std::span<const std::byte> packet) noexcept
{
  return parts_->local_input.send(packet);
}

const ServiceOptions& FetchThread::options() const
{
  return parts_->options;
}

ServiceStats FetchThread::stats() const
{
  const auto& c = parts_->count;
  return { .connections = c.connections,
           .downloads = c.downloads,
           .tap_drops = c.tap_drops,
           .asked = c.asked,
           .fetched = c.fetched,
           .differed = c.differed,
           .bytes = c.bytes };
}

void FetchThread::Parts::run()
{
  wait_for_packets();
  tidy();
  while (!context.stopped())
    try
    {
      context.run();
    }
    catch (const std::exception&)
    {
      // Memory, at most: what was under way is answered by its deadline's refusal in the packet thread.
    }
}

// ---- what passes ----

void FetchThread::Parts::wait_for_packets()
{
  tap_events.async_wait(asio::posix::stream_descriptor::wait_read,
                        [this](boost::system::error_code failed)
                        {
                          if (failed) return;
                          drain();
                          wait_for_packets();
                        });
}

void FetchThread::Parts::drain()
{
  // -1: the interface is down. What comes when it is up again is seen by the same socket.
  constexpr int most = 256;
  constexpr int rounds = 8; // and then it is another's turn
  for (int i = 0; i < rounds && tap.receive([this](const kernel::TappedPacket& packet) { see(packet); }, most) >= most;)
    ++i;
}

void FetchThread::Parts::see(const kernel::TappedPacket& packet)
{
  const wire::Parsed parsed = wire::parse(packet.bytes, packet.direction, packet.bytes.size() < packet.original_length,
                                          0, static_cast<std::uint32_t>(packet.original_length));
  if (!parsed.ok()) return;
  const Segment& segment = parsed.segment;
  // What the local TCP throws away must not be taken for held.
  if (!packet.sound && !wire::verify(packet.bytes, segment)) return;
  auto found = connections.find(segment.key);
  const bool begins =
      segment.direction == Direction::egress && segment.has(tcp_flag::syn) && !segment.has(tcp_flag::ack);
  if (begins)
  {
    const auto& own = options.wifi_addresses;
    if (std::find(own.begin(), own.end(), segment.key.local) == own.end()) return;
    if (found != connections.end() && found->second.follower.handshaking()) return; // sent again
    if (found != connections.end())
    {
      forget(found->second);
      connections.erase(found);
    }
    if (connections.size() >= options.connections) make_room();
    if (connections.size() >= options.connections || !follows(segment.key)) return;
    const std::uint64_t id = next_id++;
    const Follower::Limits limits { .piece = options.piece_bytes };
    found = connections.emplace(segment.key, Followed { .follower = { segment.key, id, limits }, .id = id }).first;
    ++count.connections;
    tick();
  }
  if (found == connections.end()) return;
  Followed& followed = found->second;
  followed.last = packet.arrival;
  if (followed.follower.over() && !segment.has(tcp_flag::fin | tcp_flag::rst)) return;
  const std::size_t headers = std::size_t { segment.ip_header_length } + segment.tcp_header_length;
  std::span<const std::byte> payload =
      segment.bytes.size() > headers ? segment.bytes.subspan(headers) : segment.bytes.first(0);
  payload = payload.first(std::min<std::size_t>(payload.size(), segment.payload_length)); // without Ethernet's padding
  followed.follower.see(segment, payload);
  tell(found->first, followed);
  keep_up(followed);
}

void FetchThread::Parts::keep_up(Followed& followed)
{
  if (halted.load(std::memory_order_relaxed))
  {
    // For what is under way there is budget set aside; broken off, it would be paid for in vain. Not for what a mirror
    // connection skips on its way to a piece, which may be megabytes.
    const bool goes = followed.pieces == 0 || followed.how == FetchHow::replay;
    if (goes && !std::exchange(followed.halted, true)) let_go(followed.id);
    return;
  }
  followed.halted = false;
  if (!followed.download || !followed.refusal.empty() || followed.last - followed.asked > follow_for) return;
  const std::uint64_t progress = followed.follower.progress();
  if (progress < followed.kept_up + follow_step) return;
  followed.kept_up = progress;
  if (Fetcher* way = fetcher(followed.how))
  {
    way->follow(followed.download, progress);
    book(*way);
  }
}

// Passes on what changed about a connection.
void FetchThread::Parts::tell(const FlowKey& key, Followed& followed)
{
  const auto download = followed.follower.download();
  if (download != followed.download)
  {
    forget(followed);
    followed.download = download;
    followed.refusal = {};
    followed.asked = {};
    followed.kept_up = 0;
    if (download)
    {
      ++count.downloads;
      if (lately && !halted.load(std::memory_order_relaxed))
        if (Fetcher* way = fetcher(*lately)) way->prepare(download);
    }
  }
  const bool refused = followed.follower.content() == Content::http && !followed.refusal.empty();
  const Content content = refused ? Content::refused : followed.follower.content();
  const std::string_view why = refused ? followed.refusal : followed.follower.why();
  if (content == followed.told && why == followed.told_why) return;
  followed.told = content;
  followed.told_why = why;
  push(Notification { key, followed.told, followed.told_why });
}

void FetchThread::Parts::forget(Followed& followed)
{
  if (!followed.download) return;
  let_go(followed.id);
  followed.download.reset();
}

// Connections of which nothing is looked at any more need not be known: what is asked of one is refused all the same.
void FetchThread::Parts::make_room()
{
  for (auto each = connections.begin(); each != connections.end();)
  {
    if (!each->second.follower.over())
    {
      ++each;
      continue;
    }
    forget(each->second);
    each = connections.erase(each);
  }
}

// No way to fetch keeps anything for this connection.
void FetchThread::Parts::let_go(std::uint64_t id)
{
  for (const auto& way : fetchers)
    if (way) way->forget(id);
}

void FetchThread::Parts::book(Fetcher& way)
{
  if (const std::uint64_t spent = way.take_unbooked(); spent > 0) push(Cost { spent });
}

// What was spent and not told of, when the thread has ended. Pieces under way are charged by whoever asked for them
// (FetchStore::clear), and what came of them so far is within that.
void FetchThread::Parts::book_last()
{
  for (auto& [key, followed] : connections)
    forget(followed);
  std::uint64_t spent = 0;
  for (const auto& way : fetchers)
    if (way) spent += way->take_unbooked();
  spent -= std::min(spent, bytes);
  for (const Message& message : undelivered)
    if (const auto* cost = std::get_if<Cost>(&message)) spent += cost->cell_bytes;
  if (spent > 0) static_cast<void>(deliver(Cost { spent }));
}

void FetchThread::Parts::tidy()
{
  count.tap_drops += tap.dropped();
  const Tick now = kernel::now();
  for (auto each = connections.begin(); each != connections.end();)
  {
    const Duration age = now - each->second.last;
    if (age < linger || (age < idle && !each->second.follower.closed()))
    {
      ++each;
      continue;
    }
    forget(each->second);
    each = connections.erase(each);
  }
  for (const auto& way : fetchers)
    if (way) book(*way);
  // Whether anything arrives or not.
  if (halted.load(std::memory_order_relaxed))
    for (auto& [key, one] : connections)
      keep_up(one);
  ticking = false;
  tick();
}

// No timer while there is nothing to tidy; for connections that are silent, when the first of them is over.
void FetchThread::Parts::tick()
{
  if (connections.empty() && pieces == 0) return;
  const Tick now = kernel::now();
  Tick next = pieces > 0 ? now : Tick::max();
  Duration least = 1s;
  for (const auto& [key, one] : connections)
  {
    next = std::min(next, now - one.last < linger ? now : one.last + (one.follower.closed() ? linger : idle));
    // What a mirror connection skips is told of while it goes on, so that the end of the budget ends it.
    if (one.pieces > 0 && one.how == FetchHow::replay) least = 100ms;
  }
  const auto at = asio::steady_timer::clock_type::now() + std::max<Duration>(next - now, least);
  if (std::exchange(ticking, true) && second.expiry() <= at) return;
  second.expires_at(at);
  second.async_wait(
      [this](boost::system::error_code cancelled)
      {
        if (cancelled) return;
        ticking = false; // before anything that may fail
        tidy();
      });
}

// ---- what is asked for ----

Fetcher* FetchThread::Parts::fetcher(FetchHow how)
{
  auto& way = fetchers[how == FetchHow::range ? 0 : 1];
  if (!way) way = maker(how, context);
  return way.get();
}

void FetchThread::Parts::refuse(const Job& job, std::string_view why, bool final, std::uint64_t cell_bytes,
                                Duration took)
{
  push(Answer { .job = job,
                .result = { .how = job.fetch.how,
                            .from = job.fetch.from,
                            .to = job.fetch.to,
                            .why = why,
                            .final = final,
                            .took = took },
                .cell_bytes = cell_bytes });
}

void FetchThread::Parts::handle(const Job& job)
{
  ++count.asked;
  lately = job.fetch.how;
  // The ACK that shows the hole was caused by packets that may still wait here.
  drain();
  const auto found = connections.find(job.key);
  if (found == connections.end()) return refuse(job, "the connection's beginning was not seen", true);
  std::string_view why {};
  const std::optional<Request> request = found->second.follower.request(job.fetch.from, job.fetch.to, why);
  if (!request) return refuse(job, why, found->second.follower.content() == Content::refused);
  if (const std::string_view no = sockets.refuse(job.key, options.wifi_index); !no.empty())
    return refuse(job, no, true);
  if (pieces >= options.pieces || bytes + request->piece.size() > options.total_bytes)
    return refuse(job, "too much is under way", false);
  if (job.fetch.how == FetchHow::replay && halted.load(std::memory_order_relaxed))
    return refuse(job, "the budget is spent", false);
  Fetcher* way = fetcher(job.fetch.how);
  if (way == nullptr) return refuse(job, "there is no such way to fetch", true);
  ++pieces;
  bytes += request->piece.size();
  found->second.how = job.fetch.how;
  found->second.asked = kernel::now();
  ++found->second.pieces;
  tick();
  way->fetch(request->download, request->piece, job.fetch.deadline,
             [this, job, id = found->second.id, request = *request](Fetched fetched)
             {
               --pieces;
               bytes -= request.piece.size();
               const auto of = connections.find(job.key);
               const bool there = of != connections.end() && of->second.id == id;
               if (there) --of->second.pieces;
               judge(job, id, request, std::move(fetched));
               if (there && halted.load(std::memory_order_relaxed)) keep_up(of->second);
             });
}

void FetchThread::Parts::judge(const Job& job, std::uint64_t id, const Request& request, Fetched&& fetched)
{
  const auto found = connections.find(job.key);
  const bool current =
      found != connections.end() && found->second.id == id && found->second.follower.download() == request.download;
  if (!fetched.ok)
  {
    if (fetched.final && current)
    {
      // Whoever asks why nothing is fetched of it is told.
      found->second.refusal = fetched.why;
      tell(job.key, found->second);
    }
    return refuse(job, fetched.why, fetched.final, fetched.cell_bytes, fetched.took);
  }
  if (!current) return refuse(job, "the download is over", true, fetched.cell_bytes, fetched.took);
  Follower& follower = found->second.follower;
  if (!equal(request, fetched.bytes))
  {
    ++count.differed;
    follower.refuse("fetched bytes differ from those that arrived");
    tell(job.key, found->second);
    return refuse(job, follower.why(), true, fetched.cell_bytes, fetched.took);
  }
  if (const std::string_view no = sockets.refuse(job.key, options.wifi_index); !no.empty())
    return refuse(job, no, true, fetched.cell_bytes, fetched.took);
  ++count.fetched;
  const auto size = static_cast<std::size_t>(static_cast<std::uint32_t>(job.fetch.to - job.fetch.from));
  count.bytes += size;
  const auto first = fetched.bytes.begin() + static_cast<std::ptrdiff_t>(request.offset);
  push(Answer {
      .job = job,
      .result = { .how = job.fetch.how, .from = job.fetch.from, .to = job.fetch.to, .ok = true, .took = fetched.took },
      .cell_bytes = fetched.cell_bytes,
      .bytes = { first, first + static_cast<std::ptrdiff_t>(size) },
      .server_ack = follower.server_ack(),
      .server_window = follower.server_window() });
}

void FetchThread::Parts::push(Message&& message)
{
  undelivered.push_back(std::move(message));
  flush();
}

// In order, and none is lost: an answer that nobody gets would leave its budget set aside.
void FetchThread::Parts::flush()
{
  while (!undelivered.empty())
  {
    if (!deliver(undelivered.front()))
    {
      again.expires_after(5ms);
      again.async_wait(
          [this](boost::system::error_code cancelled)
          {
            if (!cancelled) flush();
          });
      return;
    }
    undelivered.pop_front();
  }
}

} // namespace tandem::fetch
