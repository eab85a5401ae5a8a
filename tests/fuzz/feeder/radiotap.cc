// Any bytes as captured frames, at any times: what is read of them makes sense, and so does what is made of it.
// Input: records one behind the other, each after 4 bytes: length (16 bits, big endian), flags (8 bits: 0x80 the clock
// goes back, 0x40 a big step, 0x20 the capture cut it), step of the clock (8 bits).
#include "src/feeder/radio/air_log.h"
#include "src/feeder/radio/estimator.h"
#include "src/feeder/radio/frame.h"
#include "src/wire/bytes.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

using namespace tandem;
using tandem::fuzz::check;

namespace
{

constexpr feeder::Mac own { 2, 0, 0, 0, 1, 1 };

bool share(const std::optional<double>& value)
{
  return !value || (*value >= 0 && *value <= 1);
}

void examine(const feeder::Frame& frame, std::size_t most)
{
  check(frame.bytes <= most, "no frame is longer than its record");
  check(!frame.signal || std::isfinite(*frame.signal), "a finite signal");
  check(!frame.mbps || (*frame.mbps > 0 && std::isfinite(*frame.mbps)), "a rate above zero");
  check(!frame.tid || *frame.tid < 16, "traffic class below 16");
  check(!frame.sequence || *frame.sequence < 4096, "sequence number of 12 bits");
  check(feeder::parse_mac(feeder::text(frame.receiver)) == frame.receiver, "an address is read as written");
}

void examine(const feeder::ApEstimate& estimate)
{
  check(share(estimate.delivery), "delivery is a probability");
  check(estimate.confidence >= 0 && estimate.confidence <= 1, "confidence is between 0 and 1");
  check(share(estimate.beacon_loss), "beacon loss is a share");
  check(!estimate.packet_time || *estimate.packet_time > Duration::zero(), "a packet takes time");
  check(!estimate.mbps || (*estimate.mbps > 0 && std::isfinite(*estimate.mbps)), "mean rate above zero");
  check(!estimate.signal || std::isfinite(*estimate.signal), "a finite mean signal");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  constexpr std::size_t head = 4;
  feeder::AirLog log { own };
  feeder::ApEstimator estimator { { own } };
  Tick now { std::chrono::hours { 1 } };
  auto input = std::as_bytes(std::span { data, size });
  while (input.size() >= head)
  {
    const auto flags = std::to_integer<unsigned>(input[2]);
    const auto step = std::to_integer<unsigned>(input[3]);
    const std::size_t length = std::min<std::size_t>(wire::load16(input, 0), input.size() - head);
    // A copy of its own size: the sanitizer sees a read beyond it.
    const std::vector<std::byte> record { input.begin() + head,
                                          input.begin() + static_cast<std::ptrdiff_t>(head + length) };
    input = input.subspan(head + length);
    const Duration forward = std::chrono::microseconds { 100 } * step * ((flags & 0x40) != 0 ? 10'000 : 1);
    now += (flags & 0x80) != 0 ? -forward : forward;

    const std::size_t on_air = (flags & 0x20) != 0 ? 2 * record.size() : 0;
    const auto frame = feeder::parse_frame(record, on_air);
    if (!frame) continue;
    examine(*frame, std::max(record.size(), on_air));
    const auto event = log.take(*frame, now);
    check(event.at == now, "an event has the time of its frame");
    estimator.take(*frame, now);
    estimator.advance(now);
    for (const feeder::ApEstimate& estimate : estimator.all())
      examine(estimate);
  }
  check(estimator.memory() < (std::size_t { 64 } << 20), "memory is bounded");
  return 0;
}
