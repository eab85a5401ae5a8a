#include "src/trace/reader.h"

#include "src/trace/formats.h"
#include "src/trace/pcapng.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

namespace tandem::trace
{
namespace
{

// What unpacks a file that begins so, as Wireshark saves and tcpdump -z leaves them; null: it is not compressed.
const char* unpacker(const std::array<char, 4>& head)
{
  using namespace std::literals;
  const std::string_view begin { head.data(), head.size() };
  if (begin.starts_with("\x1f\x8b"sv)) return "gunzip -k";
  if (begin == "\x28\xb5\x2f\xfd"sv) return "unzstd";
  if (begin == "\x04\x22\x4d\x18"sv) return "unlz4";
  if (begin == "\3757zX"sv) return "unxz -k";
  return nullptr;
}

std::unique_ptr<Format> open(const std::filesystem::path& file)
{
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown)) throw BadFile { file, {}, "is a directory, not a recording" };
  // What is asked of a recording is mostly found in two passes.
  if (file == "-" || std::filesystem::is_fifo(file, unknown) || std::filesystem::is_socket(file, unknown))
    throw BadFile { file, {}, "is a pipe, and recordings are read more than once; write it to a file first" };
  errno = 0;
  std::ifstream in { file, std::ios::binary };
  if (!in)
  {
    // tcpdump writes as a user of its own, for whom alone the file is then.
    const int fault = errno;
    throw BadFile { file,
                    {},
                    "cannot be opened for reading" + (fault != 0 ? ": " + std::string { std::strerror(fault) } : "") };
  }
  std::array<char, 4> head {};
  in.read(head.data(), head.size());
  if (in.gcount() < 4)
    throw BadFile { file, 0, std::to_string(in.gcount()) + " bytes are no recording (pcapng or pcap)" };
  if (const char* const program = unpacker(head))
    throw BadFile { file, 0, std::string { "is compressed; unpack it first: " } + program + " " + file.string() };
  std::uint32_t magic = 0;
  std::memcpy(&magic, head.data(), sizeof magic);
  return magic == pcapng::section_header ? open_pcapng(file) : open_pcap(file);
}

} // namespace

Reader::Reader(const std::filesystem::path& file, bool inputs) : format_ { open(file) }, inputs_ { inputs } {}

Reader::~Reader() = default;

std::optional<Recorded> Reader::next()
{
  std::optional<Recorded> packet { std::in_place };
  if (!next(*packet)) packet.reset();
  return packet;
}

bool Reader::next(Recorded& packet)
{
  do
    if (!format_->next(packet)) return false;
  while (!packet.input.empty() && !inputs_);
  packet.number = !packet.input.empty() ? 0 : packet.same_frame ? number_ : ++number_;
  return true;
}

const std::optional<Heading>& Reader::heading() const
{
  return format_->heading();
}

} // namespace tandem::trace
