#include "src/trace/pcapng_writer.h"
#include "tests/unit/trace/samples.h"

#include <gtest/gtest.h>
#include <pcap/pcap.h>

namespace tandem::trace
{
namespace
{

using namespace test;

TEST(Pcapng, ReadAgainItIsTheSame)
{
  const Sample sample;
  const TemporaryFile file { sample.file() };
  Reader reader { file.path() };
  std::vector<Recorded> packets;
  while (auto packet = reader.next())
    packets.push_back(std::move(*packet));
  ASSERT_EQ(packets.size(), 6u);
  EXPECT_EQ(reader.heading(), heading());

  EXPECT_EQ(packets[0].bytes, sample.passed);
  EXPECT_EQ(packets[0].time_ns, realtime_offset.count() + 1'000'000);
  EXPECT_EQ(packets[0].link, Link::wifi);
  EXPECT_EQ(packets[0].direction, Direction::egress);
  EXPECT_EQ(packets[0].comment, "passed");

  EXPECT_EQ(packets[1].bytes, sample.before);
  EXPECT_EQ(packets[1].link, Link::wifi);
  EXPECT_EQ(packets[1].decision, (Comment { Disposition::edited, Part::before, "offload: tagged" }));
  EXPECT_EQ(packets[2].bytes, sample.after);
  EXPECT_EQ(packets[2].link, Link::cell);
  EXPECT_EQ(packets[2].interface, "cell");
  EXPECT_EQ(packets[2].decision, (Comment { Disposition::edited, Part::after, "offload: tagged" }));
  EXPECT_EQ(packets[1].packet_id, packets[2].packet_id);
  EXPECT_EQ(packets[1].number, 2u);
  EXPECT_EQ(packets[2].number, 2u) << "it stands once in the file";
  EXPECT_EQ(packets[3].number, 3u);
  EXPECT_NE(packets[0].packet_id, packets[1].packet_id);

  EXPECT_EQ(packets[3].comment, "dropped: offload: thinned");
  EXPECT_EQ(packets[4].bytes, sample.injected);
  EXPECT_EQ(packets[4].link, Link::cell);
  EXPECT_EQ(packets[5].direction, Direction::ingress);
  EXPECT_EQ(packets[5].length, 20u);
  EXPECT_EQ(packets[5].bytes, sample.fault);
}

TEST(Pcapng, APacketHasOneIdHoweverOftenItIsWritten)
{
  const Packet packet = ack(1);
  Recorder recorder { { .keep = 10ms } };
  const auto ids = [&recorder](const Stretch& wanted, std::uint64_t entries_before)
  {
    std::ostringstream out;
    EXPECT_TRUE(write_pcapng(out, recorder, heading(), realtime_offset, wanted));
    EXPECT_NE(out.str().find("\nentries before: " + std::to_string(entries_before)), std::string::npos);
    const TemporaryFile file { out.str() };
    std::vector<std::uint64_t> all;
    for (const Recorded& one : read_all(file.path()))
      all.push_back(one.packet_id.value());
    return all;
  };
  const std::array input { std::byte { 1 } };
  for (int i = 1; i <= 4; ++i)
  {
    recorder.add({ .at = tick(Duration { 1ms } * i), .before = packet });
    recorder.add({ .at = tick(Duration { 1ms } * i), .input = input });
  }
  using Ids = std::vector<std::uint64_t>;
  EXPECT_EQ(ids({}, 0), (Ids { 1, 2, 3, 4 }));
  EXPECT_EQ(ids({ .since = tick(3ms) }, 4), (Ids { 3, 4 }));
  EXPECT_EQ(ids({ .after = 1 }, 1), (Ids { 2, 3, 4 }));
  EXPECT_EQ(ids({ .after = 2 }, 2), (Ids { 2, 3, 4 })) << "the input between is an entry, too";
  EXPECT_EQ(ids({ .after = 8 }, 8), Ids {});
  EXPECT_EQ(ids({ .after = 99 }, 8), Ids {}) << "more than there were";
  recorder.add({ .at = tick(13ms), .before = packet });
  EXPECT_EQ(ids({}, 4), (Ids { 3, 4, 5 }));
  EXPECT_EQ(ids({ .after = 2 }, 4), (Ids { 3, 4, 5 })) << "what is forgotten is told by the number";
  EXPECT_EQ(ids({ .after = 8 }, 8), (Ids { 5 }));
}

TEST(Pcapng, AChangeOfLinkAloneIsAnEdit)
{
  const Packet packet = ack(1);
  Recorder recorder { {} };
  recorder.add({ .link = Link::wifi,
                 .after_link = Link::cell,
                 .disposition = Disposition::edited,
                 .before = packet,
                 .why = "offload: route" });
  std::ostringstream out;
  ASSERT_TRUE(write_pcapng(out, recorder, heading(), realtime_offset));
  const TemporaryFile file { out.str() };
  const auto packets = read_all(file.path());
  ASSERT_EQ(packets.size(), 2u);
  EXPECT_EQ(packets[1].bytes, packet);
  EXPECT_EQ(packets[0].link, Link::wifi);
  EXPECT_EQ(packets[1].link, Link::cell);
}

TEST(Original, IsToldByWhatDiffers)
{
  const Packet before = wire::test::hex("000102030405060708"), after = wire::test::hex("0001ff030405feed08");
  const std::string text = original_text(Link::cell, before, after);
  EXPECT_EQ(text, "was: cell 2:02 6:0607");
  const auto original = original_from(text, after);
  ASSERT_TRUE(original);
  EXPECT_EQ(original->link, Link::cell);
  EXPECT_EQ(original->bytes, before);
}

TEST(Original, AnythingElseIsNone)
{
  const Packet after(9);
  for (const std::string text :
       { "", "was", "was: ", "was: nowhere 1:00", "was: wifi 1", "was: wifi 9:00", "was: wifi 8:0000", "was: wifi 1:0",
         "was: wifi 1:zz", "was: wifi 99999999999999999999:00", "was: wifi -1:00", "was: wifi  1:00" })
    EXPECT_FALSE(original_from(text, after)) << text;
}

TEST(Pcapng, AFullDiskIsToldToTheCaller)
{
  std::ofstream full { "/dev/full", std::ios::binary };
  ASSERT_TRUE(full);
  Recorder recorder { {} };
  const Packet packet = ack(1);
  recorder.add({ .before = packet });
  EXPECT_FALSE(write_pcapng(full, recorder, heading(), {}));
}

} // namespace
} // namespace tandem::trace
