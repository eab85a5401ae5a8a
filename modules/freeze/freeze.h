// Blackouts of the Wi-Fi link, after the freeze of Tsao and Sivakumar (CoNEXT 2009) and beyond it: a download goes on
// one round trip after the link is back, whatever the sender's retransmission timer made of the silence.
#pragma once

#include "modules/freeze/combined.h"
#include "modules/freeze/paced_release.h"
#include "modules/freeze/proactive_freeze.h"
#include "modules/freeze/resume_acks.h"
#include "modules/freeze/tcp_lcd.h"
#include "modules/freeze/zero_window.h"

#include <tandem/strategy.h>

namespace tandem::freeze
{

class Freeze final : public StrategyModule<Combined, ResumeAcks, PacedRelease, TcpLcd, ProactiveFreeze, ZeroWindow>
{
public:
  std::string_view name() const override { return "freeze"; }
  std::string_view summary() const override;
  std::string_view manual() const override;
  std::span<const RetiredKnob> retired_knobs() const override;
  Interest interest() const override;
  int priority() const override { return 10; }
};

} // namespace tandem::freeze
