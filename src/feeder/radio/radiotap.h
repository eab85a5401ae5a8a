// The radiotap header (radiotap.org): what the driver says about a captured frame. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem::feeder
{

struct Radiotap
{
  std::size_t length = 0; // of the header: the frame follows
  std::uint64_t tsft = 0; // microseconds of the radio's clock; 0 when absent
  bool bad_fcs = false;
  bool has_fcs = false; // the frame ends with its check sequence
  std::optional<double> mbps {};
  std::optional<std::uint8_t> mcs {};
  std::optional<std::uint8_t> streams {};
  std::optional<unsigned> frequency {}; // MHz
  std::optional<float> signal {};       // dBm
  std::optional<float> noise {};        // dBm
  std::optional<std::uint32_t> aggregate {};
};

// Nothing when it is cut too short or its fields do not fit into its length.
std::optional<Radiotap> parse_radiotap(std::span<const std::byte> record);

} // namespace tandem::feeder
