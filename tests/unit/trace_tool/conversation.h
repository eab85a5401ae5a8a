// A made-up download as a classic capture, for the tests of replay and of what else reads flows.
#pragma once

#include "tests/unit/trace/samples.h"

#include <cstring>
#include <string>
#include <vector>

namespace tandem::trace_tool::test
{

using trace::test::Packet;
using namespace tandem::literals;

// A SYN or SYN-ACK with MSS 1460, SACK permitted, timestamps and a window shift of 7; checksums are not looked at.
inline Packet handshake(bool answer, std::uint32_t seq, std::uint32_t ack)
{
  Packet packet = wire::test::hex("4500003c00004000400600000a000002c0000201"
                                  "9c4001bb0000000000000000a002ffff00000000"
                                  "020405b40402080a000000000000000001030307");
  const auto put32 = [&packet](std::size_t at, std::uint32_t value)
  {
    for (int i = 0; i < 4; ++i)
      packet[at + static_cast<std::size_t>(i)] = static_cast<std::byte>(value >> (24 - 8 * i));
  };
  if (answer)
  {
    std::swap_ranges(packet.begin() + 12, packet.begin() + 16, packet.begin() + 16);
    std::swap_ranges(packet.begin() + 20, packet.begin() + 22, packet.begin() + 22);
    packet[33] = std::byte { 0x12 };
  }
  put32(24, seq);
  put32(28, ack);
  put32(48, answer ? 9000 : 1000);
  put32(52, answer ? 1000 : 0);
  return packet;
}

struct Timed
{
  Duration at {};
  Packet packet {};
};

// 10.0.0.2:40000 downloads `count` segments of 1448 bytes from 192.0.2.1:443, each acknowledged, every `step`.
inline std::vector<Timed> download(int count, Duration step = 10ms, bool with_handshake = true)
{
  const FlowKey key { .local = wire::test::v4(10, 0, 0, 2),
                      .remote = wire::test::v4(192, 0, 2, 1),
                      .local_port = 40000,
                      .remote_port = 443 };
  std::vector<Timed> all;
  if (with_handshake)
  {
    all.push_back({ 0ms, handshake(false, 99, 0) });
    all.push_back({ 10ms, handshake(true, 499, 100) });
  }
  const std::vector<std::byte> payload(1448);
  std::uint32_t ack = 500;
  Duration now = 20ms;
  for (int i = 0; i < count; ++i, now += step)
  {
    const auto ms = static_cast<std::uint32_t>(now / 1ms);
    Packet data(2000);
    data.resize(wire::build_segment(data,
                                    { .key = key,
                                      .direction = Direction::ingress,
                                      .seq = { ack },
                                      .ack = { 100 },
                                      .flags = tcp_flag::ack,
                                      .window = 500,
                                      .timestamps = Timestamps { { 9000 + ms }, { 1000 + ms - 10 } } },
                                    payload));
    all.push_back({ now, data });
    ack += 1448;
    Packet answer(200);
    answer.resize(wire::build_ack(answer, { .key = key,
                                            .seq = { 100 },
                                            .ack = { ack },
                                            .window = 500,
                                            .timestamps = Timestamps { { 1000 + ms }, { 9000 + ms } } }));
    all.push_back({ now + 1ms, answer });
  }
  return all;
}

// A classic pcap file of link type RAW in nanoseconds, at 2023-11-14 22:13:20 UTC.
inline std::string classic(const std::vector<Timed>& packets)
{
  std::string file;
  const auto put = [&file](std::uint32_t value) { file.append(reinterpret_cast<const char*>(&value), 4); };
  for (const std::uint32_t value : { 0xa1b23c4du, 0x00040002u, 0u, 0u, 65535u, 101u })
    put(value);
  for (const Timed& one : packets)
  {
    put(1'700'000'000 + static_cast<std::uint32_t>(one.at / 1s));
    put(static_cast<std::uint32_t>(one.at % 1s / 1ns));
    put(static_cast<std::uint32_t>(one.packet.size()));
    put(static_cast<std::uint32_t>(one.packet.size()));
    file.append(reinterpret_cast<const char*>(one.packet.data()), one.packet.size());
  }
  return file;
}

} // namespace tandem::trace_tool::test
