#include "src/daemon/doctor.h"

#include <gtest/gtest.h>

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

} // namespace
} // namespace tandem::daemon
