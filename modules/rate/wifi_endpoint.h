// Whether the Wi-Fi address keeps its MPTCP endpoint. Without one the kernel resets the subflow and tells the server
// (REMOVE_ADDR, by cellular), which sends again by cellular at once what was under way by Wi-Fi. With it the stream
// waits for the server's timer: MPTCP delivers in order.
#pragma once

#include <tandem/units.h>

#include <chrono>
#include <optional>

namespace tandem::rate
{

class WifiEndpoint
{
public:
  struct Input
  {
    Tick now {};
    bool up = true;        // the Wi-Fi link
    bool carried = false;  // MPTCP subflows go by it
    bool cellular = false; // is to carry for it
    bool rested = false;   // cellular carries next to nothing yet
  };
  // Whether it is to be away. What cellular carries already comes before what is sent again, and is sent again itself:
  // the kernel repeats all that is not acknowledged yet, by whichever subflow it is on its way. So there the link has
  // to be gone for a while. What was taken away comes back with the link, not before: a join by a link that is down
  // fails, and the kernel tries none again.
  bool look(const Input& input);

private:
  bool away_ = false, rested_ = false; // the latter when the link went
  Tick down_since_ = Tick::max();
  std::optional<Tick> back_at_ {}; // when it last came back
};

} // namespace tandem::rate
