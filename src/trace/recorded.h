// One packet of a recording, and the fault of a file that is none.
#pragma once

#include "src/trace/comment.h"
#include "src/trace/original.h"

#include <tandem/link.h>
#include <tandem/segment.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::trace
{

// A file that cannot be read on. what() is "FILE: offset N: reason"; without "offset N" when the file could not be
// opened.
class BadFile : public std::runtime_error
{
public:
  BadFile(const std::filesystem::path& file, std::optional<std::uint64_t> offset, const std::string& reason);

  std::optional<std::uint64_t> offset() const { return offset_; } // in bytes, of the faulty block or packet

private:
  std::optional<std::uint64_t> offset_;
};

// One packet of a file. Reader fills the same one again and again: what its texts and bytes took is not asked for anew
// with every packet.
struct Recorded
{
  std::uint64_t number = 0; // from 1, as Wireshark counts frames
  std::int64_t time_ns = 0; // since 1970
  std::string interface {
  };                       // its name, "" when the file has none
  Link link = Link::other; // by the interface's name
  std::optional<Direction> direction {};
  std::optional<std::uint64_t> packet_id {}; // both parts of an edited packet have the same
  std::string comment {};                    // as in the file
  std::optional<Comment> decision {};        // the comment understood; empty for a recording of another program
  std::vector<std::byte> bytes {};     // from the IP header on; empty when the link layer carries no IP or is unknown
  std::uint32_t length = 0;            // of the IP packet on the wire
  std::uint32_t link_type = 0;         // LINKTYPE_ value of the file
  bool same_frame = false;             // of the same frame as the one before it: its second part
  std::optional<Asked> asked {};       // the chain was asked about it, of a recording by Tandem
  std::optional<Original> original {}; // inner: while it is read
  std::vector<std::byte> input {};     // no packet, but an encoded ChainInput of `asked->at`; see Reader

  // As new; texts and bytes keep their room.
  void clear()
  {
    number = 0;
    time_ns = 0;
    interface.clear();
    link = Link::other;
    direction.reset();
    packet_id.reset();
    comment.clear();
    decision.reset();
    bytes.clear();
    length = 0;
    link_type = 0;
    same_frame = false;
    asked.reset();
    original.reset();
    input.clear();
  }
};

} // namespace tandem::trace
