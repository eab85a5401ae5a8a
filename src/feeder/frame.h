// What is needed of a captured 802.11 frame: who sent it to whom, and how strong it was. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem::feeder
{

using Mac = std::array<std::uint8_t, 6>;

struct Frame
{
  enum class Kind : std::uint8_t
  {
    data,            // also without payload
    acknowledgement, // also of a block
    beacon,
    goodbye, // deauthentication or disassociation
    other,
  };
  Kind kind = Kind::other;
  Mac receiver {};
  std::optional<Mac> transmitter {}; // acknowledgements do not say who sends them
  bool to_ap = false, from_ap = false;
  bool damaged = false; // bad check sequence
  std::optional<std::uint16_t>
      sequence {};                // number of the frame, the same in every attempt (9.2.4.4), not of control frames
  std::optional<float> signal {}; // dBm
  std::uint64_t sent = 0;         // of the radio's clock, in microseconds; 0 when it does not say
};

// A record of link type 127: a radiotap header (radiotap.org), then an 802.11 header (IEEE 802.11-2016, 9.2). Nothing
// when it is cut too short or contradicts itself.
std::optional<Frame> parse_frame(std::span<const std::byte> record);

} // namespace tandem::feeder
