// A download: plain TCP, or MPTCP over several subflows.
#pragma once

#include "tools/sim/receiver.h"
#include "tools/sim/sender.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tandem::sim
{

class ClientHost;

enum class Scheduler : std::uint8_t
{
  lowest_rtt, // whoever has room in its window; the one with the lowest round-trip time first
  linux_like, // upstream Linux: bursts of 64 kB to the subflow whose queue will be empty first
};

struct TransferConfig
{
  SenderConfig sender {};
  ReceiverConfig receiver {};
  bool mptcp = false;
  Scheduler scheduler = Scheduler::lowest_rtt;
  std::uint64_t receive_buffer = 3'000'000; // bytes; of the connection with MPTCP. Linux's 6 MB buffer advertises half
  std::optional<std::uint64_t> size {};     // bytes; empty = for ever
  // What a subflow had sent before a timeout is sent by the others, too, as MPTCP v0.9x does.
  bool reinject = false;
  Rate offered {};                     // the application writes no faster; 0 = it always has something
  std::uint64_t send_buffer = 500'000; // bytes that it writes ahead, with `offered`
};

// The way of a subflow: what packets pass between the ends.
struct Path
{
  std::vector<Stage*> down, up;
  std::uint16_t interface = 0; // of the client, when there is one
  // By which acknowledgements leave when a module says so (Link::cell); empty = no such way.
  std::vector<Stage*> up_by_cell {};
  Duration signal_delay {}; // until what the client tells about the subflow is heard by the server
};

class Transfer final : public Source, public Sink
{
public:
  struct Subflow
  {
    Route down, up, up_by_cell;
    std::unique_ptr<Sender> sender;
    std::unique_ptr<Receiver> receiver;
    std::unique_ptr<Timer> start;
    medium::Ring<std::uint64_t> assigned;   // linux_like: written to the subflow, not yet sent
    bool backup = false;                    // used only when no other is there (RFC 8684 3.3.8)
    std::deque<std::pair<Tick, bool>> said; // by MP_PRIO, on its way
    std::unique_ptr<Timer> heard;
    std::unique_ptr<Timer> left;
  };

  // `client`: sees, marks and edits what arrives and leaves. May be null.
  Transfer(World& world, const TransferConfig& config, ClientHost* client = nullptr);
  ~Transfer() override;
  // A subflow that connects at `start`. Plain TCP has one.
  Subflow& add(const Path& path, Tick start);

  const Subflow& subflow(std::size_t i) const { return *subflows_[i]; }
  Sender& sender(std::size_t i) { return *subflows_[i]->sender; }
  std::size_t subflows() const { return subflows_.size(); }
  std::uint64_t delivered() const { return delivered_; } // bytes, in order
  std::optional<Tick> finished() const { return finished_; }
  // Time spent with window left on some subflow, but none in the receive buffer.
  std::uint64_t blocked() const { return blocked_count_; }
  // The client sends MP_PRIO on the subflow.
  void prioritize(std::size_t subflow, bool backup);
  // Its address is gone, and the client says so by another subflow (REMOVE_ADDR): what the subflow had under way is
  // sent by others. As the path manager of MPTCP v0.9x does, so nothing happens without `reinject`.
  void leave(std::size_t subflow);
  // What it asked for last.
  bool asked(std::size_t subflow) const;

  std::optional<Chunk> next(Sender& sender) override;
  void acknowledged(Sender& sender, std::uint64_t data_ack, std::uint64_t window) override;
  void received(std::uint64_t dsn, std::uint32_t length) override;
  std::uint64_t data_ack() const override { return arrived_.next(); }
  void stalled(Sender& sender, std::span<const std::uint64_t> missing) override;
  std::uint64_t room() const override { return config_.receive_buffer; }

private:
  std::uint32_t length_of(std::uint64_t dsn) const;
  std::optional<Chunk> again(const Sender& sender);
  bool available() const;
  void write();
  bool idle(const Subflow& one) const; // a backup while another is there
  void assign();
  Subflow& of(const Sender& sender);

  World& world_;
  TransferConfig config_;
  ClientHost* client_;
  Group group_;
  std::vector<std::unique_ptr<Subflow>> subflows_;
  std::vector<Duration> signal_delay_; // of each
  std::uint64_t connection_key_ = 0;   // of MPTCP
  std::uint64_t next_ = 0;             // segment to be given to a subflow
  std::uint64_t total_ = ~std::uint64_t { 0 };
  std::uint64_t edge_;
  std::uint64_t data_acked_ = 0;                 // as the server knows it
  std::map<std::uint64_t, const Sender*> again_; // to be sent by others than this one
  std::uint64_t written_ = ~std::uint64_t { 0 }; // with `offered`: segments that the application has written
  double part_ = 0;                              // of the next one
  std::unique_ptr<Timer> writer_;
  bool blocked_ = false;
  std::uint64_t blocked_count_ = 0;
  Arrived arrived_;
  std::uint64_t delivered_ = 0;
  std::optional<Tick> finished_ {};
};

} // namespace tandem::sim
