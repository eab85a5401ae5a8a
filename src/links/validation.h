// Whether the Wi-Fi network leads to the Internet, as NetworkManager has found out: behind a captive portal it does not
// until somebody has signed in.
#pragma once

#include <tandem/units.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace tandem::links
{

class BusThread;

// Of one device. NMConnectivityState, libnm-core/nm-dbus-interface.h 1.42; 0: it is not known.
struct Connectivity
{
  unsigned v4 = 0, v6 = 0;
  std::string connection {}; // the object of the connection that is active on it
  bool operator==(const Connectivity&) const = default;
};

// Takes one answer after the other. Pure.
class NetworkValidation
{
public:
  // NetworkManager that is started anew has checked within some seconds.
  static constexpr Duration holds_on = std::chrono::seconds { 15 };

  // Once it has led to the Internet, a lack is no portal until another connection is active: a blackout looks like one
  // to whoever checks.
  void take(const Connectivity& said, Tick now);
  // Why the network is no way to the Internet (yet); empty: it is, or nobody says. What was said holds on for a while
  // after nobody says anything any more.
  std::string why(Tick now) const;
  // It holds on: why() becomes another one without a word.
  bool holds(Tick now) const;

private:
  std::string connection_ {};
  bool validated_ = false;
  std::string why_ {};
  std::optional<Tick> silent_ {}; // since when nobody says anything
};

// Follows one interface (bus.h).
class ValidationWatch
{
public:
  // `told` is called from the thread, whenever why() or holds() is another one, but for the end of the latter.
  ValidationWatch(std::string interface, std::function<void()> told);
  ~ValidationWatch();
  ValidationWatch(const ValidationWatch&) = delete;
  ValidationWatch& operator=(const ValidationWatch&) = delete;

  // As NetworkValidation::why(), now. From any thread.
  std::string why() const;
  bool holds() const;
  // Another interface has the role now; empty: none.
  void follow(const std::string& interface);

private:
  struct Told;
  std::unique_ptr<Told> told_; // outlives the thread
  std::unique_ptr<BusThread> thread_;
};

} // namespace tandem::links
