#include "tools/tandem/budget_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::cli
{
namespace
{

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

json period(double used, json limit)
{
  const json left = limit.is_null() ? json {} : json(limit.get<double>() - used);
  return {
    { "used_bytes", used }, { "limit_bytes", limit }, { "left_bytes", left }, { "by", { { "offload", used } } }
  };
}

TEST(Budget, ShowsWhatIsUsedAndLeft)
{
  json budget { { "today", period(2e6, 10e6) },
                { "month", period(20e6, 50e6) },
                { "since_start", period(1e6, {}) },
                { "left_bytes", 8e6 },
                { "kept", true } };
  const std::string text = show_budget(budget, {});
  EXPECT_THAT(text, HasSubstr("today"));
  EXPECT_THAT(text, HasSubstr("  8 MB"));
  EXPECT_THAT(text, HasSubstr("30 MB"));
  EXPECT_THAT(text, HasSubstr("offload"));
  EXPECT_THAT(text, Not(HasSubstr("spent")));
  budget["left_bytes"] = 0;
  budget["kept"] = false;
  EXPECT_THAT(show_budget(budget, {}), HasSubstr("the budget is spent"));
  EXPECT_THAT(show_budget(budget, {}), HasSubstr("forgotten at the end"));
  EXPECT_THAT(show_budget(json::object(), {}), HasSubstr("?"));
}

} // namespace
} // namespace tandem::cli
