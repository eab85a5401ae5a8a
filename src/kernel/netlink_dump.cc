#include "src/kernel/netlink_dump.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <system_error>

namespace tandem::kernel
{

namespace
{

[[noreturn]] void failed()
{
  throw std::system_error { errno, std::generic_category() };
}

int one_message(const nlmsghdr* message, void* each)
{
  (*static_cast<const NetlinkDump::Each*>(each))(message);
  return MNL_CB_OK;
}

} // namespace

NetlinkDump::NetlinkDump(int protocol) : socket_ { mnl_socket_open2(protocol, SOCK_CLOEXEC) }
{
  if (!socket_ || mnl_socket_bind(socket_.get(), 0, MNL_SOCKET_AUTOPID) < 0) failed();
  const timeval patience { 2, 0 };
  setsockopt(mnl_socket_get_fd(socket_.get()), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

void NetlinkDump::exchange(std::uint16_t type, int flags, std::span<const std::byte> request, const Each& each)
{
  nlmsghdr* head = mnl_nlmsg_put_header(buffer_.data());
  head->nlmsg_type = type;
  head->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  head->nlmsg_seq = ++asked_;
  std::memcpy(mnl_nlmsg_put_extra_header(head, request.size()), request.data(), request.size());
  if (mnl_socket_sendto(socket_.get(), head, head->nlmsg_len) < 0) failed();
  for (int more = MNL_CB_OK; more > MNL_CB_STOP;)
  {
    const ssize_t length = mnl_socket_recvfrom(socket_.get(), buffer_.data(), buffer_.size());
    if (length >= 0)
      more = mnl_cb_run(buffer_.data(), static_cast<std::size_t>(length), asked_, mnl_socket_get_portid(socket_.get()),
                        one_message, const_cast<Each*>(&each));
    if (length < 0 || more < 0) failed();
  }
}

} // namespace tandem::kernel
