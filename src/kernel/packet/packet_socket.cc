#include "src/kernel/packet/packet_socket.h"

#include "src/kernel/check.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

namespace tandem::kernel
{

Fd open_packet_socket(int room)
{
  Fd socket { static_cast<int>(check("open a packet socket (needs root or CAP_NET_RAW)",
                                     ::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))) };
  const int one = 1;
  check("set PACKET_AUXDATA", setsockopt(socket.get(), SOL_PACKET, PACKET_AUXDATA, &one, sizeof one));
  if (setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) < 0)
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  return socket;
}

void attach_filter(const Fd& socket, BpfProgram program, const std::string& what)
{
  const sock_fprog filter { static_cast<unsigned short>(program.size()), program.data() };
  check(what, setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
}

void bind_packet_socket(const Fd& socket, int ifindex, std::uint16_t protocol, const std::string& interface)
{
  sockaddr_ll where {};
  where.sll_family = AF_PACKET;
  where.sll_protocol = htons(protocol);
  where.sll_ifindex = ifindex;
  check("bind a packet socket to " + interface,
        ::bind(socket.get(), reinterpret_cast<sockaddr*>(&where), sizeof where));
}

} // namespace tandem::kernel
