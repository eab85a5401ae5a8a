#include "src/trace/formats.h"
#include "src/trace/reader.h"
#include "tests/unit/trace/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pcap/pcap.h>
#include <sys/stat.h>

#include <cstring>

namespace tandem::trace
{
namespace
{

using namespace test;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string reason_for(const std::string& content)
{
  const TemporaryFile file { content };
  try
  {
    read_all(file.path());
  }
  catch (const BadFile& bad)
  {
    const std::string what = bad.what();
    EXPECT_EQ(what.find(file.path().string() + ": "), 0u);
    return what.substr(file.path().string().size() + 2);
  }
  return "";
}

void set32(std::string& content, std::size_t at, std::uint32_t value)
{
  content.replace(at, 4, reinterpret_cast<const char*>(&value), 4);
}

std::uint32_t get32(const std::string& content, std::size_t at)
{
  std::uint32_t value = 0;
  std::memcpy(&value, content.data() + at, 4);
  return value;
}

// The place of the n-th block.
std::size_t block(const std::string& content, int n)
{
  std::size_t at = 0;
  while (n-- > 0)
    at += get32(content, at + 4);
  return at;
}

TEST(Reader, BadFilesGiveOffsetAndReason)
{
  const std::string good = Sample {}.file();
  EXPECT_EQ(reason_for(good), "");
  EXPECT_EQ(reason_for(""), "offset 0: 0 bytes are no recording (pcapng or pcap)");
  EXPECT_THAT(reason_for("this is a text\nof two lines\n"), ::testing::HasSubstr("offset 0: "));

  const std::size_t packet = block(good, 4);
  const std::string at = "offset " + std::to_string(packet) + ": ";
  EXPECT_EQ(reason_for(good.substr(0, packet + 5)), at + "ends inside the head of a block");
  EXPECT_EQ(reason_for(good.substr(0, packet + 20)),
            at + "block of " + std::to_string(get32(good, packet + 4)) + " bytes, but the file ends "
                + std::to_string(get32(good, packet + 4) - 20) + " bytes before its end");
  auto changed = [&](std::size_t place, std::uint32_t value)
  {
    std::string content = good;
    set32(content, place, value);
    return reason_for(content);
  };
  EXPECT_EQ(changed(packet + 4, 7), at + "block length 7; allowed is a multiple of 4 from 12 to 16777216");
  EXPECT_EQ(changed(packet + 4, 0xfffffffc),
            at + "block length 4294967292; allowed is a multiple of 4 from 12 to 16777216");
  EXPECT_EQ(changed(packet + get32(good, packet + 4) - 4, 96),
            at + "block length " + std::to_string(get32(good, packet + 4)) + " at its head and 96 at its end");
  EXPECT_EQ(changed(packet + 8, 3), at + "packet of interface 3, but 3 interfaces were described before it");
  EXPECT_THAT(changed(packet + 20, 5000), ::testing::StartsWith(at + "packet of 5000 bytes in a block with room for "));
  EXPECT_THAT(changed(8, 0x12345678), ::testing::StartsWith("offset 0: section header without a byte-order magic"));
  EXPECT_EQ(changed(12, 2), "offset 0: pcapng version 2; version 1 is understood");
}

TEST(Reader, WhatIsNoFile)
{
  EXPECT_THROW(Reader("/nonexistent/trace.pcapng"), BadFile);
  EXPECT_THROW(Reader("/"), BadFile);
  const TemporaryFile place { "" };
  std::filesystem::remove(place.path());
  ASSERT_EQ(mkfifo(place.path().c_str(), 0600), 0);
  for (const std::filesystem::path& pipe : { place.path(), std::filesystem::path { "-" } })
    try
    {
      Reader reader { pipe };
      ADD_FAILURE() << pipe;
    }
    catch (const BadFile& bad)
    {
      EXPECT_THAT(bad.what(), ::testing::HasSubstr("is a pipe")) << pipe;
    }
}

// Blocks that lie across the pieces in which a file is read, and one that is larger than a piece.
TEST(Reader, BlocksAcrossPieces)
{
  std::string content;
  const auto put = [&content](std::initializer_list<std::uint32_t> values)
  {
    for (const std::uint32_t value : values)
      content.append(reinterpret_cast<const char*>(&value), 4);
  };
  put({ 0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0xffffffff, 0xffffffff, 28 });
  put({ 1, 20, 101, 0, 20 });
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t i = 0; i < 400; ++i)
    sizes.push_back(i == 200 ? 700'000 : 4 * (i * 37 % 1000));
  for (std::uint32_t i = 0; i < sizes.size(); ++i)
  {
    put({ 6, sizes[i] + 32, 0, 0, i, sizes[i], sizes[i] });
    content.append(sizes[i], static_cast<char>(i));
    put({ sizes[i] + 32 });
  }
  const TemporaryFile file { content };
  Reader reader { file.path() };
  Recorded packet;
  for (std::uint32_t i = 0; i < sizes.size(); ++i)
  {
    ASSERT_TRUE(reader.next(packet)) << i;
    EXPECT_EQ(packet.time_ns, i * 1000);
    EXPECT_EQ(packet.bytes, (std::vector<std::byte>(sizes[i], static_cast<std::byte>(i)))) << i;
  }
  EXPECT_FALSE(reader.next(packet));
  EXPECT_FALSE(reader.next(packet)) << "it stays at its end";
}

// A packet that is used again holds nothing of the one before.
TEST(Reader, APacketUsedAgainIsAsNew)
{
  const TemporaryFile file { Sample {}.file() };
  Reader fresh { file.path(), true }, again { file.path(), true };
  Recorded used;
  for (auto one = fresh.next(); one; one = fresh.next())
  {
    ASSERT_TRUE(again.next(used));
    EXPECT_EQ(
        std::tie(one->number, one->time_ns, one->interface, one->link, one->direction, one->packet_id, one->comment,
                 one->decision, one->bytes, one->length, one->link_type, one->same_frame, one->input),
        std::tie(used.number, used.time_ns, used.interface, used.link, used.direction, used.packet_id, used.comment,
                 used.decision, used.bytes, used.length, used.link_type, used.same_frame, used.input));
    EXPECT_EQ(one->asked.has_value(), used.asked.has_value());
  }
  EXPECT_FALSE(again.next(used));
}

// Whatever the damage: packets or BadFile, nothing else.
TEST(Reader, DamagedFilesEndInBadFile)
{
  const std::string good = Sample {}.file();
  wire::test::Generator random { 6 };
  int bad_files = 0;
  for (int round = 0; round < 2000; ++round)
  {
    std::string content = good;
    for (std::uint32_t i = 0; i <= random.below(3); ++i)
      content[random.below(static_cast<std::uint32_t>(content.size()))] = static_cast<char>(random.number());
    if (random.below(4) == 0) content.resize(random.below(static_cast<std::uint32_t>(content.size())));
    if (!reason_for(content).empty()) ++bad_files;
  }
  EXPECT_GT(bad_files, 200);
}

TEST(Reader, TheOtherByteOrder)
{
  // Section header, a RAW interface with microseconds (the default), one packet of 20 bytes, all big-endian.
  const Packet content = wire::test::hex("0a0d0d0a0000001c1a2b3c4d00010000ffffffffffffffff0000001c"
                                         "00000001000000140065000000000000"
                                         "00000014"
                                         "00000006000000340000000000000001000000020000001400000014"
                                         "4500001400000000400600000a0000020a000001"
                                         "00000034");
  const TemporaryFile file { { reinterpret_cast<const char*>(content.data()), content.size() } };
  const auto packets = read_all(file.path());
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].time_ns, 4294967298000);
  EXPECT_EQ(packets[0].bytes.size(), 20u);
  EXPECT_FALSE(packets[0].direction);
  EXPECT_FALSE(packets[0].decision);
  EXPECT_EQ(packets[0].link, Link::other);
}

