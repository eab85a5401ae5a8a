#include "tools/sim/client_host.h"

#include "src/chain/wanted.h"
#include "src/flow/token.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tandem::sim
{

namespace
{

using namespace std::chrono_literals;

constexpr std::uint8_t window_shift = 7; // what Linux takes for a buffer of 6 MB

// Modules never look behind the headers; the chain counts bytes.
std::span<const std::byte> blank(std::size_t length)
{
  static constexpr std::array<std::byte, 2048> nothing {};
  return std::span<const std::byte>(nothing).first(std::min(length, nothing.size()));
}

} // namespace

ClientHost::ClientHost(World& world, const std::vector<Module*>& modules)
    : world_(world), timer_(world.loop, [this] { later(); }), injected_timer_(world.loop, [this] { send_injected(); })
{
  for (LinkState& link : links_)
    link = { .present = true, .up = true, .route = true };
  links_[static_cast<std::size_t>(Link::other)] = {};
  if (modules.empty()) return;
  chain_ = std::make_unique<chain::Chain>(chain::Chain::Options { .seed = world.seed }, modules);
  for (std::size_t i = 0; i < chain_->module_count(); ++i)
    chain_->enable(i, true, world.now());
  chain_->links(links_, world.now());
}

ClientHost::~ClientHost() = default;

std::uint16_t ClientHost::add_interface(Link role)
{
  interfaces_.push_back({ .role = role, .random = medium::Random(world_.seed, world_.stream()) });
  return static_cast<std::uint16_t>(interfaces_.size() - 1);
}

void ClientHost::radio(Link link, const RadioState& state)
{
  links_[static_cast<std::size_t>(link)].radio = state;
  if (!chain_) return;
  chain_->radio(link, state, world_.now());
  later();
}

void ClientHost::more_than_seen()
{
  links_[static_cast<std::size_t>(Link::other)].present = true;
  if (chain_) chain_->links(links_, world_.now());
}

void ClientHost::set_up(Link link, bool up)
{
  LinkState& state = links_[static_cast<std::size_t>(link)];
  if (state.up == up) return;
  state.up = up;
  state.changed = world_.now();
  if (!chain_) return;
  chain_->links(links_, world_.now());
  later();
}

ClientHost::Port::Port(ClientHost& client, const Connect& with, std::uint16_t number)
    : client_(client), with_(with), ingress_(*this), egress_(*this)
{
  const auto low = static_cast<std::uint8_t>(with.interface + 1);
  key_.local.bytes = { 10, 77, low, 2 };
  key_.remote.bytes = { 10, 77, 100, 1 };
  key_.local_port = static_cast<std::uint16_t>(40000 + number);
  key_.remote_port = 80;
  // Anything, but the same in every run of a seed.
  medium::Random random(client.world_.seed, 0x15ab0000u + number);
  client_isn_ = { static_cast<std::uint32_t>(random.bits()) };
  server_isn_ = { static_cast<std::uint32_t>(random.bits()) };
}

std::uint64_t ClientHost::Port::segments(Seq seq, std::uint64_t close) const
{
  const std::int32_t bytes = seq - server(close);
  const auto step = static_cast<std::int32_t>(with_.mss);
  // Towards the smaller: nothing is acknowledged in part.
  const std::int64_t whole = bytes >= 0 ? bytes / step : -((-std::int64_t { bytes } + step - 1) / step);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, static_cast<std::int64_t>(close) + whole));
}

