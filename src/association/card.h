// The Wi-Fi card by nl80211: what it hears, where it is associated, and the interfaces that Tandem adds to it.
#pragma once

#include "src/association/choice.h"
#include "src/feeder/sources/nl80211_socket.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tandem::association
{

class Card
{
public:
  struct View
  {
    std::uint32_t ifindex = 0;
    std::uint32_t wiphy = 0;
    Mac mac {};
    std::optional<Mac> ap {}; // that the interface is associated with
    std::set<Mac> links {};   // all addresses of this association that are heard: one, or one a link (802.11be)
    std::vector<Heard> heard {};
    std::uint32_t stations = 1; // at so many access points can this card be at a time
    std::uint32_t channels = 1; // and on so many channels then
    // The same where it is on two channels or more; 0: it cannot.
    std::uint32_t stations_apart = 0;
    std::uint32_t channels_apart = 0;
  };
  // What the interface's card is and hears. Nothing: problem() says why.
  std::optional<View> look(const std::string& interface);
  const std::string& problem() const { return problem_; }

  struct Association
  {
    Mac ap {};
    std::optional<float> signal {};
  };
  std::optional<Association> association(const std::string& interface);

  // Names of the virtual stations that are there, by whichever run.
  std::vector<std::string> made();
  // A virtual station beside the interface, with a hardware address of its own. Empty when it worked; else the reason.
  std::string make(const View& beside, unsigned number);
  // Nothing happens when it is not there, or is no station. Where it cannot be removed make() tries again.
  void remove(const std::string& name) { static_cast<void>(take_away(name)); }

private:
  bool open();
  int take_away(const std::string& name);                                    // 0 or an errno
  int ask_station(std::uint32_t ifindex, std::optional<Association>& found); // 0 or an errno
  int ask(std::uint8_t command, bool dump, std::uint32_t ifindex, const feeder::nl80211::Socket::Take& take);

  feeder::nl80211::Socket socket_ {};
  std::string problem_ {};
  std::map<std::string, std::uint32_t> left_ {}; // stations that could not be removed, and their interfaces' numbers
};

} // namespace tandem::association
