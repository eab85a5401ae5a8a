// Reads recordings: the flight recorder's own pcapng, and pcap or pcapng files of other programs.
#pragma once

#include "src/trace/heading.h"
#include "src/trace/recorded.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace tandem::trace
{

class Format;

class Reader
{
public:
  // Opens the file and reads its head. Throws BadFile. `inputs`: inputs of the chain are returned among the packets,
  // without a number; else they are left out.
  explicit Reader(const std::filesystem::path& file, bool inputs = false);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // The next packet, or nothing at the end of the file. Throws BadFile; the packets before the fault have been returned
  // by then.
  std::optional<Recorded> next();
  // The same into a packet that is used again, whatever it held; false at the end of the file.
  bool next(Recorded& packet);

  // Of the section read last; empty for a recording of another program.
  const std::optional<Heading>& heading() const;

private:
  std::unique_ptr<Format> format_;
  std::uint64_t number_ = 0;
  bool inputs_;
};

// Whether IP packets are looked for in frames of this LINKTYPE_ value.
bool is_read(std::uint32_t link_type);
// Whether its frames are those of 802.11.
bool is_wifi(std::uint32_t link_type);

} // namespace tandem::trace
