#include "src/trace/comment.h"

#include <algorithm>
#include <array>

namespace tandem::trace
{
namespace
{

constexpr std::array<std::string_view, 3> part_words { "", ", before", ", after" };

}

std::string to_text(const Comment& comment)
{
  std::string text { name(comment.disposition) };
  text += part_words[static_cast<std::size_t>(comment.part)];
  if (!comment.why.empty()) text += ": " + comment.why;
  return text;
}

std::optional<Comment> from_text(std::string_view text)
{
  const std::size_t colon = text.find(": ");
  const std::string_view head = text.substr(0, colon);
  for (std::size_t disposition = 0; disposition < disposition_count; ++disposition)
  {
    const auto candidate = static_cast<Disposition>(disposition);
    if (!head.starts_with(name(candidate))) continue;
    const auto part = std::find(part_words.begin(), part_words.end(), head.substr(name(candidate).size()));
    if (part == part_words.end()) continue;
    Comment comment { .disposition = candidate, .part = static_cast<Part>(part - part_words.begin()) };
    if (colon != std::string_view::npos) comment.why = text.substr(colon + 2);
    return comment;
  }
  return {};
}

} // namespace tandem::trace
