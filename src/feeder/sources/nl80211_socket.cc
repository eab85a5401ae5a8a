#include "src/feeder/sources/nl80211_socket.h"

#include "src/kernel/clock.h"

#include <linux/nl80211.h>
#include <netlink/errno.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tandem::feeder::nl80211
{

namespace
{

constexpr std::size_t datagram = 65536; // the kernel's dumps use half of it at most
constexpr int kept = 256 * 1024;        // bytes of announcements that may wait

int positive(int libnl_error)
{
  switch (-libnl_error)
  {
  case NLE_OBJ_NOTFOUND:
    return ENOENT;
  case NLE_PERM:
    return EPERM;
  case NLE_NOMEM:
    return ENOMEM;
  default:
    return EIO;
  }
}

struct FreeMessage
{
  void operator()(nl_msg* message) const noexcept { nlmsg_free(message); }
};

// One datagram from the kernel. Its length, 0 when it was somebody else's, or a negative errno.
ssize_t receive(int fd, std::span<std::byte> buffer)
{
  sockaddr_nl from {};
  socklen_t length = sizeof from;
  const ssize_t count = ::recvfrom(fd, buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC,
                                   reinterpret_cast<sockaddr*>(&from), &length);
  if (count < 0) return -errno;
  if (from.nl_pid != 0 || static_cast<std::size_t>(count) > buffer.size()) return 0;
  return count;
}

template <typename F>
void each(std::span<const std::byte> bytes, const F& act)
{
  while (bytes.size() >= sizeof(nlmsghdr))
  {
    const auto* head = reinterpret_cast<const nlmsghdr*>(bytes.data());
    if (head->nlmsg_len < sizeof *head || head->nlmsg_len > bytes.size()) return;
    act(*head, bytes.first(head->nlmsg_len));
    bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), NLMSG_ALIGN(head->nlmsg_len)));
  }
}

} // namespace

void CloseSocket::operator()(nl_sock* socket) const noexcept
{
  nl_socket_free(socket);
}

int Socket::fd() const
{
  return socket_ ? nl_socket_get_fd(socket_.get()) : -1;
}

std::string Socket::explain(const std::string& what, int error)
{
  std::string text = what + ": ";
  switch (error)
  {
  case ENOENT:
    return text + "this kernel has no nl80211, so no Wi-Fi driver of its own stack is loaded; is there a Wi-Fi card?";
  case EPERM:
  case EACCES:
    return text + "not permitted; the capability NET_ADMIN is needed";
  case ENODEV:
    return text + "no such interface, or it is no Wi-Fi interface; see `iw dev`";
  case EOPNOTSUPP:
    return text + "the driver cannot do this";
  case ENFILE:
    return text + "all of the driver's interfaces of this kind are in use; see `iw dev`";
  case ETIMEDOUT:
    return text + "the kernel has not answered; trying again";
  default:
    return text + std::strerror(error);
  }
}

int Socket::open(std::span<const char* const> groups)
{
  close();
  std::unique_ptr<nl_sock, CloseSocket> socket { nl_socket_alloc() };
  if (!socket) return ENOMEM;
  if (const int rc = genl_connect(socket.get()); rc < 0) return positive(rc);
  family_ = genl_ctrl_resolve(socket.get(), NL80211_GENL_NAME);
  if (family_ < 0) return positive(family_);
  for (const char* group : groups)
  {
    const int number = genl_ctrl_resolve_grp(socket.get(), NL80211_GENL_NAME, group);
    const int rc = number < 0 ? number : nl_socket_add_membership(socket.get(), number);
    if (rc < 0) return positive(rc);
  }
  if (!groups.empty()) nl_socket_set_buffer_size(socket.get(), kept, 0);
  nl_socket_set_nonblocking(socket.get());
  buffer_.resize(datagram);
  socket_ = std::move(socket);
  return 0;
}

int Socket::ask(std::uint8_t command, bool dump, const std::function<void(nl_msg*)>& fill, const Take& take)
{
  if (!socket_) return ENOTCONN;
  const std::unique_ptr<nl_msg, FreeMessage> question { nlmsg_alloc() };
  if (!question) return ENOMEM;
  genlmsg_put(question.get(), NL_AUTO_PORT, NL_AUTO_SEQ, family_, 0, dump ? NLM_F_DUMP : NLM_F_ACK, command, 0);
  if (fill) fill(question.get());
  if (const int rc = nl_send_auto(socket_.get(), question.get()); rc < 0) return positive(rc);
  const std::uint32_t number = nlmsg_hdr(question.get())->nlmsg_seq;

  const Tick until = kernel::now() + timeout;
  int error = 0;
  bool ended = false, changed = false;
  const auto consider = [&](const nlmsghdr& head, std::span<const std::byte> bytes)
  {
    if (head.nlmsg_seq != number || ended) return;
    changed = changed || (head.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    if (head.nlmsg_type == NLMSG_ERROR || head.nlmsg_type == NLMSG_DONE)
    {
      ended = true;
      std::int32_t code = 0; // both carry it first
      if (bytes.size() >= sizeof head + sizeof code) std::memcpy(&code, bytes.data() + sizeof head, sizeof code);
      error = code < 0 ? -code : 0;
    }
    else if (take && head.nlmsg_type == family_)
      take(bytes);
  };
  while (!ended)
  {
    const ssize_t count = receive(fd(), buffer_);
    if (count > 0) each(std::span<const std::byte> { buffer_ }.first(static_cast<std::size_t>(count)), consider);
    if (count < 0 && count != -EAGAIN && count != -EINTR)
    {
      close(); // the rest of the answer would come into the next one
      return static_cast<int>(-count);
    }
    if (ended || count >= 0) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - kernel::now()).count();
    pollfd readable { fd(), POLLIN, 0 };
    if (left <= 0 || ::poll(&readable, 1, static_cast<int>(left)) == 0)
    {
      close();
      return ETIMEDOUT;
    }
  }
  return error == 0 && changed ? EAGAIN : error;
}

int Socket::listen(const Take& take, unsigned most)
{
  if (!socket_) return ENOTCONN;
  for (unsigned i = 0; i < most; ++i)
  {
    const ssize_t count = receive(fd(), buffer_);
    if (count == -EINTR) continue;
    if (count == -EAGAIN) return 0;
    if (count < 0) return static_cast<int>(-count);
    each(std::span<const std::byte> { buffer_ }.first(static_cast<std::size_t>(count)),
         [&](const nlmsghdr& head, std::span<const std::byte> bytes)
         {
           if (head.nlmsg_type == family_) take(bytes);
         });
  }
  return 0;
}

} // namespace tandem::feeder::nl80211
