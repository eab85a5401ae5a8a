#include "src/wire/text.h"
#include "tests/unit/wire/packets.h"

#include <gtest/gtest.h>

namespace tandem::wire
{
namespace
{

using namespace test;

std::string described(const Packet& packet, Direction direction, std::uint16_t gso_size = 0)
{
  return describe(parse(packet, direction, false, gso_size).segment);
}

TEST(Text, OneLinePerSegment)
{
  EXPECT_EQ(described(hex(syn_v4), Direction::egress), "10.77.0.1:35690 > 10.77.0.2:5001 [SEW] seq 253100563 win 64240 "
                                                       "len 0 <mss 1460, wscale 10, sackOK, ts 2713833726 0>");
  EXPECT_EQ(described(hex(sack_v4), Direction::egress),
            "10.77.0.1:35690 > 10.77.0.2:5001 [.] seq 253100564 ack 233787395 win 76 len 0 "
            "<sack 233798979..233800427 233788843..233797531, ts 2713833726 3751406036>");
  EXPECT_EQ(described(data_v4(), Direction::ingress, 452),
            "10.77.0.2:5001 > 10.77.0.1:35690 [P.] seq 233823595 ack 253100564 win 64 len 904 "
            "<ts 3751406036 2713833726> ect0 gso 452");
  EXPECT_EQ(described(hex(syn_ack_v6), Direction::ingress),
            "[fd77::2]:5002 > [fd77::1]:60138 [S.E] seq 2919948110 ack 1741099736 win 64260 len 0 "
            "<mss 1440, wscale 10, sackOK, ts 3432060071 3229301000>");
  EXPECT_EQ(described(with_options({ 29, 4, 1, 1, 77, 2 }), Direction::egress),
            "10.0.0.2:40000 > 192.0.2.1:443 [.] seq 1000 ack 2000 win 500 len 0 <ao, unknown>");
  EXPECT_EQ(flags_text(0), "none");
}

TEST(Text, HexLine)
{
  EXPECT_EQ(hex_line(hex("0001f203f4")), "0001f203 f4");
  EXPECT_EQ(hex_line(hex("0001f203f4"), 4), "0001f203 ... (5 bytes)");
  EXPECT_EQ(hex_line({}), "");
}

} // namespace
} // namespace tandem::wire
