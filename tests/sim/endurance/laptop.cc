#include "tests/sim/endurance/laptop.h"

#include <algorithm>

namespace tandem::test::days
{

namespace
{

constexpr std::uint32_t request = 300;    // bytes
constexpr Duration asks_again = ms(1000); // a request that was not acknowledged

std::size_t index(Link link)
{
  return static_cast<std::size_t>(link);
}

} // namespace

Connection::Connection(Laptop& laptop, std::uint16_t port, double ppm) : laptop_ { laptop }, server_ { ppm }
{
  peers_.key = key_v4(port);
  peers_.downlink = laptop.paths.wifi;
  peers_.window = 32'000; // 4 MB
}

const FlowView* Connection::view() const
{
  const flow::Flow* flow = laptop_.fixture.chain.table().find(peers_.key);
  return flow != nullptr ? &flow->view : nullptr;
}

std::uint64_t Connection::offset(Seq ack) const
{
  const Seq here = peers_.remote_isn + 1 + static_cast<std::uint32_t>(received_);
  return received_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(ack - here));
}

void Connection::push(std::uint64_t bytes)
{
  server_.write(bytes);
  let_server_send();
}

void Connection::ask(std::uint64_t bytes)
{
  answers_ += bytes;
  asked_ += request;
  peers_.next += request;
  send_request();
}

void Connection::send_request()
{
  asked_at_ = laptop_.now();
  Segment s = peers_.data_out(laptop_.now(), request);
  s.seq = s.seq - request;
  leave(s, asked_);
  laptop_.at(laptop_.now() + asks_again, Laptop::What::host_timer, *this);
}

void Connection::let_server_send()
{
  while (const auto packet = server_.send(laptop_.now()))
    laptop_.down(*packet, *this);
  if (server_.due() < tick_at_)
  {
    tick_at_ = server_.due();
    laptop_.at(tick_at_, Laptop::What::server_timer, *this);
  }
}

void Connection::served(const Packet& packet, std::uint64_t asked)
{
  const std::uint64_t before = server_.asked();
  server_.hear(packet, asked, laptop_.now());
  if (server_.told_too_much()) laptop_.complain("the server hears of bytes that it has not sent");
  if (server_.asked() > before)
  {
    server_.write(std::exchange(answers_, 0));
    if (server_.settled()) laptop_.down({ .seq = server_.una(), .ack = server_.asked() }, *this);
  }
  let_server_send();
}

// A segment of the server is here.
void Connection::arrive(const Packet& packet)
{
  Segment s = peers_.data_in(laptop_.now(), packet.length, packet.echo);
  s.seq = peers_.remote_isn + 1 + static_cast<std::uint32_t>(packet.seq);
  s.ack = peers_.local_isn + 1 + static_cast<std::uint32_t>(packet.ack);
  s.timestamps = Timestamps { packet.value, packet.echo };
  laptop_.fixture.show(s);
  laptop_.take_injected();
  const bool probe = packet.length == 0 && packet.seq + 1 == received_;
  if (packet.length == 0 && !probe) return;
  if (packet.seq <= received_ && (peers_.recent == TsClock {} || packet.value.after(peers_.recent)))
    peers_.recent = packet.value;
  const std::uint64_t right = packet.seq + packet.length;
  if (packet.seq > received_)
  {
    std::uint64_t& end = beyond_[packet.seq];
    end = std::max(end, right);
    for (auto at = beyond_.begin(); std::next(at) != beyond_.end();)
      if (const auto next = std::next(at); next->first <= at->second)
      {
        at->second = std::max(at->second, next->second);
        beyond_.erase(next);
      }
      else
        ++at;
  }
  else
    received_ = std::max(received_, right);
  while (!beyond_.empty() && beyond_.begin()->first <= received_)
  {
    received_ = std::max(received_, beyond_.begin()->second);
    beyond_.erase(beyond_.begin());
  }
  peers_.received = 1 + static_cast<std::uint32_t>(received_);
  acknowledge(packet);
}

void Connection::acknowledge(const Packet& packet)
{
  Segment ack = peers_.ack(laptop_.now());
  const auto report = [&](const std::pair<const std::uint64_t, std::uint64_t>& one)
  {
    if (ack.sack_count >= 3) return;
    ack.options |= option::sack;
    ack.sack_blocks[ack.sack_count++] = { peers_.remote_isn + 1 + static_cast<std::uint32_t>(one.first),
                                          peers_.remote_isn + 1 + static_cast<std::uint32_t>(one.second) };
  };
  // The newest first (RFC 2018).
  const auto holds = [&](const auto& one) { return one.first <= packet.seq && packet.seq < one.second; };
  for (const auto& one : beyond_)
    if (holds(one)) report(one);
  for (auto at = beyond_.rbegin(); at != beyond_.rend(); ++at)
    if (!holds(*at)) report(*at);
  leave(ack, asked_);
}

// A segment that the host's own TCP has made.
void Connection::leave(const Segment& segment, std::uint64_t asked)
{
  const chain::Outcome outcome = laptop_.fixture.show(segment).value_or(chain::Outcome {});
  laptop_.take_injected();
  if (outcome.verdict == Verdict::drop)
  {
    ++laptop_.counts.withheld;
    return;
  }
  const Link by = outcome.edit.route.value_or(Link::wifi);
  if (segment.is_pure_ack()) ++(by == Link::cell ? laptop_.counts.by_cell : laptop_.counts.by_wifi);
  Packet packet { .ack = offset(outcome.edit.ack.value_or(segment.ack)),
                  .window = std::uint32_t { outcome.edit.window.value_or(segment.window) } << 7,
                  .value = outcome.edit.ts_value.value_or(segment.timestamps->value),
                  .echo = outcome.edit.ts_echo.value_or(segment.timestamps->echo) };
  for (const SackBlock& block : segment.sacks())
    packet.sacks[packet.sack_count++] = { offset(block.left), offset(block.right) };
  laptop_.up(by, packet, asked, *this);
}

