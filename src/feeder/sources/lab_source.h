// The lab's radio: the stream of captured frames that the emulator offers on a Unix socket (pcap, link type 127).
#pragma once

#include "src/feeder/sources/source.h"

#include <array>
#include <cstddef>
#include <string>

namespace tandem::feeder
{

// Cuts a pcap byte stream into records, whatever pieces it comes in, in a buffer of fixed size: libpcap's reader would
// wait for the rest of a record. Pure.
class PcapStream
{
public:
  struct Record
  {
    std::int64_t time_ns = 0;
    std::span<const std::byte> bytes {}; // valid until the next call
    std::uint32_t length = 0;            // on the air; more than bytes when the capture cut it
  };

  // Where to put what is read next; commit() says how much came.
  std::span<std::byte> room();
  void commit(std::size_t bytes) { filled_ += bytes; }
  // The next whole record; nothing when more is needed, or for good when broken().
  std::optional<Record> next();
  // Not a pcap stream of radiotap frames, or a record that cannot be.
  bool broken() const { return broken_; }
  void reset();

private:
  std::array<std::byte, 65536> buffer_;
  std::size_t begin_ = 0;
  std::size_t filled_ = 0;
  bool headed_ = false;
  bool broken_ = false;
  bool nanoseconds_ = false;
};

// The use of a channel, which the emulator tells among the frames, as a driver's survey would; nothing when the record
// is something else. The stream does not know which channel is ours. Pure.
std::optional<Survey> lab_survey(std::span<const std::byte> record);

class LabSource final : public Source
{
public:
  // Does not throw when nobody listens there: reopen() tries again.
  explicit LabSource(std::string path);
  ~LabSource() override;
  LabSource(const LabSource&) = delete;
  LabSource& operator=(const LabSource&) = delete;

  std::string name() const override { return "lab:" + path_; }
  int fd() const override { return fd_; }
  bool receive(Tick now, std::vector<Report>& reports) override;
  bool reopen(Tick now) override;
  std::string problem() const override { return problem_; }
  std::uint64_t skipped() const override { return skipped_; }
  Duration stale_after() const override { return std::chrono::seconds { 1 }; } // beacons come every 102 ms
  unsigned rate_limit() const override { return 20000; }

private:
  void close();

  std::string path_;
  int fd_ = -1;
  PcapStream stream_ {};
  std::int64_t offset_ = 0; // from the capture's clock to ours: the least that was seen, which is the fastest delivery
  bool offset_known_ = false;
  std::uint64_t skipped_ = 0;
  std::string problem_ {};
};

} // namespace tandem::feeder