TEST(Reader, ClassicPcapOfEthernet)
{
  const Packet packet = wire::test::data_v4();
  const TemporaryFile file { "", ".pcap" };
  pcap_t* dead = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, 200, PCAP_TSTAMP_PRECISION_NANO);
  pcap_dumper_t* dumper = pcap_dump_open(dead, file.path().c_str());
  ASSERT_NE(dumper, nullptr);
  std::vector<std::byte> frame(14);
  frame[12] = std::byte { 8 };
  frame.insert(frame.end(), packet.begin(), packet.end());
  const pcap_pkthdr header { .ts = { .tv_sec = 5, .tv_usec = 123456789 },
                             .caplen = 200,
                             .len = static_cast<bpf_u_int32>(frame.size()) };
  pcap_dump(reinterpret_cast<u_char*>(dumper), &header, reinterpret_cast<const u_char*>(frame.data()));
  pcap_dump_close(dumper);
  pcap_close(dead);

  const auto packets = read_all(file.path());
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].time_ns, 5'123'456'789);
  EXPECT_EQ(packets[0].bytes.size(), 186u);
  EXPECT_EQ(packets[0].length, packet.size());
  EXPECT_EQ(packets[0].number, 1u);

  std::filesystem::resize_file(file.path(), 24 + 16 + 100);
  try
  {
    read_all(file.path());
    FAIL() << "a cut file was read to its end";
  }
  catch (const BadFile& bad)
  {
    EXPECT_EQ(bad.offset(), 24u);
  }
}

