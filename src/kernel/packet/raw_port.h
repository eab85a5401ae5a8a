// One TCP port of this host that the kernel leaves to us: it belongs to nobody else, the kernel answers nothing that
// comes for it, and its packets are sent and received whole.
//
// No firewall rule is needed for that, and nothing is left behind by kill -9: a listening socket on the port with a
// filter that refuses every packet. The kernel's TCP finds the listener, its filter drops the segment, and so no RST is
// sent; the port is taken until the socket closes, that is, at the latest with the process. Copies for us are taken by
// a packet socket before netfilter and TCP see them.
#pragma once

#include "src/kernel/fd.h"
#include "src/kernel/marks.h"
#include "src/kernel/packet/injector.h"

#include <tandem/segment.h>
#include <tandem/units.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tandem::kernel
{

// The address that this host would use as source on `interface`: the first global one of the IP version; nothing when
// there is none.
std::optional<Address> global_address(const std::string& interface, bool v6);
// Bytes of an IP packet that `interface` carries; 0 when it does not exist.
std::size_t packet_limit(const std::string& interface) noexcept;

struct RawArrival
{
  std::span<const std::byte> bytes {}; // from the IP header on; longer than the MTU when the kernel merged segments
  bool checksum_verified = false;      // by the device or the kernel; otherwise the caller must
};

class RawPort
{
public:
  // Takes a free port of `local` for a conversation with remote:remote_port by `interface`. Throws std::system_error
  // when the interface or address is not there, no port is free, or without CAP_NET_RAW and CAP_NET_ADMIN.
  RawPort(const std::string& interface, const Marks& marks, const Address& local, const Address& remote,
          std::uint16_t remote_port);
  RawPort(const RawPort&) = delete;
  RawPort& operator=(const RawPort&) = delete;

  const FlowKey& key() const { return key_; }
  int fd() const { return packets_.get(); } // readable when something has come

  // A whole IP packet with valid checksums. Never blocks. 0 or an errno.
  int send(std::span<const std::byte> packet) noexcept { return injector_.send(packet, Link::cell); }

  // Calls `sink` as void(const RawArrival&) for what has come, at most `limit` times. Returns the number, or -1 when
  // the interface is gone or down.
  template <class Sink>
  int receive(Sink&& sink, int limit = 64)
  {
    int count = 0;
    while (count < limit)
    {
      const std::optional<RawArrival> arrival = next();
      if (!arrival) break;
      ++count;
      if (!arrival->bytes.empty()) sink(*arrival);
    }
    return gone_ ? -1 : count;
  }

private:
  std::optional<RawArrival> next() noexcept;

  FlowKey key_ {};
  Fd listener_ {};
  Fd packets_ {};
  Injector injector_;
  std::vector<std::byte> buffer_ {};
  bool gone_ = false;
};

} // namespace tandem::kernel
