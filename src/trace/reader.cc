#include "src/trace/reader.h"

#include "src/trace/formats.h"
#include "src/trace/pcapng.h"

#include <array>
#include <cstring>
#include <fstream>

namespace tandem::trace
{
namespace
{

std::unique_ptr<Format> open(const std::filesystem::path& file)
{
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown)) throw BadFile { file, {}, "is a directory, not a recording" };
  // What is asked of a recording is mostly found in two passes.
  if (file == "-" || std::filesystem::is_fifo(file, unknown) || std::filesystem::is_socket(file, unknown))
    throw BadFile { file, {}, "is a pipe, and recordings are read more than once; write it to a file first" };
  std::ifstream in { file, std::ios::binary };
  if (!in) throw BadFile { file, {}, "cannot be opened for reading" };
  std::array<char, 4> head {};
  in.read(head.data(), head.size());
  if (in.gcount() < 4)
    throw BadFile { file, 0, std::to_string(in.gcount()) + " bytes are no recording (pcapng or pcap)" };
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