void Connection::injected(const InjectedSegment& segment)
{
  if (segment.kind != InjectedKind::ack) return;
  ++(segment.by == Link::cell ? laptop_.counts.by_cell : laptop_.counts.by_wifi);
  Packet packet { .ack = offset(segment.ack),
                  .window = std::uint32_t { segment.window } << 7,
                  .value = segment.timestamps.value_or(Timestamps {}).value,
                  .echo = segment.timestamps.value_or(Timestamps {}).echo };
  for (std::size_t i = 0; i < segment.sack_count && i < packet.sacks.size(); ++i)
    packet.sacks[packet.sack_count++] = { offset(segment.sack_blocks[i].left), offset(segment.sack_blocks[i].right) };
  laptop_.up(segment.by, packet, 0, *this);
}

std::vector<Module*> Laptop::all(std::vector<Module*> more)
{
  more.insert(more.end(), { &freeze, &mirror, &offload });
  return more;
}

// As the daemon has it.
chain::Chain::Options Laptop::kept(Duration idle)
{
  return { .table = { .idle = idle }, .worth = 14'000 };
}

Laptop::Laptop(const Paths& a_paths, Duration idle, std::vector<Module*> more)
    : paths { a_paths }, fixture { all(std::move(more)), kept(idle) }
{
  fixture.run_for(ms(1));
}

Connection& Laptop::open(double ppm)
{
  Connection& one = *connections_.emplace_back(std::make_unique<Connection>(*this, port_++, ppm));
  fixture.show(one.peers_.syn(now()));
  run_for(paths.wifi_rtt());
  Segment answer = one.peers_.syn_ack(now());
  answer.timestamps->value = one.server_.clock(now() - paths.wifi);
  answer.timestamps->echo = one.peers_.local_ts(now() - paths.wifi_rtt());
  fixture.show(answer);
  one.peers_.recent = answer.timestamps->value;
  one.acknowledge({});
  return one;
}

void Laptop::links(bool up)
{
  up_ = up;
  for (const Link link : { Link::wifi, Link::cell })
  {
    LinkState& state = fixture.links[index(link)];
    state.changed = now();
    state.up = up;
  }
  fixture.chain.links(fixture.links, now());
  take_injected();
}

void Laptop::down(const Packet& packet, Connection& to)
{
  const bool lost = packet.length > 0 && std::uniform_real_distribution<> {}(random_) < paths.loss;
  const Tick from = std::max(free_down_, now());
  if (!up_ || lost || from - now() > paths.queue) return;
  free_down_ = from + from_seconds((packet.length + 52) / paths.rate);
  at(free_down_ + paths.wifi, What::to_host, to, packet);
}

void Laptop::up(Link by, const Packet& packet, std::uint64_t asked, Connection& from)
{
  if (packet.ack > from.received_) complain("an ACK of what the host does not hold");
  if (!up_) return;
  Tick& free = by == Link::cell ? free_cell_ : free_up_;
  free = std::max(free, now());
  at(free + (by == Link::cell ? paths.cell : paths.wifi), What::to_server, from, packet, asked);
}

void Laptop::take_injected()
{
  for (const InjectedRecord& one : std::exchange(fixture.actions.injected, {}))
    for (const auto& connection : connections_)
      if (const FlowView* view = connection->view(); view != nullptr && view->id == one.flow)
        connection->injected(one.segment);
  fixture.actions.requests.clear();
  fixture.actions.paths.clear();
}

void Laptop::happen(const Event& event)
{
  Connection& of = *event.of;
  switch (event.what)
  {
  case What::to_host:
    if (up_) of.arrive(event.packet);
    return;
  case What::to_server:
    return of.served(event.packet, event.asked);
  case What::server_timer:
    if (of.tick_at_ == event.at) of.tick_at_ = Tick::max();
    of.server_.tick(now());
    return of.let_server_send();
  case What::host_timer:
    if (of.server_.asked() < of.asked_ && now() - of.asked_at_ >= asks_again) of.send_request();
    return;
  }
}

void Laptop::run(Tick until)
{
  while (true)
  {
    const Tick alarm = fixture.chain.advance(now());
    take_injected();
    const Tick next = std::min(alarm, events_.empty() ? Tick::max() : events_.top().at);
    if (next > until) break;
    fixture.actions.now = std::max(next, now());
    if (events_.empty() || events_.top().at > now()) continue;
    const Event event = events_.top();
    events_.pop();
    happen(event);
  }
  fixture.actions.now = until;
}

void Laptop::complain(const std::string& what)
{
  if (wrong_.size() < 1000) wrong_ += what + " at " + std::to_string(seconds(now().time_since_epoch())) + " s\n";
}

std::string Laptop::wrong() const
{
  std::string text = wrong_;
  Fixture& looked_at = const_cast<Fixture&>(fixture);
  for (std::size_t i = 0; i < looked_at.chain.module_count(); ++i)
  {
    const auto& stats = fixture.chain.stats(i);
    const std::string name { looked_at.chain.module(i).name() };
    if (stats.excluded > 0) text += name + ": taken out of a flow\n";
    if (stats.faults > 0) text += name + ": a fault\n";
    for (std::size_t v = 0; v < chain::violation_count; ++v)
      if (const auto one = static_cast<chain::Violation>(v);
          stats.violations[v] > 0 && !chain::is_conflict(one) && !chain::is_refusal(one))
        text += name + ": " + std::string { chain::name(one) } + '\n';
  }
  return text;
}

} // namespace tandem::test::days
