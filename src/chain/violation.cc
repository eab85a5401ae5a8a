#include "src/chain/violation.h"

namespace tandem::chain
{

std::string_view name(Violation violation)
{
  switch (violation)
  {
  case Violation::none:
    return "none";
  case Violation::ack_beyond_received:
    return "ack beyond received";
  case Violation::window_raised:
    return "window raised";
  case Violation::window_unscaled:
    return "window scale unknown";
  case Violation::ts_value_raised:
    return "TSval raised";
  case Violation::ts_value_stale:
    return "TSval stale";
  case Violation::ts_echo_raised:
    return "TSecr raised";
  case Violation::no_timestamps:
    return "no timestamps";
  case Violation::drop_forbidden:
    return "drop forbidden";
  case Violation::ecn_forbidden:
    return "not ECN-capable";
  case Violation::injected_sequence:
    return "injected sequence number";
  case Violation::injected_flags:
    return "injected flags";
  case Violation::injected_sack:
    return "injected SACK blocks";
  case Violation::too_many_injected:
    return "too many injected segments";
  case Violation::authenticated:
    return "MD5 or AO";
  case Violation::route_unusable:
    return "link unusable";
  case Violation::budget:
    return "cellular budget spent";
  case Violation::fetch_range:
    return "fetched what is not missing";
  case Violation::fetch_mptcp:
    return "fetched for MPTCP";
  case Violation::too_many_fetches:
    return "too many fetches";
  case Violation::content_unknown:
    return "content unknown";
  }
  return "?";
}

} // namespace tandem::chain
