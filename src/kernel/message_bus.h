// sdbus-c++ as both of its generations have it, by the same names: 1 (Debian 12, Ubuntu 24.04) and 2 (Debian 13). Where
// they differ is here alone.
#pragma once

#include <sdbus-c++/sdbus-c++.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tandem::kernel::message_bus
{

#if __has_include(<sdbus-c++/VTableItems.h>) // of 2 alone; sdbus-c++ has no macro with its version

// What a call that failed hands to its callback; false: it has not failed.
using CallError = std::optional<sdbus::Error>;

inline std::unique_ptr<sdbus::IProxy> proxy_of(sdbus::IConnection& connection, const std::string& name,
                                               const std::string& path)
{
  return sdbus::createProxy(connection, sdbus::ServiceName { name }, sdbus::ObjectPath { path });
}

inline sdbus::Slot add_match(sdbus::IConnection& connection, const std::string& rule,
                             std::function<void(sdbus::Message&)> handler)
{
  return connection.addMatch(
      rule, [handler = std::move(handler)](sdbus::Message message) { handler(message); }, sdbus::return_slot);
}

// One message or time that is over; false: there was none.
inline bool process(sdbus::IConnection& connection)
{
  return connection.processPendingEvent();
}

// Since the epoch of CLOCK_MONOTONIC.
inline std::chrono::microseconds timeout_of(const sdbus::IConnection::PollData& data)
{
  return data.timeout;
}

#else

using CallError = const sdbus::Error*;

inline std::unique_ptr<sdbus::IProxy> proxy_of(sdbus::IConnection& connection, const std::string& name,
                                               const std::string& path)
{
  return sdbus::createProxy(connection, name, path);
}

inline sdbus::Slot add_match(sdbus::IConnection& connection, const std::string& rule,
                             std::function<void(sdbus::Message&)> handler)
{
  return connection.addMatch(rule, std::move(handler));
}

inline bool process(sdbus::IConnection& connection)
{
  return connection.processPendingRequest();
}

inline std::chrono::microseconds timeout_of(const sdbus::IConnection::PollData& data)
{
  return data.timeout_usec > INT64_MAX ? std::chrono::microseconds::max()
                                       : std::chrono::microseconds { static_cast<std::int64_t>(data.timeout_usec) };
}

#endif

// The clock of CLOCK_MONOTONIC when calls that wait for an answer are late; nothing: none waits.
inline std::optional<std::chrono::microseconds> due(const sdbus::IConnection::PollData& data)
{
  const auto timeout = timeout_of(data);
  // "None" is UINT64_MAX, which 2 casts to a signed number of its own.
  if (timeout.count() < 0 || timeout == std::chrono::microseconds::max()) return {};
  return timeout;
}

// Empty where the message has none: 2 hands out a null pointer then.
template <class Text>
std::string text_of(const Text& told)
{
  if constexpr (std::is_pointer_v<Text>)
    return told ? std::string { told } : std::string {};
  else
    return told;
}

} // namespace tandem::kernel::message_bus