TEST(Reader, LinkLayers)
{
  auto offset = [](std::string_view frame, std::uint32_t type) { return ip_offset(wire::test::hex(frame), type); };
  const std::string macs(24, '0');
  EXPECT_EQ(offset("45", 101), 0u);
  EXPECT_EQ(offset(macs + "0800" + "45", 1), 14u);
  EXPECT_EQ(offset(macs + "86dd" + "60", 1), 14u);
  EXPECT_EQ(offset(macs + "81000001" + "0800" + "45", 1), 18u);
  EXPECT_EQ(offset(macs + "88a8000181000002" + "86dd" + "60", 1), 22u);
  EXPECT_FALSE(offset(macs + "0806" + "00", 1));
  EXPECT_FALSE(offset(macs, 1));
  EXPECT_EQ(offset(macs + "0000" + "0000" + "0800", 113), std::nullopt);
  EXPECT_EQ(offset(std::string(28, '0') + "0800", 113), 16u);
  EXPECT_EQ(offset("0800" + std::string(36, '0'), 276), 20u);
  EXPECT_EQ(offset("8100" + std::string(36, '0') + "0005" + "86dd" + "60", 276), 24u) << "a tag of a VLAN";
  EXPECT_FALSE(offset("8100" + std::string(36, '0') + "0005", 276));
  EXPECT_EQ(offset(macs + "9100000181000002" + "0800" + "45", 1), 22u) << "the outer tag of before 802.1ad";
  EXPECT_EQ(offset("02000000", 0), 4u);
  EXPECT_FALSE(offset(std::string(100, '0'), 127));
}

TEST(Reader, WhatALinkLayerPutsBehindAPacketIsNoneOfIt)
{
  const Packet packet = ack(1000);
  const auto take = [&packet](std::size_t before, std::size_t behind, std::size_t kept, std::uint32_t type)
  {
    std::vector<std::byte> frame(before);
    if (type == 1) frame[12] = std::byte { 8 };
    frame.insert(frame.end(), packet.begin(), packet.end());
    frame.resize(frame.size() + behind);
    const auto length = static_cast<std::uint32_t>(frame.size());
    frame.resize(std::min(frame.size(), kept));
    Recorded recorded { .link_type = type };
    take_ip(frame, length, recorded);
    return recorded;
  };
  EXPECT_EQ(take(14, 6, 200, 1).bytes, packet) << "Ethernet's padding";
  EXPECT_EQ(take(14, 6, 200, 1).length, packet.size());
  EXPECT_EQ(take(14, 6, 54, 1).bytes.size(), 40u) << "of a packet that is cut, too";
  EXPECT_EQ(take(14, 6, 54, 1).length, packet.size());
  EXPECT_EQ(take(0, 6, 200, 101).length, packet.size() + 6) << "without a link layer all is the packet's own";
  EXPECT_EQ(take(14, 0, 24, 1).length, packet.size());
}

TEST(Reader, CompressedFilesSayWhatUnpacksThem)
{
  EXPECT_THAT(reason_for("\x1f\x8b\x08 and so on"), StartsWith("offset 0: is compressed; unpack it first: gunzip -k "));
  EXPECT_THAT(reason_for("\x28\xb5\x2f\xfd and so on"), HasSubstr("unzstd "));
  EXPECT_THAT(reason_for("\x04\x22\x4d\x18 and so on"), HasSubstr("unlz4 "));
  EXPECT_THAT(reason_for("\3757zXZ and so on"), HasSubstr("unxz -k "));
}

} // namespace
} // namespace tandem::trace
