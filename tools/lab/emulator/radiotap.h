// Frame reports as a monitor interface would capture them: pcap records with a radiotap and an 802.11 header.
#pragma once

#include "tools/lab/emulator/system.h"
#include "tools/lab/medium/outbox.h"
#include "tools/lab/medium/phy.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::lab
{

// What a report needs from the lab to become a frame.
struct FrameContext
{
  std::vector<Mac> addresses;           // by node
  std::vector<std::uint8_t> is_ap;      // by node
  std::vector<medium::NodeId> bssid_of; // by node: its access point (an access point: itself)
  std::vector<std::string> ssids;       // by node; access points
  medium::Standard standard = medium::Standard::g;
  bool short_preamble = false;
  bool short_guard = false;
  std::int64_t realtime_offset = 0; // CLOCK_REALTIME at tick 0
};

constexpr std::uint32_t linktype_radiotap = 127;

// The pcap file header: nanosecond time stamps, link type 127.
std::vector<std::byte> pcap_header();

// Appends one record. The frame is cut behind its MAC header (beacons: behind the SSID); the record says its full
// length without FCS. Fields: TSFT, flags (0x40 = bad FCS), rate or MCS, channel, signal, A-MPDU status (radiotap.org).
void append_record(std::vector<std::byte>& out, const medium::FrameReport& frame, const FrameContext& context);

// How busy a channel is, as a driver's survey tells it (nl80211 GET_SURVEY): times since the emulator began.
struct ChannelUse
{
  std::uint16_t frequency = 0; // MHz
  Duration active {};
  Duration busy {};
};

// radiotap.org, vendor namespaces: a locally administered OUI, and behind it frequency (2 bytes, MHz), active and busy
// time (8 bytes each, us), little-endian.
constexpr std::uint32_t survey_oui = 0x4d4554; // "TEM"
constexpr std::uint16_t survey_bytes = 18;

// Appends one record that holds no frame, with the use of a channel.
void append_record(std::vector<std::byte>& out, const ChannelUse& use, Tick at, const FrameContext& context);

// Centre frequency in MHz of a channel number.
std::uint16_t channel_frequency(unsigned channel);

} // namespace tandem::lab
