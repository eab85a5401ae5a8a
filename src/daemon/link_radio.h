// What the radio of a further Wi-Fi link says: sources of driver statistics of its own on the packet thread's loop.
// Nothing is probed or foreseen here.
#pragma once

#include "src/feeder/feeder.h"

#include <tandem/link.h>

#include <ev.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::daemon
{

class LinkRadio
{
public:
  // `radio`: as in links.radio. `changed`: radio() may be another one; called from the loop, at most ten times a
  // second.
  LinkRadio(struct ev_loop* loop, std::string interface, std::vector<std::string> radio, std::function<void()> changed);
  ~LinkRadio();
  LinkRadio(const LinkRadio&) = delete;
  LinkRadio& operator=(const LinkRadio&) = delete;

  // Whether anybody wants to know. Off, nothing is open.
  void watch(bool on);
  // The interface is another one than before, or gone (0).
  void link(int ifindex);

  std::optional<RadioState> radio() const { return feeder_ ? feeder_->radio() : std::nullopt; }
  // What the sources know, see docs/control-api.md. Opens them for a while when nobody else wanted them.
  nlohmann::json sources_json();
  // The same without opening anything.
  nlohmann::json known_json() const;

private:
  void look();
  void open();
  void close();
  void set_timer(Tick now);

  struct ev_loop* loop_;
  std::string interface_;
  std::vector<std::string> names_;
  std::function<void()> changed_;
  std::unique_ptr<feeder::Feeder> feeder_ {};
  std::vector<feeder::RadioEvent> heard_ {};
  bool wanted_ = false;
  int ifindex_ = 0;
  Tick asked_until_ {}; // somebody looks at what the sources say
  ev_timer timer_ {};
};

} // namespace tandem::daemon
