#include "src/daemon/doctor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tandem::daemon
{
namespace
{

TEST(DoctorInputTest, the_mark_bits_are_those_in_use)
{
  Config config {};
  EXPECT_EQ(doctor_input(config).mark_mask, 0x7000'0000u);
  EXPECT_EQ(doctor_input(config).placement_mask, 0u);

  config.daemon.mark_mask = 0x00e0'0000;
  config.placement.enabled = true;
  EXPECT_EQ(doctor_input(config).mark_mask, 0x00e0'0000u);
  EXPECT_EQ(doctor_input(config).placement_mask, 0x0f00'0000u);
}

TEST(DoctorInputTest, what_is_to_be_found_has_no_name)
{
  Config config {};
  config.links.wifi = "auto";
  config.links.cell = "none";
  EXPECT_EQ(doctor_input(config).wifi, "");
  EXPECT_EQ(doctor_input(config).cell, "");
  EXPECT_TRUE(doctor_input(config).no_cell);

  config.links.cell = "wwan0";
  EXPECT_EQ(doctor_input(config).cell, "wwan0");
  EXPECT_FALSE(doctor_input(config).no_cell);
}

// Nobody can do what it says otherwise: `tandem doctor --wifi` is refused.
TEST(DoctorTest, it_sends_nobody_to_an_option_that_it_does_not_take)
{
  const bool root = ::geteuid() == 0 && ::seteuid(65534) == 0; // rules and modules are tried out by root alone
  const std::vector<Check> checks = examine({ .wifi = "nosuch9", .cell = "nosuch8" });
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
  for (const std::string role : { "wifi", "cell" })
  {
    const auto found = std::find_if(checks.begin(), checks.end(),
                                    [&](const Check& check) { return check.name == role + " interface"; });
    ASSERT_NE(found, checks.end()) << role;
    EXPECT_EQ(found->remedy, "connect it, or name another: links." + role + " in the configuration, or tandem up --"
                                 + role + " INTERFACE");
  }
}

} // namespace
} // namespace tandem::daemon
