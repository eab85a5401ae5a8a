#include "src/association/card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::association
{
namespace
{

// Without a Wi-Fi driver, or of an interface that is none: words that say so, not those of a socket that was not
// opened.
TEST(Card, says_why_there_is_nothing_to_see)
{
  Card card {};
  EXPECT_FALSE(card.look("lo"));
  EXPECT_THAT(card.problem(),
              testing::AnyOf(testing::HasSubstr("no nl80211"), testing::HasSubstr("no Wi-Fi interface")));
}

} // namespace
} // namespace tandem::association
