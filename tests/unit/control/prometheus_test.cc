#include "src/control/prometheus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tandem::control
{
namespace
{

using nlohmann::json;

TEST(Prometheus, samples_of_one_name_stand_together_under_one_head)
{
  const json metrics =
      json::array({ { { "name", "tandem_packets_total" },
                      { "help", "Packets" },
                      { "type", "counter" },
                      { "value", 3 },
                      { "labels", { { "verdict", "pass" } } } },
                    { { "name", "tandem_flows" }, { "help", "Flows" }, { "type", "gauge" }, { "value", 2.5 } },
                    { { "name", "tandem_packets_total" },
                      { "help", "Packets" },
                      { "type", "counter" },
                      { "value", 4 },
                      { "labels", { { "verdict", "drop" } } } } });
  EXPECT_EQ(prometheus_text(metrics), "# HELP tandem_packets_total Packets\n"
                                      "# TYPE tandem_packets_total counter\n"
                                      "tandem_packets_total{verdict=\"pass\"} 3\n"
                                      "tandem_packets_total{verdict=\"drop\"} 4\n"
                                      "# HELP tandem_flows Flows\n"
                                      "# TYPE tandem_flows gauge\n"
                                      "tandem_flows 2.5\n");
}

TEST(Prometheus, escapes_what_would_break_a_line)
{
  const json metrics = json::array({ { { "name", "m" },
                                       { "help", "a\nb\\\"" },
                                       { "type", "counter" },
                                       { "value", 1 },
                                       { "labels", { { "why", "say \"x\"\n\\" } } } } });
  EXPECT_EQ(prometheus_text(metrics), "# HELP m a\\nb\\\\\"\n# TYPE m counter\nm{why=\"say \\\"x\\\"\\n\\\\\"} 1\n");
}

TEST(Prometheus, one_bad_entry_does_not_cost_the_scrape)
{
  const json metrics = json::array({ { { "name", "bad name" }, { "value", 1 } },
                                     { { "name", "no_value" } },
                                     7,
                                     { { "name", "text" }, { "value", "x" } },
                                     { { "name", "infinite" }, { "value", std::numeric_limits<double>::infinity() } },
                                     { { "name", "good" }, { "help", "h" }, { "type", "gauge" }, { "value", 1 } } });
  EXPECT_EQ(prometheus_text(metrics), "# HELP good h\n# TYPE good gauge\ngood 1\n");
  EXPECT_EQ(prometheus_text(json::object()), "");
}

} // namespace
} // namespace tandem::control
