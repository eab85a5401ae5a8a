#include "tools/lab/emulator/radiotap.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace tandem::lab
{

namespace
{

// Little-endian writer with radiotap's alignment rule (each field aligned to its size from the start of the header).
class Writer
{
public:
  explicit Writer(std::vector<std::byte>& out) : out_(out), start_(out.size()) {}

  template <typename T>
  void put(T value)
  {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      out_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff));
  }
  void align(std::size_t to)
  {
    while ((out_.size() - start_) % to != 0)
      out_.push_back(std::byte { 0 });
  }
  void put(const Mac& mac)
  {
    for (auto b : mac)
      put<std::uint8_t>(b);
  }
  std::size_t size() const { return out_.size() - start_; }
  template <typename T>
  void patch(std::size_t at, T value)
  {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      out_[start_ + at + i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
  }

private:
  std::vector<std::byte>& out_;
  std::size_t start_;
};

namespace field
{
constexpr std::uint32_t tsft = 1u << 0, flags = 1u << 1, rate = 1u << 2, channel = 1u << 3, signal = 1u << 5,
                        mcs = 1u << 19, ampdu = 1u << 20, vendor = 1u << 30, more = 1u << 31;
}

constexpr Mac broadcast { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

void put_radiotap(Writer& w, const medium::FrameReport& frame, const FrameContext& context)
{
  std::uint32_t present = field::tsft | field::flags | field::channel;
  present |= frame.ht ? field::mcs : field::rate;
  if (frame.signal_valid) present |= field::signal;
  if (frame.aggregated) present |= field::ampdu;
  w.put<std::uint16_t>(0); // version, pad
  const std::size_t length_at = w.size();
  w.put<std::uint16_t>(0);
  w.put(present);
  w.align(8);
  w.put<std::uint64_t>(static_cast<std::uint64_t>(frame.start.time_since_epoch().count() / 1000));
  constexpr std::uint8_t bad_fcs = 0x40, short_preamble = 0x02;
  w.put<std::uint8_t>(
      static_cast<std::uint8_t>((frame.bad_fcs ? bad_fcs : 0) | (context.short_preamble ? short_preamble : 0)));
  if (!frame.ht) w.put<std::uint8_t>(static_cast<std::uint8_t>(std::lround(frame.mbps * 2))); // in units of 500 kb/s
  w.align(2);
  const std::uint16_t frequency = channel_frequency(frame.channel);
  w.put(frequency);
  constexpr std::uint16_t cck = 0x0020, ofdm = 0x0040, ghz2 = 0x0080, ghz5 = 0x0100;
  w.put<std::uint16_t>(static_cast<std::uint16_t>((context.standard == medium::Standard::b ? cck : ofdm)
                                                  | (frequency < 4000 ? ghz2 : ghz5)));
  if (frame.signal_valid)
    w.put<std::uint8_t>(
        static_cast<std::uint8_t>(static_cast<std::int8_t>(std::clamp(std::lround(frame.signal_dbm), -127l, 0l))));
  if (frame.ht)
  {
    constexpr std::uint8_t know_bandwidth = 0x01, know_mcs = 0x02, know_guard = 0x04, short_guard = 0x04;
    w.put<std::uint8_t>(know_bandwidth | know_mcs | know_guard);
    w.put<std::uint8_t>(context.short_guard ? short_guard : 0);
    w.put<std::uint8_t>(frame.mcs);
  }
  if (frame.aggregated)
  {
    w.align(4);
    w.put<std::uint32_t>(frame.aggregate);
    constexpr std::uint16_t last_known = 0x0004, is_last = 0x0008;
    w.put<std::uint16_t>(static_cast<std::uint16_t>(last_known | (frame.last_of_aggregate ? is_last : 0)));
    w.put<std::uint16_t>(0);
  }
  w.patch<std::uint16_t>(length_at, static_cast<std::uint16_t>(w.size()));
}

void put_time(Writer& record, Tick when, const FrameContext& context)
{
  const std::int64_t at = when.time_since_epoch().count() + context.realtime_offset;
  record.put<std::uint32_t>(static_cast<std::uint32_t>(at / 1'000'000'000));
  record.put<std::uint32_t>(static_cast<std::uint32_t>(at % 1'000'000'000));
}

} // namespace

std::uint16_t channel_frequency(unsigned channel)
{
  if (channel == 14) return 2484;
  return static_cast<std::uint16_t>(channel < 14 ? 2407 + 5 * channel : 5000 + 5 * channel);
}

std::vector<std::byte> pcap_header()
{
  std::vector<std::byte> out;
  Writer w(out);
  w.put<std::uint32_t>(0xa1b23c4d); // nanoseconds
  w.put<std::uint16_t>(2);
  w.put<std::uint16_t>(4);
  w.put<std::uint32_t>(0);
  w.put<std::uint32_t>(0);
  w.put<std::uint32_t>(65535);
  w.put<std::uint32_t>(linktype_radiotap);
  return out;
}

void append_record(std::vector<std::byte>& out, const ChannelUse& use, Tick at, const FrameContext& context)
{
  constexpr std::uint32_t header = 4 + 4 + 4 + 6 + survey_bytes; // with two words of presence
  Writer w(out);
  put_time(w, at, context);
  w.put<std::uint32_t>(header);
  w.put<std::uint32_t>(header);
  w.put<std::uint16_t>(0); // version, pad
  w.put<std::uint16_t>(static_cast<std::uint16_t>(header));
  w.put(field::vendor | field::more);
  w.put<std::uint32_t>(1);
  for (unsigned i = 0; i < 3; ++i)
    w.put<std::uint8_t>(static_cast<std::uint8_t>(survey_oui >> (8 * i) & 0xff));
  w.put<std::uint8_t>(0);
  w.put(survey_bytes);
  w.put(use.frequency);
  w.put<std::uint64_t>(static_cast<std::uint64_t>(use.active.count() / 1000));
  w.put<std::uint64_t>(static_cast<std::uint64_t>(use.busy.count() / 1000));
}

void append_record(std::vector<std::byte>& out, const medium::FrameReport& frame, const FrameContext& context)
{
  using medium::FrameType;
  Writer record(out);
  put_time(record, frame.start, context);
  const std::size_t lengths_at = record.size();
  record.put<std::uint32_t>(0);
  record.put<std::uint32_t>(0);
  const std::size_t body = record.size();

  std::size_t radiotap = 0;
  {
    Writer w(out);
    put_radiotap(w, frame, context);
    radiotap = w.size();
  }
  Writer w(out);
  const Mac& from = context.addresses[frame.transmitter];
  const Mac& to = frame.receiver == medium::nobody ? broadcast : context.addresses[frame.receiver];
  const Mac& bssid = context.addresses[context.bssid_of[frame.transmitter]];
  const bool from_ap = context.is_ap[frame.transmitter] != 0;
  const bool qos = context.standard == medium::Standard::n;
  constexpr std::uint16_t to_ds = 0x0100, from_ds = 0x0200, retry_bit = 0x0800;
  const auto direction = static_cast<std::uint16_t>((from_ap ? from_ds : to_ds) | (frame.retry ? retry_bit : 0));
  const auto duration = static_cast<std::uint16_t>(frame.receiver == medium::nobody ? 0 : 44);
  switch (frame.type)
  {
  case FrameType::data:
  case FrameType::null:
  {
    const bool with_qos = qos && frame.type == FrameType::data;
    const std::uint16_t subtype = frame.type == FrameType::null ? 0x0048 : with_qos ? 0x0088 : 0x0008;
    w.put<std::uint16_t>(static_cast<std::uint16_t>(subtype | direction));
    w.put(duration);
    // Down: receiver, BSSID, source. Up: BSSID, source, destination. Behind the access point is its own address here.
    w.put(to);
    w.put(from);
    w.put(bssid);
    w.put<std::uint16_t>(static_cast<std::uint16_t>(frame.sequence << 4));
    if (with_qos) w.put<std::uint16_t>(0);
    break;
  }
  case FrameType::ack:
    w.put<std::uint16_t>(0x00d4);
    w.put<std::uint16_t>(0);
    w.put(to);
    break;
  case FrameType::block_ack:
    w.put<std::uint16_t>(0x0094);
    w.put<std::uint16_t>(0);
    w.put(to);
    w.put(from);
    break;
  case FrameType::beacon:
  {
    w.put<std::uint16_t>(0x0080);
    w.put<std::uint16_t>(0);
    w.put(broadcast);
    w.put(from);
    w.put(from);
    w.put<std::uint16_t>(static_cast<std::uint16_t>(frame.sequence << 4));
    w.put<std::uint64_t>(static_cast<std::uint64_t>(frame.start.time_since_epoch().count() / 1000));
    w.put<std::uint16_t>(100);
    w.put<std::uint16_t>(0x0001);
    const std::string& ssid = context.ssids[frame.transmitter];
    w.put<std::uint8_t>(0);
    w.put<std::uint8_t>(static_cast<std::uint8_t>(ssid.size()));
    for (char c : ssid)
      w.put<std::uint8_t>(static_cast<std::uint8_t>(c));
    break;
  }
  }
  const auto captured = static_cast<std::uint32_t>(record.size() - body);
  const std::uint32_t whole = static_cast<std::uint32_t>(radiotap) + std::max<std::uint32_t>(frame.bytes, 4) - 4;
  record.patch<std::uint32_t>(lengths_at, captured);
  record.patch<std::uint32_t>(lengths_at + 4, std::max(whole, captured));
}

} // namespace tandem::lab
