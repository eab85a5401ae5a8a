// Which Wi-Fi network the Wi-Fi link is in, or was in last. Pure: the driver and the radio's sources are asked
// elsewhere.
#pragma once

#include <optional>
#include <string>

namespace tandem::daemon
{

// A link that is down is where it was: flows of that network are still there, and modules act for them in a blackout.
// Another interface is elsewhere.
class CurrentNetwork
{
public:
  // What is told at this moment; empty: nothing. A driver that has told a name once is believed alone.
  void told(int ifindex, const std::optional<std::string>& by_driver, const std::string& by_sources)
  {
    if (ifindex != ifindex_) *this = {};
    ifindex_ = ifindex;
    by_driver_ = by_driver_ || by_driver;
    if (by_driver)
      name_ = *by_driver;
    else if (!by_driver_ && !by_sources.empty())
      name_ = by_sources;
  }

  const std::string& name() const { return name_; } // the SSID, any bytes; empty: nobody has told one
  bool by_driver() const { return by_driver_; }

private:
  int ifindex_ = 0;
  std::string name_ {};
  bool by_driver_ = false;
};

} // namespace tandem::daemon
