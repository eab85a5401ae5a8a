// Strategy kick: some ACKs are withheld while all is well and said at link-up. No second interface, no prediction.
#pragma once

#include "modules/freeze/blackout_strategy.h"

namespace tandem::freeze
{

class ResumeAcks final : public BlackoutStrategy
{
public:
  static constexpr std::string_view name = "kick";
  static constexpr std::string_view help = "what is held back is said at link-up";
  static constexpr std::array rows { bulk_window_row, reserve_share_row, reserve_queue_row, release_after_row,
                                     deadline_row };
  static constexpr std::array test_rows { bulk_bytes_row, kicks_row, undo_row };

protected:
  Plan withhold(const Event& event, const FlowView& flow, BlackoutState& state, bool progress) override;
};

} // namespace tandem::freeze
