#include "src/kernel/packet/local_input.h"

#include "src/kernel/check.h"
#include "src/kernel/netlink_dump.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace tandem::kernel
{

LocalInput::LocalInput(const Marks& marks) : sockets_ { marks.injected.value } {}

int LocalInput::send(std::span<const std::byte> packet) noexcept
{
  return sockets_.send(packet);
}

SocketQuery::SocketQuery()
    : socket_ { static_cast<int>(
        check("open a socket-diagnosis socket", ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG))) }
{
  // The kernel answers within the call; this is for a kernel that does not.
  const timeval timeout { .tv_sec = 0, .tv_usec = 100'000 };
  check("set a receive timeout", setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout));
}

std::string_view SocketQuery::refuse(const FlowKey& key, int ifindex) noexcept
{
  constexpr std::string_view unknown = "the kernel does not say whether the socket is there";
  constexpr std::uint8_t established = TCP_ESTABLISHED;
  alignas(nlmsghdr) std::array<char, MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(inet_diag_req_v2))> question {};
  nlmsghdr* header = mnl_nlmsg_put_header(question.data());
  header->nlmsg_type = SOCK_DIAG_BY_FAMILY;
  header->nlmsg_flags = NLM_F_REQUEST;
  header->nlmsg_seq = ++sequence_;
  auto* request = static_cast<inet_diag_req_v2*>(mnl_nlmsg_put_extra_header(header, sizeof(inet_diag_req_v2)));
  request->sdiag_family = key.local.v6 ? AF_INET6 : AF_INET;
  request->sdiag_protocol = IPPROTO_TCP;
  request->idiag_states = ~0u;
  request->id.idiag_sport = htons(key.local_port);
  request->id.idiag_dport = htons(key.remote_port);
  std::memcpy(request->id.idiag_src, key.local.bytes.data(), key.local.v6 ? 16 : 4);
  std::memcpy(request->id.idiag_dst, key.remote.bytes.data(), key.remote.v6 ? 16 : 4);
  request->id.idiag_if = static_cast<std::uint32_t>(ifindex); // found: bound to it, or to none
  request->id.idiag_cookie[0] = request->id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (::send(socket_.get(), question.data(), header->nlmsg_len, 0) < 0) return unknown;

  alignas(nlmsghdr) std::array<char, 4096> answer {};
  for (int tries = 0; tries < 4; ++tries)
  {
    const ssize_t length = ::recv(socket_.get(), answer.data(), answer.size(), 0);
    if (length < 0 && errno == EINTR) continue;
    if (length < static_cast<ssize_t>(sizeof(nlmsghdr))) return unknown;
    const auto* reply = reinterpret_cast<const nlmsghdr*>(answer.data());
    if (!message_fits(reply, static_cast<int>(length)) || reply->nlmsg_seq != sequence_) continue; // of an earlier one
    if (reply->nlmsg_type == NLMSG_ERROR) return "the socket is gone, or bound to another device";
    if (reply->nlmsg_type != SOCK_DIAG_BY_FAMILY || mnl_nlmsg_get_payload_len(reply) < sizeof(inet_diag_msg))
      return unknown;
    const auto* found = static_cast<const inet_diag_msg*>(mnl_nlmsg_get_payload(reply));
    // A lookup falls back to who listens on the port.
    if (found->id.idiag_dport != htons(key.remote_port)) return "the socket is gone, or bound to another device";
    return found->idiag_state == established ? std::string_view {} : std::string_view { "the socket is closing" };
  }
  return unknown;
}

} // namespace tandem::kernel
