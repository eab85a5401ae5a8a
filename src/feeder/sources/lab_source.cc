#include "src/feeder/sources/lab_source.h"

#include "src/feeder/radio/little_endian.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tandem::feeder
{

namespace
{

constexpr std::size_t file_header = 24;
constexpr std::size_t record_header = 16;
constexpr std::uint32_t magic_microseconds = 0xa1b2c3d4;
constexpr std::uint32_t magic_nanoseconds = 0xa1b23c4d;
constexpr std::uint32_t linktype_radiotap = 127;
constexpr std::uint32_t longest_record = 16384;
constexpr int reads_at_a_time = 16;             // a megabyte: the packet thread has other work
constexpr std::int64_t step_ns = 1'000'000'000; // a clock that moved further than this was set

std::uint32_t word(std::span<const std::byte> bytes, std::size_t at)
{
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value; // of this machine: the emulator runs on it
}

} // namespace

// tools/lab/emulator/radiotap.h says how it is laid out.
std::optional<Survey> lab_survey(std::span<const std::byte> record)
{
  constexpr std::size_t behind_namespace = 18, size = behind_namespace + 18;
  constexpr std::uint64_t oui = 0x4d4554;
  constexpr std::uint64_t vendor_and_more = 3ull << 30;
  if (record.size() != size || little_endian(record.subspan(4, 4)) != vendor_and_more
      || little_endian(record.subspan(12, 3)) != oui)
    return {};
  const auto time = [&](std::size_t at)
  {
    // A year at most, so that no sum overflows.
    constexpr std::uint64_t most_us = 31'536'000'000'000;
    return Duration { std::chrono::microseconds { std::min(little_endian(record.subspan(at, 8)), most_us) } };
  };
  return Survey { .frequency = static_cast<unsigned>(little_endian(record.subspan(behind_namespace, 2))),
                  .active = time(behind_namespace + 2),
                  .busy = time(behind_namespace + 10) };
}

std::span<std::byte> PcapStream::room()
{
  if (begin_ > 0)
  {
    std::memmove(buffer_.data(), buffer_.data() + begin_, filled_ - begin_);
    filled_ -= begin_;
    begin_ = 0;
  }
  return std::span { buffer_ }.subspan(filled_);
}

std::optional<PcapStream::Record> PcapStream::next()
{
  if (broken_) return {};
  auto left = std::span<const std::byte> { buffer_ }.subspan(begin_, filled_ - begin_);
  if (!headed_)
  {
    if (left.size() < file_header) return {};
    const std::uint32_t magic = word(left, 0);
    nanoseconds_ = magic == magic_nanoseconds;
    broken_ = (!nanoseconds_ && magic != magic_microseconds) || word(left, 20) != linktype_radiotap;
    if (broken_) return {};
    headed_ = true;
    begin_ += file_header;
    left = left.subspan(file_header);
  }
  if (left.size() < record_header) return {};
  const std::uint32_t length = word(left, 8);
  if (length > longest_record)
  {
    broken_ = true;
    return {};
  }
  if (left.size() < record_header + length) return {};
  begin_ += record_header + length;
  return Record { .time_ns = std::int64_t { word(left, 0) } * 1'000'000'000
                             + std::int64_t { word(left, 4) } * (nanoseconds_ ? 1 : 1000),
                  .bytes = left.subspan(record_header, length),
                  .length = word(left, 12) };
}

void PcapStream::reset()
{
  begin_ = filled_ = 0;
  headed_ = broken_ = nanoseconds_ = false;
}

LabSource::LabSource(std::string path) : path_ { std::move(path) }
{
  reopen({});
}

LabSource::~LabSource()
{
  close();
}

void LabSource::close()
{
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool LabSource::reopen(Tick)
{
  if (fd_ >= 0) return true;
  sockaddr_un address {};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path_.c_str(), path_.size());
  // A Unix socket connects at once or not at all.
  fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0 || ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
  {
    problem_ = path_ + ": " + std::strerror(errno) + "; is the lab running there?";
    close();
    return false;
  }
  problem_.clear();
  stream_.reset();
  offset_known_ = false;
  return true;
}

bool LabSource::receive(Tick now, std::vector<Report>& reports)
{
  if (fd_ < 0) return false;
  for (int i = 0; i < reads_at_a_time; ++i)
  {
    const auto room = stream_.room();
    const ssize_t count = ::recv(fd_, room.data(), room.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return true;
    if (count <= 0)
    {
      problem_ = path_ + " has ended";
      close();
      return false;
    }
    stream_.commit(static_cast<std::size_t>(count));
    while (const auto record = stream_.next())
    {
      const auto survey = lab_survey(record->bytes);
      const auto frame = survey ? std::nullopt : parse_frame(record->bytes, record->length);
      if (!survey && !frame)
      {
        ++skipped_;
        continue;
      }
      const std::int64_t offset = now.time_since_epoch().count() - record->time_ns;
      if (!offset_known_ || offset < offset_ || offset - offset_ > step_ns) offset_ = offset;
      offset_known_ = true;
      Report& report =
          reports.emplace_back(Report { .at = std::min(now, Tick { Duration { record->time_ns + offset_ } }) });
      if (survey)
        report.what = *survey;
      else
        report.what = *frame;
    }
    if (stream_.broken())
    {
      ++skipped_;
      problem_ = path_ + " does not offer a pcap stream of radiotap frames";
      close();
      return false;
    }
    if (static_cast<std::size_t>(count) < room.size()) return true;
  }
  return true;
}

} // namespace tandem::feeder
