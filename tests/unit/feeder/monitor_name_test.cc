#include "src/feeder/sources/monitor_source.h"

#include <gtest/gtest.h>

namespace tandem::feeder
{
namespace
{

// Of two links with a monitor each, the second one's would take the place of the first one's, and that one's again.
TEST(MonitorName, each_has_its_own)
{
  const MonitorName first {};
  EXPECT_EQ(first.text(), "tandem-mon0") << "documented, docs/radio.md";
  {
    const MonitorName second {};
    EXPECT_EQ(second.text(), "tandem-mon1");
  }
  const MonitorName third {};
  EXPECT_EQ(third.text(), "tandem-mon1") << "it is free again";
}

} // namespace
} // namespace tandem::feeder
