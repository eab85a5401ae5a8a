// Lists that the kernel gives by netlink, orders to it, and the attributes of their messages (libmnl).
#pragma once

#include <libmnl/libmnl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>

namespace tandem::kernel
{

// One socket for dumps and orders. Each function throws std::system_error with the kernel's words.
class NetlinkDump
{
public:
  using Each = std::function<void(const nlmsghdr*)>;

  explicit NetlinkDump(int protocol);
  // Waits 2 s at most for each part of the answer.
  template <class Request>
  void ask(std::uint16_t type, const Request& request, const Each& each)
  {
    exchange(type, NLM_F_DUMP, std::as_bytes(std::span { &request, 1 }), each);
  }
  // Waits 2 s at most until the kernel has done it.
  template <class Request>
  void order(std::uint16_t type, const Request& request)
  {
    exchange(type, NLM_F_ACK, std::as_bytes(std::span { &request, 1 }), [](const nlmsghdr*) {});
  }

private:
  struct Close
  {
    void operator()(mnl_socket* s) const { mnl_socket_close(s); }
  };

  void exchange(std::uint16_t type, int flags, std::span<const std::byte> request, const Each& each);

  std::unique_ptr<mnl_socket, Close> socket_;
  unsigned asked_ = 0;
  alignas(nlmsghdr) std::array<char, 32768> buffer_ {};
};

// Whether a whole message lies in the next `left` bytes. mnl_nlmsg_ok() alone (libmnl 1.0.4) takes a length of 2^31 and
// more for a negative one, which fits everywhere.
inline bool message_fits(const nlmsghdr* message, int left)
{
  return mnl_nlmsg_ok(message, left) && message->nlmsg_len <= static_cast<std::uint32_t>(left);
}

// By type, up to `last`; nullptr for what is not there. Of types that are unknown nothing is kept.
template <int last>
using NetlinkAttributes = std::array<const nlattr*, last + 1>;

namespace netlink_detail
{
template <int last>
int keep(const nlattr* attribute, void* to)
{
  auto& all = *static_cast<NetlinkAttributes<last>*>(to);
  if (const std::uint16_t type = mnl_attr_get_type(attribute); type < all.size()) all[type] = attribute;
  return MNL_CB_OK;
}
} // namespace netlink_detail

// Those of a message behind its header of `offset` bytes.
template <int last>
NetlinkAttributes<last> attributes_of(const nlmsghdr* message, unsigned offset)
{
  NetlinkAttributes<last> all {};
  mnl_attr_parse(message, offset, netlink_detail::keep<last>, &all);
  return all;
}

template <int last>
NetlinkAttributes<last> attributes_in(const nlattr* nest)
{
  NetlinkAttributes<last> all {};
  if (nest != nullptr) mnl_attr_parse_nested(nest, netlink_detail::keep<last>, &all);
  return all;
}

// Bytes as they are; nothing is copied, and false said, of an attribute of another length.
template <class Value>
bool copy_attribute(const nlattr* attribute, Value* to, std::size_t bytes = sizeof(Value))
{
  if (attribute == nullptr || mnl_attr_get_payload_len(attribute) != bytes) return false;
  std::memcpy(to, mnl_attr_get_payload(attribute), bytes);
  return true;
}

} // namespace tandem::kernel
