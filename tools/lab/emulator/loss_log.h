// The truth about losses: a record for every TCP packet that the lab lost or marked, with the reason.
#pragma once

#include "tools/lab/emulator/plant.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

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
  std::uint8_t what = 0; // medium::DropReason, or loss_log_marked
  std::uint8_t link = 0; // Plant::Place
  std::uint8_t down = 0;
  std::uint8_t unused = 0;
  std::uint8_t source[16] {}; // IPv4: the first four
  std::uint8_t destination[16] {};
};
static_assert(sizeof(LossRecord) == 72);

constexpr char loss_log_magic[] = "tandem-losses 1\n";
constexpr std::uint8_t loss_log_marked = 255;

// The record of an Ethernet frame; nothing when it is not TCP.
std::optional<LossRecord> loss_record(std::span<const std::byte> frame, Tick at, std::int64_t epoch_ns,
                                      std::uint8_t what, const Plant::Place& place);

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
