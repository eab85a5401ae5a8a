#include "src/trace/comment.h"

#include <gtest/gtest.h>

namespace tandem::trace
{
namespace
{

TEST(Comment, Text)
{
  EXPECT_EQ(to_text({ .disposition = Disposition::passed }), "passed");
  EXPECT_EQ(to_text({ .disposition = Disposition::dropped, .why = "offload: thinned" }), "dropped: offload: thinned");
  EXPECT_EQ(to_text({ .disposition = Disposition::edited, .part = Part::before, .why = "mirror: undo" }),
            "edited, before: mirror: undo");
}

TEST(Comment, ReadAgainItIsTheSame)
{
  for (std::size_t disposition = 0; disposition < disposition_count; ++disposition)
    for (const Part part : { Part::whole, Part::before, Part::after })
      for (const char* why : { "", "a", "x: y: z" })
      {
        const Comment comment { static_cast<Disposition>(disposition), part, why };
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
