// Strategy paced_release: what is withheld is released part by part over the second interface while the link is gone,
// with a closed window, each before the sender's timer fires.
#pragma once

#include "modules/freeze/by_cellular.h"

namespace tandem::freeze
{

class PacedRelease final : public ByCellular
{
public:
  static constexpr std::string_view name = "paced_release";
  static constexpr std::string_view help = "what is withheld is released a part at a time by cellular";
  static constexpr std::array rows { bulk_window_row,   withheld_share_row, withheld_queue_row,
                                     release_after_row, validate_path_row,  deadline_row };
  static constexpr std::array test_rows { bulk_bytes_row, resumes_row, undo_row, release_parts_row };

  struct State : ByCellular::State
  {
    // Model of the sender's RFC 6298 timer while it is fed.
    float srtt = 0;            // s
    float rttvar = 0;          // s
    std::uint8_t released = 0; // parts, in this blackout
  };

protected:
  Plan withhold(const Event& event, const FlowView& flow, BlackoutState& state, bool progress) override;
  Plan link_lost(const Event& event, const FlowView& flow, BlackoutState& state, const Plan& plan) override;
  Plan while_lost(const Event& event, const FlowView& flow, BlackoutState& state, const Plan& plan) override;
  Plan send_by_cellular(const Event& event, const FlowView& flow, BlackoutState& state, const Plan& plan) override;
};

} // namespace tandem::freeze
