// Reports of every kind with made-up values: extremes and absent fields included.
#pragma once

#include "src/feeder/radio/report.h"

#include <limits>
#include <random>
#include <string>

namespace tandem::feeder
{

class MadeUp
{
public:
  explicit MadeUp(std::uint64_t seed) : random_ { seed } {}

  Report report()
  {
    Report result { .at = Tick { Duration { number<std::int64_t>() } } };
    switch (below(7))
    {
    case 0:
      result.what = frame();
      break;
    case 1:
      result.what = station();
      break;
    case 2:
      result.what =
          Survey { some<unsigned>(), coin(), maybe<float>(), maybe_span(), maybe_span(), maybe_span(), maybe_span() };
      break;
    case 3:
      result.what =
          WifiChange { static_cast<WifiChange::Kind>(below(7)),          maybe_mac(),    maybe<std::uint16_t>(),
                       coin() ? std::optional { coin() } : std::nullopt, maybe<float>(), maybe<unsigned>() };
      break;
    case 4:
      result.what = Candidate { mac(), text(), some<unsigned>(), maybe<float>(), maybe_span(), coin() };
      break;
    case 5:
      result.what = ModemStats { text(),         maybe_text(),   maybe_text(),   maybe<float>(), maybe<float>(),
                                 maybe<float>(), maybe<float>(), maybe<float>(), coin() };
      break;
    default:
      result.what = InterfaceChange { text(), number<int>(), coin(), coin(), coin() };
    }
    return result;
  }

  Frame frame()
  {
    Frame f {};
    f.kind = static_cast<Frame::Kind>(below(5));
    f.receiver = mac();
    f.transmitter = maybe_mac();
    f.to_ap = coin();
    f.from_ap = coin();
    f.damaged = coin();
    f.sequence = maybe<std::uint16_t>();
    f.retry = coin();
    f.tid = maybe<std::uint8_t>();
    f.payload = coin();
    f.signal = maybe<float>();
    f.noise = maybe<float>();
    f.frequency = maybe<unsigned>();
    f.mbps = maybe<double>();
    f.mcs = maybe<std::uint8_t>();
    f.streams = maybe<std::uint8_t>();
    f.aggregate = maybe<std::uint32_t>();
    f.beacon_interval = maybe<unsigned>();
    f.bytes = some<std::uint32_t>();
    f.sent = some<std::uint64_t>();
    return f;
  }

  StationStats station()
  {
    StationStats s {};
    s.ap = mac();
    s.signal = maybe<float>();
    s.signal_average = maybe<float>();
    s.inactive = maybe_span();
    s.rx_mbps = maybe<double>();
    s.tx_mbps = maybe<double>();
    s.rx_mcs = maybe<std::uint8_t>();
    s.tx_mcs = maybe<std::uint8_t>();
    s.rx_streams = maybe<std::uint8_t>();
    s.rx_bytes = maybe<std::uint64_t>();
    s.tx_bytes = maybe<std::uint64_t>();
    s.rx_packets = maybe<std::uint32_t>();
    s.tx_packets = maybe<std::uint32_t>();
    s.tx_retries = maybe<std::uint32_t>();
    s.tx_failed = maybe<std::uint32_t>();
    s.beacon_loss = maybe<std::uint32_t>();
    s.beacons = maybe<std::uint64_t>();
    s.rx_duration = maybe_span();
    s.beacon_interval = maybe_span();
    return s;
  }

  // Any bytes, most of them such as a person would not choose.
  std::string text()
  {
    static constexpr std::string_view pieces[] = { "home",
                                                   "\\",
                                                   "\\x41",
                                                   "\"",
                                                   "\n",
                                                   "caf\xc3\xa9",
                                                   "\xc3",
                                                   "\xff",
                                                   "\xed\xa0\x80",
                                                   "\xf0\x9f\x93\xb6",
                                                   "\xf4\x90\x80\x80",
                                                   "\x7f" };
    std::string result {};
    for (std::size_t n = below(5); n > 0; --n)
      result += pieces[below(std::size(pieces))];
    for (std::size_t n = below(4); n > 0; --n)
      result += static_cast<char>(below(256));
    return result;
  }

  bool coin() { return below(2) == 0; }
  std::size_t below(std::size_t end) { return random_() % end; }

private:
  template <class T>
  T number()
  {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_floating_point_v<T>)
    {
      switch (below(6))
      {
      case 0:
        return Limits::max();
      case 1:
        return Limits::denorm_min();
      case 2:
        return T { -0.0 };
      default:
        return static_cast<T>(static_cast<double>(random_() >> 11) * 0x1p-53 * 200 - 120);
      }
    }
    else
    {
      switch (below(5))
      {
      case 0:
        return Limits::max();
      case 1:
        return Limits::min();
      default:
        return static_cast<T>(random_());
      }
    }
  }
  template <class T>
  T some()
  {
    return coin() ? T {} : number<T>();
  }
  template <class T>
  std::optional<T> maybe()
  {
    return coin() ? std::optional { number<T>() } : std::nullopt;
  }
  std::optional<Duration> maybe_span()
  {
    return coin() ? std::optional { Duration { number<std::int64_t>() } } : std::nullopt;
  }
  std::optional<std::string> maybe_text() { return coin() ? std::optional { text() } : std::nullopt; }
  Mac mac()
  {
    Mac result {};
    if (coin())
      for (auto& byte : result)
        byte = static_cast<std::uint8_t>(random_());
    return result;
  }
  std::optional<Mac> maybe_mac() { return coin() ? std::optional { mac() } : std::nullopt; }

  std::mt19937_64 random_;
};

} // namespace tandem::feeder
