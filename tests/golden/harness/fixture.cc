#include "tests/golden/harness/fixture.h"

#include "src/chain/wanted.h"

#include <array>

namespace tandem::test
{

FlowKey key_v4(std::uint16_t local_port)
{
  FlowKey key {};
  key.local.bytes = { 192, 0, 2, 10 };
  key.remote.bytes = { 198, 51, 100, 7 };
  key.local_port = local_port;
  key.remote_port = 80;
  return key;
}

FlowKey key_v6(std::uint16_t local_port)
{
  FlowKey key = key_v4(local_port);
  key.local = { .bytes = { 0x20, 0x01, 0x0d, 0xb8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 }, .v6 = true };
  key.remote = { .bytes = { 0x20, 0x01, 0x0d, 0xb8, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 }, .v6 = true };
  return key;
}

LinkStates both_links()
{
  LinkStates links {};
  for (const Link link : { Link::wifi, Link::cell })
    links[static_cast<std::size_t>(link)] = { .present = true, .up = true, .route = true, .route_v6 = true };
  return links;
}

void Recorder::carry_out(chain::Chain& chain)
{
  chain::Output& output = chain.output();
  for (const chain::Injection& one : output.segments)
  {
    if (bytes_each > 0) injected.push_back({ now, one.flow, one.segment, std::string { one.why }, one.ip_class });
    chain.sent(one, bytes_each);
  }
  for (const chain::ModuleRequest& one : output.requests)
    requests.emplace_back(one.request, one.why);
  for (const chain::FetchRequest& one : output.fetches)
  {
    if (fetches)
      asked.push_back({ now, one.flow, one.slot, one.fetch, std::string { one.why } });
    else
      chain.fetch_refused(one);
  }
  paths.insert(paths.end(), output.paths.begin(), output.paths.end());
  output.clear();
}

TsClock Peers::local_ts(Tick now) const
{
  return local_clock + static_cast<std::uint32_t>(now.time_since_epoch() / std::chrono::milliseconds { 1 });
}

TsClock Peers::remote_ts(Tick now) const
{
  return remote_clock
         + static_cast<std::uint32_t>((now.time_since_epoch() - downlink) / std::chrono::milliseconds { 1 });
}

Segment Peers::bare(Direction direction, std::uint16_t flags, Tick now) const
{
  // Never read by a decision; its size is what a segment weighs.
  static const std::array<std::byte, 1500> nothing {};
  const bool out = direction == Direction::egress;
  Segment s {};
  s.direction = direction;
  s.link = Link::wifi;
  s.key = key;
  s.flags = flags;
  s.seq = out ? local_isn + next : remote_isn + received;
  if (s.has(tcp_flag::ack)) s.ack = out ? remote_isn + received : local_isn + next;
  s.window = out ? window : remote_window;
  s.options = more_options;
  if (mptcp_refused && (!out || s.has(tcp_flag::ack))) s.options &= ~option::mptcp;
  if (ace && !s.has(tcp_flag::syn)) s.flags |= static_cast<std::uint16_t>((*ace & 7u) << 6);
  if (s.has_option(option::mptcp)) s.mptcp = s.has(tcp_flag::syn) ? MptcpSubtype::mp_capable : MptcpSubtype::dss;
  if (timestamps)
  {
    s.options |= option::timestamps;
    s.timestamps = out ? Timestamps { local_ts(now), recent } : Timestamps { remote_ts(now), local_ts(now) };
  }
  s.ip_header_length = key.local.v6 ? 40 : 20;
  s.tcp_header_length = timestamps ? 32 : 20;
  s.bytes = std::span { nothing }.first(s.ip_header_length + s.tcp_header_length + 0u);
  return s;
}

Segment Peers::syn(Tick now) const
{
  Segment s = bare(Direction::egress, tcp_flag::syn, now);
  s.seq = local_isn;
  s.mss = mss;
  s.window_scale = local_scale;
  s.options |= option::mss | (sack ? option::sack_permitted : 0) | (local_scale ? option::window_scale : 0);
  if (s.timestamps) s.timestamps->echo = {};
  if (ace) s.flags |= ace_bits;
  return s;
}

Segment Peers::syn_ack(Tick now) const
{
  Segment s = bare(Direction::ingress, tcp_flag::syn | tcp_flag::ack, now);
  s.seq = remote_isn;
  s.ack = local_isn + 1;
  s.mss = mss;
  s.window_scale = remote_scale;
  s.options |= option::mss | (sack ? option::sack_permitted : 0) | (remote_scale ? option::window_scale : 0);
  if (ace) s.flags |= tcp_flag::cwr; // RFC 9768 table 2: the SYN came as Not-ECT
  return s;
}

Segment Peers::ack(Tick now) const
{
  return bare(Direction::egress, tcp_flag::ack, now);
}

Segment Peers::data_in(Tick now, std::uint32_t length, TsClock echo) const
{
  Segment s = bare(Direction::ingress, tcp_flag::ack, now);
  s.payload_length = length;
  if (s.timestamps) s.timestamps->echo = echo;
  return s;
}

Segment Peers::data_out(Tick now, std::uint32_t length) const
{
  Segment s = bare(Direction::egress, tcp_flag::ack | tcp_flag::psh, now);
  s.payload_length = length;
  return s;
}

Fixture::Fixture(std::vector<Module*> modules, chain::Chain::Options options)
    : chain { std::move(options), std::move(modules), actions }
{
  chain.links(links, now());
  for (std::size_t i = 0; i < chain.module_count(); ++i)
    chain.enable(i, true, now());
}

void Fixture::run(Tick until)
{
  while (true)
  {
    const Tick next = chain.advance(actions.now);
    if (next > until) break;
    actions.now = next;
  }
  actions.now = until;
  chain.advance(until);
}

std::optional<chain::Outcome> Fixture::show(const Segment& segment)
{
  Wanted wanted = chain::wanted(chain);
  if (see_everything)
  {
    wanted.queued |= traffic::egress_pure_ack | traffic::egress_data;
    wanted.observed |= traffic::ingress;
    wanted.any = true;
  }
  const Admission admission = admit(wanted, segment);
  if (admission == Admission::unseen) return std::nullopt;
  return chain.segment(segment, admission == Admission::queued, now());
}

void Fixture::open(Peers& peers)
{
  show(peers.syn(now()));
  run_for(ms(1));
  show(peers.syn_ack(now()));
  peers.recent = peers.remote_ts(now());
  run_for(ms(1));
  show(peers.ack(now()));
}

void Fixture::data(Peers& peers, std::uint32_t length, TsClock echo)
{
  show(peers.data_in(now(), length, echo));
  peers.recent = peers.remote_ts(now());
  peers.received += length;
}

int Fixture::download(Peers& peers, int count, Duration every, Duration rtt, std::uint32_t length)
{
  int touched = 0;
  for (int i = 0; i < count; ++i)
  {
    run_for(every);
    data(peers, length, peers.local_ts(now() - rtt));
    const chain::Outcome outcome = ack(peers);
    touched += outcome.verdict == Verdict::drop || !outcome.edit.empty() ? 1 : 0;
  }
  return touched;
}

std::uint64_t Fixture::violations() const
{
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < chain.module_count(); ++i)
    for (const std::uint64_t n : chain.stats(i).violations)
      all += n;
  return all;
}

std::uint64_t Fixture::count(std::string_view why) const
{
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < chain.module_count(); ++i)
    for (const chain::ReasonCount& reason : chain.stats(i).reasons)
      if (reason.why == why) all += reason.count;
  return all;
}

} // namespace tandem::test
