// Ours: the worse links are used as far as the measured goodput gains by it, left out by MP_PRIO, and marked where the
// sender couples its subflows.
#pragma once

#include "modules/ecn/leaving.h"
#include "modules/ecn/loop.h"
#include "modules/ecn/marking.h"
#include "modules/ecn/strategy.h"

#include <tandem/knob_table.h>

#include <array>
#include <cstddef>

namespace tandem::ecn
{

class ClosedLoop final : public Strategy
{
public:
  struct Knobs
  {
    double most_used = 4; // access points at the same time
  };
  static constexpr std::array<KnobRow<Knobs>, 1> rows { {
      { { .name = "most_used",
          .type = KnobType::integer,
          .minimum = 1,
          .maximum = 8,
          .help = "access points used at the same time (section 6.2.1, figure 6c: not more than 3 or 4)" },
        &Knobs::most_used },
  } };

  explicit ClosedLoop(const Marking& marking) : marking_(marking) {}

  void restart() override
  {
    loop_ = {};
    leaving_ = {};
  }
  void look(const View& view) override;
  Tick treat(const View& view, Treatments& wanted) override;
  std::string_view why(const View& view) const override;
  void describe(Facts& facts) const override;

  Knobs knobs {};

private:
  Look seen(const View& view);
  Tick part_time(Tick now, bool& open) const;

  const Marking& marking_;
  Loop loop_;
  Leaving leaving_;
  bool left_later_ = false; // a link is marked before it is left
  bool marks_ = false;      // the best of the worse links would be marked: there is one more level, without marks
  std::size_t levels_ = 1;
};

} // namespace tandem::ecn