Segment ClientHost::Port::segment(const Packet& packet, Direction direction) const
{
  Segment out;
  out.direction = direction;
  out.link = client_.interfaces_[with_.interface].role;
  out.key = key_;
  out.received = client_.world_.now();
  out.timestamps = { { packet.ts_value }, { packet.ts_echo } };
  out.options = option::timestamps;
  out.ecn = packet.ce ? Ecn::ce : packet.ect ? Ecn::ect0 : Ecn::not_ect;
  out.ip_header_length = 20;
  out.tcp_header_length = 32;
  out.bytes = blank(packet.bytes);
  const bool syn = packet.kind == Kind::syn || packet.kind == Kind::syn_ack;
  if (with_.mptcp)
  {
    out.options |= option::mptcp;
    out.mptcp = !syn ? MptcpSubtype::dss : with_.subflow == 0 ? MptcpSubtype::mp_capable : MptcpSubtype::mp_join;
    out.mptcp_version = with_.version;
    out.mptcp_address_id = with_.subflow;
    if (packet.kind == Kind::syn_ack && with_.subflow == 0) out.mptcp_key = with_.key;
    if (packet.kind == Kind::syn && with_.subflow > 0) out.mptcp_token = flow::token_of(with_.key, with_.version);
  }
  if (syn)
  {
    out.flags = packet.kind == Kind::syn ? tcp_flag::syn : tcp_flag::syn | tcp_flag::ack;
    out.seq = packet.kind == Kind::syn ? client_isn_ : server_isn_;
    if (packet.kind == Kind::syn_ack) out.ack = client_isn_ + 1u;
    if (with_.ecn) out.flags |= packet.kind == Kind::syn ? tcp_flag::ece | tcp_flag::cwr : tcp_flag::ece;
    out.options |= option::mss | option::window_scale | option::sack_permitted;
    out.mss = static_cast<std::uint16_t>(with_.mss);
    out.window_scale = window_shift;
    out.window = 65535;
    return out;
  }
  out.flags = tcp_flag::ack;
  if (direction == Direction::ingress)
  {
    out.seq = server(packet.seq);
    out.ack = client_isn_ + 1u;
    out.payload_length = packet.length;
    out.window = 512;
    if (packet.cwr) out.flags |= tcp_flag::cwr;
    return out;
  }
  out.seq = client_isn_ + 1u;
  out.ack = server(packet.ack);
  out.window = static_cast<std::uint16_t>(std::min<std::uint64_t>(65535, packet.window >> window_shift));
  if (packet.ece) out.flags |= tcp_flag::ece;
  out.sack_count = packet.sacks;
  for (unsigned i = 0; i < packet.sacks; ++i)
    out.sack_blocks[i] = { server(packet.sack[i].from), server(packet.sack[i].to) };
  if (packet.sacks > 0) out.options |= option::sack;
  return out;
}

ClientHost::Port& ClientHost::connect(const Connect& with)
{
  ports_.push_back(std::make_unique<Port>(*this, with, static_cast<std::uint16_t>(ports_.size())));
  return *ports_.back();
}

chain::Outcome ClientHost::show(const Segment& segment)
{
  const Admission admission = admit(chain::wanted(*chain_), segment);
  if (admission == Admission::unseen) return {};
  const chain::Outcome outcome = chain_->segment(segment, admission == Admission::queued, world_.now());
  carry_out();
  later();
  return outcome;
}

void ClientHost::later()
{
  const Tick next = chain_->advance(world_.now());
  carry_out();
  timer_.set(next);
}

void ClientHost::carry_out()
{
  chain::Output& output = chain_->output();
  for (const chain::Injection& one : output.segments)
    chain_->sent(one, inject(one.key, one.segment));
  for (const chain::ModuleRequest& one : output.requests)
    steer(one.request);
  for (const chain::FetchRequest& one : output.fetches)
    chain_->fetch_refused(one);
  output.clear();
}

void ClientHost::arrive(Port& port, Handle handle)
{
  Packet& packet = world_.pool[handle];
  Interface& interface = interfaces_[port.with_.interface];
  if (packet.ect && !packet.ce && interface.random.chance(interface.ce_rate))
  {
    packet.ce = true;
    ++interface.marked;
  }
  if (chain_)
  {
    const chain::Outcome outcome = show(port.segment(packet, Direction::ingress));
    if (outcome.edit.ecn && packet.ect) packet.ce = *outcome.edit.ecn == Ecn::ce;
  }
  world_.forward(handle);
}

