// Strategy range: missing bytes are fetched by a Range request of their own.
#pragma once

#include "modules/mirror/refetch.h"

namespace tandem::mirror
{

class Range final : public Refetch
{
public:
  static constexpr std::string_view name = "range";
  static constexpr std::string_view help =
      "plaintext HTTP also gets the missing bytes by the cellular link, by a Range request";
  Range() : Refetch { FetchHow::range } {}
};

} // namespace tandem::mirror
