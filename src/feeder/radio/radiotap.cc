#include "src/feeder/radio/radiotap.h"

#include "src/feeder/radio/little_endian.h"

#include <array>

namespace tandem::feeder
{

namespace
{

// Fields in the order of their bits in the presence word.
enum Bit : std::size_t
{
  tsft,
  flags,
  rate,
  channel,
  hopping,
  signal,
  noise,
  lock_quality,
  tx_attenuation,
  tx_attenuation_db,
  tx_power,
  antenna,
  signal_db,
  noise_db,
  rx_flags,
  tx_flags,
  rts_retries,
  data_retries,
  xchannel,
  ht,
  ampdu,
  vht,
  timestamp,
  he,
  known_fields,
};

struct Field
{
  std::size_t size;
  std::size_t align;
};
constexpr std::array<Field, known_fields> fields { {
    { 8, 8 },  // tsft
    { 1, 1 },  // flags
    { 1, 1 },  // rate
    { 4, 2 },  // channel
    { 2, 2 },  // hopping
    { 1, 1 },  // signal
    { 1, 1 },  // noise
    { 2, 2 },  // lock_quality
    { 2, 2 },  // tx_attenuation
    { 2, 2 },  // tx_attenuation_db
    { 1, 1 },  // tx_power
    { 1, 1 },  // antenna
    { 1, 1 },  // signal_db
    { 1, 1 },  // noise_db
    { 2, 2 },  // rx_flags
    { 2, 2 },  // tx_flags
    { 1, 1 },  // rts_retries
    { 1, 1 },  // data_retries
    { 8, 4 },  // xchannel
    { 3, 1 },  // ht
    { 8, 4 },  // ampdu
    { 12, 2 }, // vht
    { 12, 8 }, // timestamp
    { 12, 2 }, // he
} };

// Data bits of one subcarrier and symbol: bits of the constellation times the code rate (IEEE 802.11-2020, tables
// 19-27, 21-30 and 27-54 have the same ones).
constexpr std::array<double, 12> bits_per_carrier { 0.5, 1, 1.5, 2, 3, 4, 4.5, 5, 6, 20. / 3, 7.5, 25. / 3 };

double phy_mbps(double carriers, unsigned index, unsigned streams, double symbol_us)
{
  return carriers * bits_per_carrier[index] * streams / symbol_us;
}

void read_ht(std::span<const std::byte> field, Radiotap& out)
{
  const auto known = little_endian(field.first(1));
  const auto how = little_endian(field.subspan(1, 1));
  const auto index = little_endian(field.subspan(2, 1));
  constexpr unsigned knows_mcs = 0x02, knows_bandwidth = 0x01, knows_guard = 0x04, short_guard = 0x04;
  constexpr unsigned last_equal_modulation = 31;
  if ((known & knows_mcs) == 0 || index > last_equal_modulation) return;
  out.mcs = static_cast<std::uint8_t>(index);
  out.streams = static_cast<std::uint8_t>(index / 8 + 1);
  const bool wide = (known & knows_bandwidth) != 0 && (how & 3) == 1;
  const bool tight = (known & knows_guard) != 0 && (how & short_guard) != 0;
  out.mbps = phy_mbps(wide ? 108 : 52, index % 8, *out.streams, tight ? 3.6 : 4.0);
}

void read_vht(std::span<const std::byte> field, Radiotap& out)
{
  const auto bandwidth = little_endian(field.subspan(3, 1)) & 31;
  const auto first_user = little_endian(field.subspan(4, 1));
  const auto index = static_cast<unsigned>(first_user >> 4), streams = static_cast<unsigned>(first_user & 15);
  constexpr unsigned short_guard = 0x04;
  if (streams == 0 || streams > 8 || index > 9) return;
  out.mcs = static_cast<std::uint8_t>(index);
  out.streams = static_cast<std::uint8_t>(streams);
  const double carriers = bandwidth == 0 ? 52 : bandwidth <= 3 ? 108 : bandwidth <= 10 ? 234 : 468;
  out.mbps = phy_mbps(carriers, index, streams, (little_endian(field.subspan(2, 1)) & short_guard) != 0 ? 3.6 : 4.0);
}

void read_he(std::span<const std::byte> field, Radiotap& out)
{
  const auto data3 = little_endian(field.subspan(4, 2));
  const auto data5 = little_endian(field.subspan(8, 2));
  const auto data6 = little_endian(field.subspan(10, 2));
  const auto index = static_cast<unsigned>(data3 >> 8 & 15), streams = static_cast<unsigned>(data6 & 15);
  const auto bandwidth = data5 & 15, guard = data5 >> 4 & 3;
  if (streams == 0 || streams > 8 || index > 11) return;
  out.mcs = static_cast<std::uint8_t>(index);
  out.streams = static_cast<std::uint8_t>(streams);
  constexpr std::array<double, 4> carriers { 234, 468, 980, 1960 };
  constexpr std::array<double, 4> symbol { 13.6, 14.4, 16.0, 16.0 };
  if (bandwidth < carriers.size()) out.mbps = phy_mbps(carriers[bandwidth], index, streams, symbol[guard]);
}

void read(std::size_t bit, std::span<const std::byte> field, Radiotap& out)
{
  const std::uint64_t value = field.size() <= 8 ? little_endian(field) : 0;
  constexpr unsigned has_fcs = 0x10, bad_fcs = 0x40;
  constexpr unsigned half_megabit_steps = 2;
  switch (bit)
  {
  case tsft:
    out.tsft = value;
    break;
  case flags:
    out.has_fcs = (value & has_fcs) != 0;
    out.bad_fcs = (value & bad_fcs) != 0;
    break;
  case rate:
    if (value > 0) out.mbps = static_cast<double>(value) / half_megabit_steps;
    break;
  case channel:
    if ((value & 0xffff) != 0) out.frequency = static_cast<unsigned>(value & 0xffff);
    break;
  case signal:
    if (static_cast<std::int8_t>(value) != 0) out.signal = static_cast<float>(static_cast<std::int8_t>(value));
    break;
  case noise:
    if (static_cast<std::int8_t>(value) != 0) out.noise = static_cast<float>(static_cast<std::int8_t>(value));
    break;
  case ht:
    read_ht(field, out);
    break;
  case ampdu:
    out.aggregate = static_cast<std::uint32_t>(value);
    break;
  case vht:
    read_vht(field, out);
    break;
  case he:
    read_he(field, out);
    break;
  default:
    break;
  }
}

} // namespace

std::optional<Radiotap> parse_radiotap(std::span<const std::byte> record)
{
  constexpr std::size_t fixed = 8;
  if (record.size() < fixed || record[0] != std::byte { 0 }) return {};
  Radiotap out { .length = static_cast<std::size_t>(little_endian(record.subspan(2, 2))) };
  if (out.length < fixed || out.length > record.size()) return {};
  const std::uint64_t present = little_endian(record.subspan(4, 4));
  std::size_t at = fixed;
  // Bit 31: one more word of bits follows. What it announces comes behind the first word's fields: antennas one by one,
  // vendors' own. Not read.
  for (std::uint64_t word = present; (word >> 31 & 1) != 0; at += 4)
  {
    if (at + 4 > out.length) return {};
    word = little_endian(record.subspan(at, 4));
  }
  for (std::size_t bit = 0; bit < fields.size(); ++bit)
  {
    if ((present >> bit & 1) == 0) continue;
    at = (at + fields[bit].align - 1) / fields[bit].align * fields[bit].align;
    if (at + fields[bit].size > out.length) return {};
    read(bit, record.subspan(at, fields[bit].size), out);
    at += fields[bit].size;
  }
  return out;
}

} // namespace tandem::feeder
