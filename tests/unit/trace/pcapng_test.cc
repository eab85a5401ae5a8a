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
  EXPECT_NE(packets[0].packet_id, packets[1].packet_id);

  EXPECT_EQ(packets[3].comment, "dropped: offload: thinned");
  EXPECT_EQ(packets[4].bytes, sample.injected);
  EXPECT_EQ(packets[4].link, Link::cell);
  EXPECT_EQ(packets[5].direction, Direction::ingress);
  EXPECT_EQ(packets[5].length, 20u);
  EXPECT_EQ(packets[5].bytes, sample.fault);
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