void ClientHost::leave(Port& port, Handle handle)
{
  if (!chain_)
  {
    world_.forward(handle);
    return;
  }
  Packet& packet = world_.pool[handle];
  const Segment segment = port.segment(packet, Direction::egress);
  port.acked_ = packet.ack;
  port.data_ack_ = packet.data_ack;
  const chain::Outcome outcome = show(segment);
  if (outcome.verdict == Verdict::drop)
  {
    ++stats_.dropped;
    world_.pool.free(handle);
    return;
  }
  const Edit& edit = outcome.edit;
  stats_.edited += edit.changes_bytes() ? 1 : 0;
  if (edit.ack) packet.ack = port.segments(*edit.ack, packet.ack);
  if (edit.window) packet.window = std::uint64_t { *edit.window } << window_shift;
  if (edit.ts_echo) packet.ts_echo = edit.ts_echo->raw;
  if (edit.ts_value) packet.ts_value = edit.ts_value->raw;
  if (edit.route == Link::cell && port.with_.by_cell != nullptr)
  {
    ++stats_.rerouted;
    packet.route = port.with_.by_cell;
    packet.hop = 0;
  }
  world_.forward(handle);
}

std::size_t ClientHost::inject(const FlowKey& key, const InjectedSegment& injected)
{
  const auto found = std::find_if(ports_.begin(), ports_.end(), [&](const auto& p) { return p->key_ == key; });
  const bool by_cell = injected.by == Link::cell;
  if (found == ports_.end() || injected.kind != InjectedKind::ack || (by_cell && (*found)->with_.by_cell == nullptr))
  {
    ++stats_.not_injected;
    return 0;
  }
  Port& port = **found;
  ++stats_.injected;
  const Handle handle = world_.pool.make();
  Packet& packet = world_.pool[handle];
  packet.route = by_cell ? port.with_.by_cell : port.with_.up;
  packet.hop = by_cell ? 0 : 1; // behind this client
  packet.kind = Kind::ack;
  packet.interface = port.with_.interface;
  packet.ack = port.segments(injected.ack, port.acked_);
  packet.data_ack = port.data_ack_;
  packet.window = std::uint64_t { injected.window } << window_shift;
  packet.ece = (injected.flags & tcp_flag::ece) != 0;
  if (injected.timestamps)
  {
    packet.ts_value = injected.timestamps->value.raw;
    packet.ts_echo = injected.timestamps->echo.raw;
  }
  for (unsigned i = 0; i < injected.sack_count && i < packet.sack.size(); ++i)
    packet.sack[packet.sacks++] = { port.segments(injected.sack_blocks[i].left, port.acked_),
                                    port.segments(injected.sack_blocks[i].right, port.acked_) };
  packet.bytes = 52 + (packet.sacks > 0 ? 4 + 8u * packet.sacks : 0);
  injected_.push_back(handle);
  injected_timer_.set(world_.now());
  return packet.bytes;
}

void ClientHost::send_injected()
{
  const std::vector<Handle> ready = std::exchange(injected_, {});
  for (const Handle handle : ready)
    world_.forward(handle);
}

void ClientHost::steer(const LinkRequest& request)
{
  if (request.kind == RequestKind::mptcp_endpoint || request.kind == RequestKind::roam)
  {
    ++stats_.other_requests;
    return;
  }
  ++stats_.requests;
  for (std::uint16_t i = 0; i < interfaces_.size(); ++i)
  {
    Interface& interface = interfaces_[i];
    if (interface.role != request.link) continue;
    if (request.kind == RequestKind::ce_rate)
      interface.ce_rate = std::clamp(request.value, 0.0, 1.0);
    else if (interface.backup != (request.value > 0))
    {
      interface.backup = request.value > 0;
      for (const auto& port : ports_)
        if (port->with_.interface == i && port->with_.mptcp && port->with_.prioritize)
          port->with_.prioritize(interface.backup);
    }
  }
}

} // namespace tandem::sim
