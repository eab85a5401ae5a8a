// Ours: R0 as a promise. Wi-Fi first, cellular only for the difference, and in neither link a queue: what waits there
// is what makes a handoff felt. Windows are bounded, never raised: congestion control stays as it is below the bound.
#pragma once

#include "modules/rate/cla.h"

namespace tandem::rate
{

class Promise
{
public:
  struct Config
  {
    ClaParameters parameters {};
    double headroom = 1.2; // of the Wi-Fi window over its bandwidth-delay product: room to find out that there is more
    double spare = 1.03;   // of R0, so that measuring noise does not undercut it
    Duration empty =
        std::chrono::milliseconds { 30 }; // before a handoff nothing goes to Wi-Fi for so long and a round trip
  };
  struct Input
  {
    Tick now {};
    ClaState signals {};               // R1: what Wi-Fi delivered since the last look, R2 likewise
    Duration wifi_rtt {}, cell_rtt {}; // least round-trip times; 0 = not known
    double wifi_mss = 1448, cell_mss = 1448;
    bool connected = true; // Wi-Fi is associated
  };
  struct Output
  {
    double wifi_window = 0, cell_window = 0; // packets; 0 for Wi-Fi: nothing new goes there
    bool hand_off = false;                   // associate with the candidate now: Wi-Fi is empty
  };

  explicit Promise(const Config& config) : config_(config) { check(config.parameters); }
  Output look(const Input& input);

private:
  Config config_;
  double best_ = 0;            // largest R1 of the last looks, decaying
  double cell_ = 0;            // target of R2, bits/s
  Tick leaving_ = Tick::max(); // nothing is sent by Wi-Fi since
};

} // namespace tandem::rate
