// Any bytes as the answer to a probe: the gateway's only if they name it and what was asked.
// Input: a byte (way, IP version, which addresses are known), then the answer.
#include "src/kernel/packet/probe_answer.h"

#include "tests/fuzz/check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

using namespace tandem;
using tandem::fuzz::check;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  if (size < 1) return 0;
  const auto way = static_cast<kernel::ProbeWay>(data[0] & 3);
  const bool v6 = (data[0] & 4) != 0;
  kernel::Asked asked { .identifier = 0x1234 };
  if (data[0] & 8) asked.gateway_v4.emplace().bytes = { 10, 0, 0, 1 };
  if (data[0] & 16) asked.source_v4.emplace().bytes = { 10, 0, 0, 2 };
  if (data[0] & 32) asked.gateway_v6.emplace().bytes = { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 };
  const std::vector<std::uint8_t> bytes { data + 1, data + size };
  const kernel::ProbeAnswer answer = read_answer(way, v6, bytes, asked);
  check(answer.ours || !answer.neighbour, "only the gateway tells its address");
  if (!answer.ours) return 0;
  check(way != kernel::ProbeWay::none, "an answer to a question");
  const auto names = [&](const std::optional<Address>& address, std::ptrdiff_t length)
  {
    return address
           && std::search(bytes.begin(), bytes.end(), address->bytes.begin(), address->bytes.begin() + length)
                  != bytes.end();
  };
  const std::uint8_t identifier[] { 0x12, 0x34 };
  const bool identified =
      std::search(bytes.begin(), bytes.end(), std::begin(identifier), std::end(identifier)) != bytes.end();
  if (way == kernel::ProbeWay::arp)
    check(names(asked.gateway_v4, 4) && names(asked.source_v4, 4), "both ends named");
  else if (way == kernel::ProbeWay::solicitation && v6)
    check(names(asked.gateway_v6, 16), "the gateway is named");
  else
    check(identified, "our own number is in it");
  return 0;
}
