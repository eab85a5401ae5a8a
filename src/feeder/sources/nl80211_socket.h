// Netlink sockets of the kernel's Wi-Fi stack: questions with their answers, and announcements.
#pragma once

#include <tandem/units.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct nl_msg;
struct nl_sock;

namespace tandem::feeder::nl80211
{

struct CloseSocket
{
  void operator()(nl_sock* socket) const noexcept;
};

class Socket
{
public:
  // Longest wait for an answer. What the kernel does before it answers, the wait for its rtnl lock, counts in addition.
  static constexpr Duration timeout = std::chrono::milliseconds { 500 };

  // For questions. `groups`: for the announcements of these instead ("mlme", "scan", "config"). 0 or a positive errno.
  int open(std::span<const char* const> groups = {});
  void close() { socket_.reset(); }
  explicit operator bool() const { return socket_ != nullptr; }
  int fd() const;
  // What it means that open() or ask() ended with `error`, for people: what failed, why, what to do.
  static std::string explain(const std::string& what, int error);

  using Take = std::function<void(std::span<const std::byte> message)>;
  // Asks, hands each message of the answer to `take` (may be null), and waits for its end. `fill` adds attributes.
  // 0 or a positive errno; ETIMEDOUT when the kernel does not end its answer, then the socket is closed; EAGAIN when
  // what was listed changed meanwhile, then some of it may be missing.
  int ask(std::uint8_t command, bool dump, const std::function<void(nl_msg*)>& fill, const Take& take);
  // The announcements that have come in, at most `most` datagrams; never waits. 0, ENOBUFS when some were lost, or
  // another positive errno.
  int listen(const Take& take, unsigned most = 64);

private:
  std::unique_ptr<nl_sock, CloseSocket> socket_ {};
  int family_ = 0;
  std::vector<std::byte> buffer_ {};
};

} // namespace tandem::feeder::nl80211
