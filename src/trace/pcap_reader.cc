#include "src/trace/formats.h"

#include <pcap/pcap.h>
#include <stdio_ext.h>

#include <array>
#include <cstdio>
#include <span>
#include <vector>

namespace tandem::trace
{
namespace
{

class Pcap : public Format
{
public:
  explicit Pcap(const std::filesystem::path& file) : file_ { file }
  {
    std::FILE* stream = std::fopen(file.c_str(), "rb");
    if (stream == nullptr) throw BadFile { file, {}, "cannot be opened for reading" };
    // libpcap reads two small pieces for each packet; nobody else reads from this stream.
    std::setvbuf(stream, room_.data(), _IOFBF, room_.size());
    __fsetlocking(stream, FSETLOCKING_BYCALLER);
    std::uint32_t magic = 0;
    if (std::fread(&magic, sizeof magic, 1, stream) == 1 && (magic == modified || magic == modified_swapped))
      record_head_ = 24;
    std::rewind(stream);
    std::array<char, PCAP_ERRBUF_SIZE> reason {};
    pcap_.reset(pcap_fopen_offline_with_tstamp_precision(stream, PCAP_TSTAMP_PRECISION_NANO, reason.data()));
    if (!pcap_)
    {
      std::fclose(stream);
      throw BadFile { file, 0, reason.data() };
    }
    const int dlt = pcap_datalink(pcap_.get());
    link_type_ = dlt < 0 ? 0 : static_cast<std::uint32_t>(dlt);
    if (const long begin = std::ftell(stream); begin > 0) offset_ = static_cast<std::uint64_t>(begin);
  }

  bool next(Recorded& packet) override
  {
    pcap_pkthdr* header = nullptr;
    const u_char* data = nullptr;
    const int result = pcap_next_ex(pcap_.get(), &header, &data);
    if (result == PCAP_ERROR_BREAK) return false;
    if (result != 1) throw BadFile { file_, offset_, pcap_geterr(pcap_.get()) };
    offset_ += record_head_ + header->caplen;

    packet.clear();
    // tv_usec counts nanoseconds at this precision.
    packet.time_ns = std::int64_t { header->ts.tv_sec } * 1'000'000'000 + header->ts.tv_usec;
    packet.link_type = link_type_;
    take_ip(std::as_bytes(std::span { data, header->caplen }), header->len, packet);
    return true;
  }

  const std::optional<Heading>& heading() const override { return heading_; }

private:
  // Of a libpcap with larger record heads (Kuznetzov's).
  static constexpr std::uint32_t modified = 0xa1b2cd34, modified_swapped = 0x34cdb2a1;

  struct Close
  {
    void operator()(pcap_t* pcap) const { pcap_close(pcap); } // closes the file as well
  };

  std::filesystem::path file_;
  std::vector<char> room_ = std::vector<char>(256u << 10); // of the stream behind `pcap_`, so it ends after that
  std::unique_ptr<pcap_t, Close> pcap_;
  std::uint32_t link_type_ = 0;
  // Of the next record. Counted, for ftell() is a system call: a sixth of a replay's time.
  std::uint64_t offset_ = 0;
  std::uint32_t record_head_ = 16;
  std::optional<Heading> heading_;
};

} // namespace

std::unique_ptr<Format> open_pcap(const std::filesystem::path& file)
{
  return std::make_unique<Pcap>(file);
}

} // namespace tandem::trace
