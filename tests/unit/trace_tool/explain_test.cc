#include "tests/unit/trace/samples.h"
#include "tools/trace/explain.h"

#include <gtest/gtest.h>

#include <sstream>

namespace tandem::trace_tool
{
namespace
{

using namespace trace::test;

TEST(Explain, CountsByReasonLinkAndFault)
{
  const Sample sample;
  const TemporaryFile file { sample.file() };
  const Summary summary = summarise(file.path());
  EXPECT_EQ(summary.heading, heading());
  EXPECT_EQ(summary.all, (Count { 5, 4 * 52 + 20 }));
  EXPECT_EQ(summary.last_ns - summary.first_ns, 4'000'000);

  using Key = std::pair<std::string, std::string>;
  const std::map<Key, Count> reasons { { { "passed", "" }, { 1, 52 } },
                                       { { "edited", "offload: tagged" }, { 1, 52 } },
                                       { { "dropped", "offload: thinned" }, { 1, 52 } },
                                       { { "injected", "freeze: resume ACK" }, { 1, 52 } },
                                       { { "fault", "truncated_ip" }, { 1, 20 } } };
  EXPECT_EQ(summary.reasons, reasons);
  // The edited ACK left by cell, the dropped one by none.
  const std::map<Key, LinkCount> links { { { "wifi", "out" }, { { 1, 52 }, 1 } },
                                         { { "cell", "out" }, { { 2, 104 }, 2 } },
                                         { { "wifi", "in" }, { { 1, 20 }, 0 } } };
  EXPECT_EQ(summary.links, links);
  EXPECT_EQ(summary.faults, (std::map<std::string, std::uint64_t> { { "truncated_ip", 1 } }));
}

TEST(Explain, LongNamesOfInterfacesKeepTheColumns)
{
  Summary summary;
  summary.links = { { { "wlp0s20f3", "in" }, { { 1, 52 }, 0 } }, { { "wwan0", "out" }, { { 2, 104 }, 2 } } };
  std::ostringstream out;
  write_table(summary, "x.pcapng", out);
  EXPECT_NE(out.str().find("\nlink      dir     packets         bytes  pure ACKs\n"
                           "wlp0s20f3 in            1            52          0\n"
                           "wwan0     out           2           104          2\n"),
            std::string::npos)
      << out.str();

  summary.links = { { { std::string(200, 'n'), "in" }, { { 1, 52 }, 0 } }, { { "wwan0", "out" }, { { 2, 104 }, 2 } } };
  out.str("");
  write_table(summary, "x.pcapng", out);
  EXPECT_NE(out.str().find("n in            1            52          0\nwwan0 "), std::string::npos) << out.str();
}

} // namespace
} // namespace tandem::trace_tool
