// Strategy resume_acks: some ACKs are withheld while all is well and released at link-up. No second interface, no
// prediction.
#pragma once

#include "modules/freeze/blackout_strategy.h"

namespace tandem::freeze
{

class ResumeAcks final : public BlackoutStrategy
{
public:
  static constexpr std::string_view name = "resume_acks";
  static constexpr std::string_view help = "what is withheld is acknowledged at link-up";
  static constexpr std::array rows { bulk_window_row, withheld_share_row, withheld_queue_row, release_after_row,
                                     deadline_row };
  static constexpr std::array test_rows { bulk_bytes_row, resumes_row, undo_row };

protected:
  Plan withhold(const Event& event, const FlowView& flow, BlackoutState& state, bool progress) override;
};

} // namespace tandem::freeze
