// Validates, while all is well, that what is sent by the second interface reaches the server: in a blackout it is too
// late (docs/decisions/0003).
#pragma once

#include <tandem/module.h>
#include <tandem/path_validation.h>

#include <cstdint>

namespace tandem::freeze
{

class CellularPath
{
public:
  // An ACK that leaves by Wi-Fi. `clear`: no blackout is on or foretold; `wanted`: the path is of use to this flow. May
  // change the plan; `scratch` is where an injected copy lives.
  void acknowledged(const Event& event, const FlowView& flow, bool clear, bool wanted, InjectedSegment& scratch,
                    Plan& plan);
  // An observed copy of what arrives: the echo.
  Plan arrived(const Event& event, const FlowView& flow);
  // When an echo of the copies is overdue; Tick::max() while none is waited for. Then it is given up, whether or not an
  // ACK is at hand.
  Tick due(const FlowView& flow) const;
  void overdue(const Event& event, const FlowView& flow, Plan& plan);
  // The link is gone.
  void stop() { running_ = false; }

  bool validated() const { return validated_at_ != Tick {}; }
  bool fresh(Tick now) const;

private:
  void consider(const Event& event, const FlowView& flow, bool wanted, Plan& plan);
  bool spoiled(const Event& event, const FlowView& flow, Plan& plan);
  void end(Tick next, std::string_view why, Plan& plan);

  bool running_ = false;
  std::uint8_t failures_ = 0; // in a row
  std::uint8_t still_ = 0;    // ACKs in a row with the same window
  std::uint16_t window_ = 0;  // of the last ACK, unscaled
  PathValidation path_ {};
  Seq data_edge_ {};  // snd_nxt when the validation began
  Tick wanted_at_ {}; // since when
  Tick next_ {};      // not before
  Tick validated_at_ {};
};

} // namespace tandem::freeze
