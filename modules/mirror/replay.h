// Strategy replay, as published in 2009 (Tsao and Sivakumar, CoNEXT): missing bytes are taken from a mirror connection
// over the cellular link that replays the request, everything else acknowledged unread.
#pragma once

#include "modules/mirror/refetch.h"

namespace tandem::mirror
{

class Replay final : public Refetch
{
public:
  static constexpr std::string_view name = "replay";
  static constexpr std::string_view help = "likewise, as published in 2009, from a connection that replays the request";
  Replay() : Refetch { FetchHow::replay } {}
};

} // namespace tandem::mirror
