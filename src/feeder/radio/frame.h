// What is needed of a captured 802.11 frame: who sent it to whom, and how strong it was. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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
      sequence {};                    // number of the frame, the same in every attempt (9.2.4.4), not of control frames
  bool retry = false;                 // not the first attempt; of data and management frames
  std::optional<std::uint8_t> tid {}; // of QoS data: each has its own numbers
  bool payload = true;                // of data: false for null frames, which carry nothing
  std::optional<float> signal {};     // dBm
  std::optional<float> noise {};      // dBm
  std::optional<unsigned> frequency {};       // MHz
  std::optional<double> mbps {};              // PHY rate
  std::optional<std::uint8_t> mcs {};         // HT (0 .. 76), VHT or HE index
  std::optional<std::uint8_t> streams {};     // VHT, HE; HT: from the index
  std::optional<std::uint32_t> aggregate {};  // number of the A-MPDU that it is part of
  std::optional<unsigned> beacon_interval {}; // time units of 1024 us; of whole beacons
  std::uint32_t bytes = 0;                    // MPDU as captured, without radiotap
  std::uint64_t sent = 0;                     // of the radio's clock, in microseconds; 0 when it does not say

  bool operator==(const Frame&) const = default;
};

// A record of link type 127: a radiotap header (radiotap.org), then an 802.11 header (IEEE 802.11-2016, 9.2). Nothing
// when it is cut too short or contradicts itself. `length`: of the record on the air when the capture cut it; 0 when
// it did not. Fields that make no sense (a rate of 0, a signal of 0) are absent.
std::optional<Frame> parse_frame(std::span<const std::byte> record, std::size_t length = 0);

// "02:00:00:aa:bb:cc", and back; nothing when it is none.
std::string text(const Mac& mac);
std::optional<Mac> parse_mac(std::string_view text);

} // namespace tandem::feeder
