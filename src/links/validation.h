// Whether the Wi-Fi network leads to the Internet, as NetworkManager has found out: behind a captive portal it does not
// until somebody has signed in.
#pragma once

#include <functional>
#include <memory>
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
  // Why the network is no way to the Internet (yet); empty: it is, or nobody says. Once it has led there, a lack is no
  // portal until another connection is active: a blackout looks like one to whoever checks.
  std::string take(const Connectivity& now);

private:
  std::string connection_ {};
  bool validated_ = false;
};

// Follows one interface (bus.h).
class ValidationWatch
{
public:
  // `told` is called from the thread, whenever why() is another one.
  ValidationWatch(std::string interface, std::function<void()> told);
  ~ValidationWatch();
  ValidationWatch(const ValidationWatch&) = delete;
  ValidationWatch& operator=(const ValidationWatch&) = delete;

  // As NetworkValidation::take() said. From any thread.
  std::string why() const;
  // Another interface has the role now; empty: none.
  void follow(const std::string& interface);

private:
  struct Told;
  std::unique_ptr<Told> told_; // outlives the thread
  std::unique_ptr<BusThread> thread_;
};

} // namespace tandem::links
