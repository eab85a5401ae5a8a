#include "tools/sim/transfer.h"

#include "tools/sim/client_host.h"

#include <algorithm>

namespace tandem::sim
{

namespace
{

constexpr std::uint64_t burst_bytes = 65536;         // MPTCP_SEND_BURST_SIZE of Linux
constexpr std::uint32_t dss_data = 20, dss_ack = 12; // RFC 8684 3.3, with 8-byte data ACK and checksum off

} // namespace

Transfer::Transfer(World& world, const TransferConfig& config, ClientHost* client)
    : world_(world), config_(config), client_(client)
{
  SenderConfig& sender = config_.sender;
  sender.own_window = !config_.mptcp;
  connection_key_ = medium::Random(world.seed, world.stream()).bits();
  if (config_.mptcp)
  {
    sender.header += dss_data;
    sender.mss -= dss_data;
    config_.receiver.option_bytes = dss_ack;
  }
  config_.receiver.sack = sender.repair != Repair::reno;
  if (config_.size) total_ = (*config_.size + sender.mss - 1) / sender.mss;
  edge_ = config_.mptcp ? config_.receive_buffer / sender.mss : ~std::uint64_t { 0 };
  if (config_.offered.bits_per_second > 0)
  {
    written_ = 0;
    writer_ = std::make_unique<Timer>(world.loop, [this] { write(); });
    writer_->set(world.now());
  }
}

// Every millisecond what has come together since; nothing while the send buffer is full.
void Transfer::write()
{
  constexpr Duration step = std::chrono::milliseconds { 1 };
  const double most = static_cast<double>(config_.send_buffer) / config_.sender.mss;
  part_ = std::min(part_ + config_.offered.bits_per_second / 8 * seconds(step) / config_.sender.mss, most);
  while (part_ >= 1 && static_cast<double>(written_ - next_) < most)
  {
    ++written_;
    part_ -= 1;
  }
  part_ = std::min(part_, 1.0); // what the buffer does not take is not written later
  writer_->set(world_.now() + step);
  for (const auto& one : subflows_)
    one->sender->push();
}

Transfer::~Transfer() = default;

Transfer::Subflow& Transfer::add(const Path& path, Tick start)
{
  subflows_.push_back(std::make_unique<Subflow>());
  Subflow& one = *subflows_.back();
  one.down = path.down;
  one.up = path.up;
  one.up_by_cell = path.up_by_cell;
  one.sender = std::make_unique<Sender>(world_, config_.sender, *this, one.down, group_);
  one.receiver = std::make_unique<Receiver>(world_, config_.receiver, *this, one.up);
  one.sender->interface = one.receiver->interface = path.interface;
  one.up.push_back(one.sender.get());
  if (!one.up_by_cell.empty()) one.up_by_cell.push_back(one.sender.get());
  signal_delay_.push_back(path.signal_delay);
  one.heard = std::make_unique<Timer>(world_.loop,
                                      [this, &one]
                                      {
                                        one.backup = one.said.front().second;
                                        one.said.pop_front();
                                        if (!one.said.empty()) one.heard->set(one.said.front().first);
                                        for (const auto& other : subflows_)
                                          if (other->sender->window().established) other->sender->push();
                                      });
  if (client_ != nullptr)
  {
    const std::size_t number = subflows_.size() - 1;
    const bool coupled = config_.sender.algorithm == Algorithm::lia || config_.sender.algorithm == Algorithm::olia;
    ClientHost::Port& port =
        client_->connect({ .interface = path.interface,
                           .mss = config_.sender.mss,
                           .mptcp = config_.mptcp,
                           .ecn = config_.sender.ecn,
                           .version = static_cast<std::uint8_t>(coupled ? 0 : 1),
                           .subflow = static_cast<std::uint8_t>(number),
                           .key = connection_key_,
                           .up = &one.up,
                           .by_cell = one.up_by_cell.empty() ? nullptr : &one.up_by_cell,
                           .prioritize = [this, number](bool backup) { prioritize(number, backup); } });
    one.down.push_back(&port.ingress());
    one.up.insert(one.up.begin(), &port.egress());
  }
  one.down.push_back(one.receiver.get());
  one.start = std::make_unique<Timer>(world_.loop, [receiver = one.receiver.get()] { receiver->connect(); });
  one.start->set(start);
  return one;
}

std::uint32_t Transfer::length_of(std::uint64_t dsn) const
{
  const std::uint32_t mss = config_.sender.mss;
  if (dsn + 1 < total_ || !config_.size) return mss;
  return static_cast<std::uint32_t>(*config_.size - (total_ - 1) * mss);
}

bool Transfer::available() const
{
  return next_ < total_ && next_ < edge_ && next_ < written_;
}

bool Transfer::idle(const Subflow& one) const
{
  return one.backup
         && std::any_of(subflows_.begin(), subflows_.end(),
                        [](const auto& other) { return !other->backup && other->sender->window().established; });
}

void Transfer::prioritize(std::size_t subflow, bool backup)
{
  Subflow& one = *subflows_[subflow];
  one.said.emplace_back(world_.now() + signal_delay_[subflow], backup);
  if (one.said.size() == 1) one.heard->set(one.said.front().first);
}

void Transfer::leave(std::size_t subflow)
{
  if (!config_.mptcp || !config_.reinject) return;
  Subflow& one = *subflows_[subflow];
  one.left = std::make_unique<Timer>(world_.loop,
                                     [this, &one]
                                     {
                                       std::vector<std::uint64_t> missing = one.sender->close();
                                       for (; !one.assigned.empty(); one.assigned.pop())
                                         missing.push_back(one.assigned.front());
                                       stalled(*one.sender, missing);
                                     });
  one.left->set(world_.now() + signal_delay_[subflow]);
}

bool Transfer::asked(std::size_t subflow) const
{
  const Subflow& one = *subflows_[subflow];
  return one.said.empty() ? one.backup : one.said.back().second;
}

Transfer::Subflow& Transfer::of(const Sender& sender)
{
  for (const auto& one : subflows_)
    if (one->sender.get() == &sender) return *one;
  return *subflows_.front();
}

// Writes data to the subflow that will have sent what it has first, until none has room.
void Transfer::assign()
{
  const std::uint64_t burst = std::max<std::uint64_t>(1, burst_bytes / config_.sender.mss);
  while (available())
  {
    Subflow* best = nullptr;
    double least = 0;
    for (const auto& one : subflows_)
    {
      const Window& window = one->sender->window();
      if (!window.established || idle(*one)) continue;
      const double held = static_cast<double>(one->sender->waiting() + one->assigned.size());
      // tcp_sndbuf_expand: twice the window.
      if (held >= 2 * std::max(window.cwnd, 10.0)) continue;
      const double linger = held * seconds(window.rtt) / window.cwnd;
      if (best == nullptr || linger < least)
      {
        best = one.get();
        least = linger;
      }
    }
    if (best == nullptr) return;
    for (std::uint64_t i = 0; i < burst && available(); ++i)
      best->assigned.push(next_++);
  }
}

void Transfer::stalled(Sender& sender, std::span<const std::uint64_t> missing)
{
  if (!config_.mptcp || !config_.reinject) return;
  for (const std::uint64_t dsn : missing)
    if (dsn >= data_acked_) again_[dsn] = &sender;
  for (const auto& one : subflows_)
    if (one->sender.get() != &sender && one->sender->window().established) one->sender->push();
}

// The first segment that another subflow has had and lost.
std::optional<Chunk> Transfer::again(const Sender& sender)
{
  again_.erase(again_.begin(), again_.lower_bound(data_acked_));
  if (sender.state() == Sender::State::loss) return {};
  const auto found = std::find_if(again_.begin(), again_.end(), [&](const auto& one) { return one.second != &sender; });
  if (found == again_.end()) return {};
  const std::uint64_t dsn = found->first;
  again_.erase(found);
  return Chunk { dsn, length_of(dsn) };
}

std::optional<Chunk> Transfer::next(Sender& sender)
{
  if (!again_.empty())
    if (const auto chunk = again(sender)) return chunk;
  if (config_.mptcp)
    if (const Subflow& one = of(sender); one.assigned.empty() && idle(one)) return {};
  if (config_.mptcp && config_.scheduler == Scheduler::linux_like)
  {
    Subflow& one = of(sender);
    if (one.assigned.empty()) assign();
    if (one.assigned.empty())
    {
      blocked_ |= !available() && next_ < total_;
      return {};
    }
    const std::uint64_t dsn = one.assigned.front();
    one.assigned.pop();
    return Chunk { dsn, length_of(dsn) };
  }
  if (!available())
  {
    if (next_ < total_ && !blocked_)
    {
      blocked_ = true;
      ++blocked_count_;
    }
    return {};
  }
  const std::uint64_t dsn = next_++;
  return Chunk { dsn, length_of(dsn) };
}

void Transfer::acknowledged(Sender& sender, std::uint64_t data_ack, std::uint64_t window)
{
  if (!config_.mptcp) return;
  data_acked_ = std::max(data_acked_, data_ack);
  edge_ = std::max(edge_, data_ack + window / config_.sender.mss);
  const bool unblocked = blocked_ && available();
  if (config_.scheduler == Scheduler::linux_like)
    assign();
  else if (!unblocked)
    return;
  blocked_ = false;
  // Whoever waited for room; the fastest first. The caller sends by itself afterwards.
  std::array<Sender*, 16> order {};
  std::size_t count = 0;
  for (const auto& one : subflows_)
    if (count < order.size()) order[count++] = one->sender.get();
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
            [](const Sender* a, const Sender* b) { return a->window().rtt < b->window().rtt; });
  for (std::size_t i = 0; i < count; ++i)
    if (order[i] != &sender || unblocked) order[i]->push();
}

void Transfer::received(std::uint64_t dsn, std::uint32_t length)
{
  static_cast<void>(length);
  const std::uint64_t before = arrived_.next();
  if (!arrived_.add(dsn)) return;
  for (std::uint64_t seq = before; seq < arrived_.next(); ++seq)
    delivered_ += length_of(seq);
  if (arrived_.next() >= total_ && !finished_) finished_ = world_.now();
}

} // namespace tandem::sim
