// The trace as Wireshark shows it. Skipped, by name, where tshark is not installed.
#include "tests/unit/trace/samples.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

namespace tandem::trace
{
namespace
{

using namespace test;

std::string output_of(const std::string& command)
{
  std::string output;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> part {};
  std::size_t length = 0;
  while ((length = std::fread(part.data(), 1, part.size(), pipe)) != 0)
    output.append(part.data(), length);
  pclose(pipe);
  return output;
}

TEST(Tshark, ShowsTheReasonAsPacketComment)
{
  if (output_of("command -v tshark").empty()) GTEST_SKIP() << "tshark is not installed";
  const TemporaryFile file { Sample {}.file() };
  const std::string fields =
      output_of("tshark -n -r " + file.path().string()
                + " -T fields -E separator='|' -e frame.number -e frame.interface_name"
                  " -e frame.packet_flags_direction -e tcp.ack_raw -e frame.comment 2>/dev/null");
  EXPECT_EQ(fields, "1|wifi|0x00000002|1000|passed\n"
                    "2|cell|0x00000002|2000|edited: offload: tagged,was: wifi 37:dc 47:0a\n"
                    "3|wifi|0x00000002|3000|dropped: offload: thinned\n"
                    "4|cell|0x00000002|4000|injected: freeze: resume ACK\n"
                    "5|wifi|0x00000001||fault: truncated_ip\n");
  const std::string checks =
      output_of("tshark -n -o ip.check_checksum:TRUE -o tcp.check_checksum:TRUE -r " + file.path().string()
                + " -Y 'tcp.checksum.status == 1 && ip.checksum.status == 1' -T fields -e frame.number 2>/dev/null");
  EXPECT_EQ(checks, "1\n2\n3\n4\n");
}

// Wireshark's editcap turns the trace into a classic file, libpcap reads that: the same packets at the same times.
// (libpcap itself refuses a pcapng file with several interfaces of link type RAW: it compares a LINKTYPE_ with a DLT_
// value.)
TEST(Tshark, EditcapKeepsEveryPacket)
{
  if (output_of("command -v editcap").empty()) GTEST_SKIP() << "editcap is not installed";
  const TemporaryFile file { Sample {}.file() };
  const TemporaryFile classic { "", ".pcap" };
  output_of("editcap -F nsecpcap " + file.path().string() + " " + classic.path().string() + " 2>&1");
  std::vector<Recorded> expected; // an edited packet is in the file as it left
  for (Recorded& packet : read_all(file.path()))
  {
    if (packet.same_frame) expected.pop_back();
    expected.push_back(std::move(packet));
  }
  const auto packets = read_all(classic.path());
  ASSERT_EQ(packets.size(), expected.size());
  for (std::size_t i = 0; i < packets.size(); ++i)
  {
    EXPECT_EQ(packets[i].time_ns, expected[i].time_ns);
    EXPECT_EQ(packets[i].bytes, expected[i].bytes);
    EXPECT_EQ(packets[i].length, expected[i].length);
  }
}

} // namespace
} // namespace tandem::trace
