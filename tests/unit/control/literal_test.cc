#include "src/control/literal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace tandem
{
namespace
{

using namespace std::chrono_literals;

TEST(Literal, durations)
{
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(parse_duration(" 20 us "), 20us);
  EXPECT_EQ(parse_duration("250 us"), 250us);
  EXPECT_EQ(parse_duration("2min"), 120s);
  EXPECT_EQ(parse_duration("1d"), 24h);
  EXPECT_EQ(parse_duration("0"), 0s);
  EXPECT_EQ(parse_duration("7ns"), 7ns);
}

TEST(Literal, what_is_no_duration)
{
  for (const char* text : { "", " ", "ms", "250", "250 parsecs", "nan s", "-1s", "1e400s", "1e30s", "inf", "nans",
                            "0x10ms", "1s2", "+1s", "1.2.3s", "\0s" })
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
}

TEST(Literal, bytes)
{
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("1500B"), 1500u);
  EXPECT_EQ(parse_bytes("20kB"), 20000u);
  EXPECT_EQ(parse_bytes("64KiB"), 65536u);
  EXPECT_EQ(parse_bytes("8MiB"), 8u << 20);
  EXPECT_EQ(parse_bytes("1.5 KiB"), 1536u);
  EXPECT_EQ(parse_bytes("1.1kB"), 1100u);
  EXPECT_EQ(parse_bytes("3GB"), 3000000000u);
}

TEST(Literal, what_is_no_number_of_bytes)
{
  for (const char* text :
       { "", "many", "1500", "-1", "-5kB", "0.5", "8mib", "8 Mbit", "1e300", "99999999999GiB", "kB" })
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
}

TEST(Literal, rates)
{
  EXPECT_EQ(parse_rate("2Mbit"), 2_mbps);
  EXPECT_EQ(parse_rate("2.5 Mbit/s"), 2.5_mbps);
  EXPECT_EQ(parse_rate("384kbps"), 384_kbps);
  EXPECT_EQ(parse_rate("1.2Gbit"), Rate { 1.2e9 });
  EXPECT_EQ(parse_rate("0"), 0_kbps);
  for (const char* text : { "", "2", "2 MB", "5MB", "-2Mbit", "Mbit" })
    EXPECT_EQ(parse_rate(text), std::nullopt) << text;
}

TEST(Literal, are_shown_so_that_people_can_read_them)
{
  EXPECT_EQ(format_duration(0s), "0 s");
  EXPECT_EQ(format_duration(7ns), "7 ns");
  EXPECT_EQ(format_duration(999'900ns), "1 ms");
  EXPECT_EQ(format_duration(12'345us), "12.3 ms");
  EXPECT_EQ(format_duration(250ms), "250 ms");
  EXPECT_EQ(format_duration(-1500ms), "-1.5 s");
  EXPECT_EQ(format_duration(100h), "4.17 d");
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(8u << 20), "8 MiB");
  EXPECT_EQ(format_bytes(1'234'567), "1.23 MB");
  EXPECT_EQ(format_bytes(999'999), "1 MB");
  EXPECT_EQ(format_rate(2_mbps), "2 Mbit/s");
  EXPECT_EQ(format_rate({ 123'456. }), "123 kbit/s");
}

constexpr std::array<std::string_view, 2> strategies { "proved", "paper" };
constexpr Knob threshold { .name = "threshold",
                           .type = KnobType::integer,
                           .unit = "MSS",
                           .minimum = 1,
                           .maximum = 1000,
                           .initial = 20,
                           .help = "" };
constexpr Knob timeout {
  .name = "timeout", .type = KnobType::duration, .unit = "s", .minimum = 0.001, .maximum = 10, .initial = 1, .help = ""
};
constexpr Knob budget {
  .name = "budget", .type = KnobType::integer, .unit = "bytes", .minimum = 0, .maximum = 1e9, .initial = 0, .help = ""
};
constexpr Knob share {
  .name = "share", .type = KnobType::real, .minimum = 0, .maximum = 1, .initial = 0.5, .help = ""
};
constexpr Knob strategy { .name = "strategy", .type = KnobType::choice, .help = "", .choices = strategies };
constexpr Knob careful { .name = "careful", .type = KnobType::boolean, .help = "" };

std::string fault(const Knob& knob, std::string_view text)
{
  const auto result = parse_knob(knob, text);
  return std::holds_alternative<std::string>(result) ? std::get<std::string>(result) : "none";
}

TEST(KnobLiteral, takes_what_the_type_allows)
{
  EXPECT_EQ(std::get<double>(parse_knob(threshold, "20")), 20);
  EXPECT_EQ(std::get<double>(parse_knob(threshold, "20 MSS")), 20);
  EXPECT_EQ(std::get<double>(parse_knob(timeout, "250ms")), 0.25);
  EXPECT_EQ(std::get<double>(parse_knob(budget, "20MB")), 2e7);
  EXPECT_EQ(std::get<double>(parse_knob(budget, "1500")), 1500);
  EXPECT_EQ(std::get<double>(parse_knob(share, "0.25")), 0.25);
  EXPECT_EQ(std::get<double>(parse_knob(strategy, "paper")), 1);
  EXPECT_EQ(std::get<double>(parse_knob(careful, "on")), 1);
  EXPECT_EQ(std::get<double>(parse_knob(careful, "no")), 0);
}

TEST(KnobLiteral, says_what_is_allowed)
{
  EXPECT_EQ(fault(threshold, "0"), "a whole number from 1 to 1000 MSS is needed");
  EXPECT_EQ(fault(threshold, "2.5"), "a whole number from 1 to 1000 MSS is needed");
  EXPECT_EQ(fault(timeout, "5"), "a duration with its unit from 1ms to 10s is needed");
  EXPECT_EQ(fault(timeout, "11s"), "a duration with its unit from 1ms to 10s is needed");
  EXPECT_EQ(fault(share, "nan"), "a number from 0 to 1 is needed");
  EXPECT_EQ(fault(share, "1.01"), "a number from 0 to 1 is needed");
  EXPECT_EQ(fault(strategy, "Paper"), "one of proved, paper is needed");
  EXPECT_EQ(fault(careful, "maybe"), "on or off is needed");
}

TEST(KnobLiteral, what_is_shown_can_be_typed_back)
{
  for (const double value : { 0.001, 0.0155, 0.25, 1., 2.5, 10. })
    EXPECT_DOUBLE_EQ(std::get<double>(parse_knob(timeout, format_knob(timeout, value))), value)
        << format_knob(timeout, value);
  for (const double value : { 0., 0.1, 1. / 3, 1. })
    EXPECT_EQ(std::get<double>(parse_knob(share, format_knob(share, value))), value);
  EXPECT_EQ(format_knob(strategy, 1), "paper");
  EXPECT_EQ(format_knob(careful, 0), "off");
  EXPECT_EQ(format_knob(threshold, 20), "20");
}

} // namespace
} // namespace tandem
