#include "src/fetch/replay.h"

#include "src/fetch/mirror_connection.h"
#include "src/fetch/replay_rules.h"
#include "src/kernel/clock.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace tandem::fetch
{
namespace
{
namespace asio = boost::asio;

// Raw ports held at a time, four descriptors each: of all downloads' connections, and as many again of those that are
// over, whose port lingers.
constexpr std::size_t most_ports = 32;

} // namespace

struct Replay::Parts
{
  struct Entry
  {
    std::shared_ptr<const Download> download {};
    std::string_view refusal {};
    std::vector<std::shared_ptr<MirrorConnection>> mirrors {};
  };

  Parts(asio::io_context& io, ReplayOptions wanted) : context { io }, options { std::move(wanted) } {}

  asio::io_context& context;
  ReplayOptions options;
  ReplayStats stats {};
  std::map<std::uint64_t, Entry> entries {};

  std::uint64_t unbooked = 0;                            // of mirror connections that are over
  std::vector<std::weak_ptr<MirrorConnection>> ports {}; // connections that hold one

  bool port_free()
  {
    std::erase_if(ports, [](const auto& mirror) { return mirror.expired(); });
    return ports.size() < most_ports;
  }

  void retire(MirrorConnection& mirror)
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

  // Downloads that have a mirror connection: those that are refused, or whose connections are over, take no room.
  std::size_t mirrored() const
  {
    const auto has_one = [](const auto& one)
    {
      const auto& mirrors = one.second.mirrors;
      return std::any_of(mirrors.begin(), mirrors.end(), [](const auto& mirror) { return mirror->usable(); });
    };
    return static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(), has_one));
  }

  // The download's entry, made when it is new; forget() ends it.
  Entry& entry_of(const std::shared_ptr<const Download>& download)
  {
    auto found = entries.find(download->flow);
    if (found != entries.end() && found->second.download != download && !same(*found->second.download, *download))
    {
      forget(download->flow, "the download is over"); // the next exchange on a connection that is kept open
      found = entries.end();
    }
    if (found == entries.end())
    {
      found = entries.emplace(download->flow, Entry { .download = download }).first;
      found->second.refusal = why_not_replay(*download, options.credentials);
    }
    return found->second;
  }

  static bool same(const Download& a, const Download& b)
  {
    return a.answer == b.answer && a.request == b.request && a.head == b.head;
  }

  // Empty when `entry` has a fresh connection as its last one.
  std::string_view connect(Entry& entry)
  {
    if (entry.mirrors.empty() && mirrored() >= options.downloads) return "too many downloads have a mirror connection";
    if (!port_free()) return "too many mirror connections";
    auto mirror = std::make_shared<MirrorConnection>(context, options, entry.download, stats.cell_bytes);
    if (const std::string_view why = mirror->open(); !why.empty())
    {
      mirror->close(why);
      return why;
    }
    ++stats.connections;
    ports.push_back(mirror);
    entry.mirrors.push_back(std::move(mirror));
    return {};
  }

  std::string_view serve(const std::shared_ptr<const Download>& download, MirrorConnection::Ask& ask)
  {
    const Piece& piece = ask.wanted;
    if (piece.from >= piece.to || piece.to > download->head.size() + download->length) return "no such piece";
    if (piece.from < download->head.size()) return "the piece lies in the answer's head";
    if (piece.size() > options.longest_piece) return "the piece is too long";
    Entry& entry = entry_of(download);
    tidy(entry);
    if (!entry.refusal.empty()) return entry.refusal;
    for (const auto& mirror : entry.mirrors)
      if (mirror->take(ask)) return {};
    // A fresh one has all before the piece to skip.
    const Duration skip = options.sweep_rate.time_for(piece.from);
    if (ask.deadline - ask.since < options.guard || ask.deadline - ask.since - options.guard < skip)
      return "too far for a fresh mirror connection";
    if (entry.mirrors.size() >= std::max<std::size_t>(options.connections, 1))
    {
      const auto idle =
          std::find_if(entry.mirrors.begin(), entry.mirrors.end(), [](const auto& m) { return !m->busy(); });
      if (idle == entry.mirrors.end() || !port_free()) return "the mirror connection has passed the piece";
      (*idle)->close("replaced by a fresh mirror connection");
      drop(entry, static_cast<std::size_t>(idle - entry.mirrors.begin()));
    }
    if (const std::string_view why = connect(entry); !why.empty()) return why;
    if (!entry.mirrors.back()->take(ask)) return "the mirror connection failed at once";
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
  MirrorConnection::Ask ask { .wanted = wanted, .deadline = deadline, .since = kernel::now() };
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
  asio::post(parts_->context, [done = std::move(ask.done), why, final]() { done({ .why = why, .final = final }); });
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
  Parts::Entry& entry = parts_->entry_of(download);
  parts_->tidy(entry);
  if (entry.refusal.empty() && entry.mirrors.empty()) parts_->connect(entry);
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
