#include "src/trace/comment.h"

#include <gtest/gtest.h>

namespace tandem::trace
{
namespace
{

TEST(Comment, Text)
{
  EXPECT_EQ(to_text({ .fate = Fate::passed }), "passed");
  EXPECT_EQ(to_text({ .fate = Fate::dropped, .why = "offload: thinned" }), "dropped: offload: thinned");
  EXPECT_EQ(to_text({ .fate = Fate::edited, .part = Part::before, .why = "mirror: undo" }),
            "edited, before: mirror: undo");
}

TEST(Comment, ReadAgainItIsTheSame)
{
  for (std::size_t fate = 0; fate < fate_count; ++fate)
    for (const Part part : { Part::whole, Part::before, Part::after })
      for (const char* why : { "", "a", "x: y: z" })
      {
        const Comment comment { static_cast<Fate>(fate), part, why };
        EXPECT_EQ(from_text(to_text(comment)), comment) << to_text(comment);
      }
}

TEST(Comment, OthersAreNotOurs)
{
  EXPECT_FALSE(from_text(""));
  EXPECT_FALSE(from_text("passe"));
  EXPECT_FALSE(from_text("edited, between: x"));
  EXPECT_FALSE(from_text("a note by hand: look here"));
}

} // namespace
} // namespace tandem::trace
