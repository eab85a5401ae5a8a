// The truth about losses: a record for every TCP packet that the lab lost or marked, with the reason, and for every
// lost one that was repaired.
#pragma once

#include "tools/lab/emulator/topology.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tandem::lab
{

// As it stands in DIR/losses.bin, in the byte order of the machine, behind a first record-sized block that begins with
// loss_log_magic. tandem_lab/losses.py reads it.
struct LossRecord
{
  std::int64_t at_ns = 0; // CLOCK_MONOTONIC
  std::uint32_t seq = 0;
  std::uint32_t ack = 0;
  std::uint32_t tsval = 0; // 0 without timestamps
  std::uint32_t queued = 0;
  std::uint32_t queued_bytes = 0;
  std::uint16_t payload = 0;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint8_t flags = 0; // of TCP
  std::uint8_t version = 0;
  std::uint8_t what = 0; // medium::DropReason, loss_log_marked or loss_log_repaired
  std::uint8_t link = 0; // Topology::Place
  std::uint8_t down = 0;
  std::uint8_t why =
      0; // of a repaired one: medium::DropReason of its first loss; its first loss lies queued_bytes us back
  std::uint8_t source[16] {}; // IPv4: the first four
  std::uint8_t destination[16] {};
};
static_assert(sizeof(LossRecord) == 72);

constexpr char loss_log_magic[] = "tandem-losses 1\n";
constexpr std::uint8_t loss_log_marked = 255;
constexpr std::uint8_t loss_log_repaired = 254;

// Data that was lost on its way to the client and that the client has not acknowledged since.
class Unrepaired
{
public:
  // A data packet towards the client was lost. Only its first loss counts until it is repaired.
  void lost(const LossRecord& record);
  // A packet of the client left it. Calls `repaired` with the record of each loss that it acknowledges.
  template <typename Repaired>
  void acknowledged(const LossRecord& from_client, Repaired repaired)
  {
    for (auto& flow : flows_)
    {
      if (!flow.is_answered_by(from_client)) continue;
      constexpr auto covers = [](std::uint32_t ack, std::uint32_t end)
      { return static_cast<std::int32_t>(ack - end) >= 0; };
      if (flow.losses.empty() || !covers(from_client.ack, flow.first_end)) return;
      std::size_t kept = 0;
      for (LossRecord& loss : flow.losses)
      {
        const std::uint32_t end = loss.seq + loss.payload;
        if (!covers(from_client.ack, end))
        {
          if (kept == 0 || covers(flow.first_end, end)) flow.first_end = end;
          flow.losses[kept++] = loss;
          continue;
        }
        loss.queued_bytes = static_cast<std::uint32_t>((from_client.at_ns - loss.at_ns) / 1000);
        loss.at_ns = from_client.at_ns;
        loss.why = loss.what;
        loss.what = loss_log_repaired;
        repaired(loss);
      }
      flow.losses.resize(kept);
      return;
    }
  }
  bool empty() const { return flows_.empty(); }

private:
  struct Flow
  {
    std::vector<LossRecord> losses {}; // in order of time
    std::uint32_t first_end = 0;       // the smallest end of them
    LossRecord name {};                // addresses and ports

    bool is_answered_by(const LossRecord& packet) const;
  };
  std::vector<Flow> flows_; // few: those that lost something
};

// The record of an Ethernet frame; nothing when it is not TCP.
std::optional<LossRecord> loss_record(std::span<const std::byte> frame, Tick at, std::int64_t epoch_ns,
                                      std::uint8_t what, const Topology::Place& place);

// Buffered: what was added is in the file after flush().
class LossLog
{
public:
  // Replaces the file. Throws std::system_error.
  explicit LossLog(const std::filesystem::path& file);

  void add(const LossRecord& record) { std::fwrite(&record, sizeof record, 1, file_.get()); }
  void flush() { std::fflush(file_.get()); }

private:
  struct Close
  {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

} // namespace tandem::lab
