// A server whose TCP is lwIP's, on a TUN device: GET /NAME answers with a file of a directory.
//
//   tandem-lwip-server DEVICE ADDRESS DIRECTORY
//
// It makes the device in the present network namespace and says "ready" once it listens on port 80. What it sends
// leaves by that device. Debian's build of lwIP: no SACK, no timestamps, 64 KiB of send buffer, RFC 5681 with NewReno.
// Declared without C linkage there.
extern "C"
{
#include <lwipopts.h>
}
#include <fcntl.h>
#include <linux/if_tun.h>
#include <lwip/api.h>
#include <lwip/netif.h>
#include <lwip/pbuf.h>
#include <lwip/tcpip.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

namespace
{

constexpr u16_t mtu = 1500;
constexpr u16_t port = 80;

[[noreturn]] void fail(const std::string& what)
{
  std::perror(("tandem-lwip-server: " + what).c_str());
  std::exit(1);
}

int open_device(const std::string& name)
{
  const int fd = open("/dev/net/tun", O_RDWR);
  ifreq request {};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0) fail(name);
  return fd;
}

err_t leave(netif* device, pbuf* packet, const ip4_addr_t*)
{
  std::array<char, mtu> bytes {};
  const u16_t length = pbuf_copy_partial(packet, bytes.data(), mtu, 0);
  // What the device has no room for is lost, as on any other.
  return write(*static_cast<int*>(device->state), bytes.data(), length) == length ? ERR_OK : ERR_BUF;
}

err_t begin(netif* device)
{
  device->name[0] = 't';
  device->name[1] = 'n';
  device->mtu = mtu;
  device->output = leave;
  return ERR_OK;
}

void take_in(netif& device, int fd)
{
  std::array<char, mtu> bytes {};
  for (;;)
  {
    const ssize_t length = read(fd, bytes.data(), bytes.size());
    if (length <= 0) continue;
    pbuf* packet = pbuf_alloc(PBUF_RAW, static_cast<u16_t>(length), PBUF_POOL);
    if (packet == nullptr) continue;
    pbuf_take(packet, bytes.data(), static_cast<u16_t>(length));
    if (device.input(packet, &device) != ERR_OK) pbuf_free(packet);
  }
}

// The request up to its empty line; shorter when the client went away.
std::string request_of(netconn* connection)
{
  std::string request;
  netbuf* part = nullptr;
  while (request.find("\r\n\r\n") == std::string::npos && netconn_recv(connection, &part) == ERR_OK)
  {
    do
    {
      void* bytes = nullptr;
      u16_t length = 0;
      netbuf_data(part, &bytes, &length);
      request.append(static_cast<const char*>(bytes), length);
    } while (netbuf_next(part) >= 0);
    netbuf_delete(part);
  }
  return request;
}

bool send(netconn* connection, const char* bytes, std::size_t length)
{
  return netconn_write(connection, bytes, length, NETCONN_COPY) == ERR_OK;
}

void serve(netconn* connection, const std::string& directory)
{
  const std::string request = request_of(connection);
  const std::size_t begin = request.find('/') + 1;
  const std::string name = request.substr(begin, request.find(' ', begin) - begin);
  const auto close_file = [](std::FILE* file) { std::fclose(file); };
  std::unique_ptr<std::FILE, decltype(close_file)> file { nullptr, close_file };
  if (request.rfind("GET /", 0) == 0 && name.find('/') == std::string::npos)
    file.reset(std::fopen((directory + '/' + name).c_str(), "rb"));
  std::string head = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  if (file)
  {
    std::fseek(file.get(), 0, SEEK_END);
    head = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(std::ftell(file.get()))
           + "\r\nConnection: close\r\n\r\n";
    std::rewind(file.get());
  }
  bool going = send(connection, head.data(), head.size());
  std::array<char, 16384> bytes {};
  while (going && file)
  {
    const std::size_t length = std::fread(bytes.data(), 1, bytes.size(), file.get());
    if (length == 0) break;
    going = send(connection, bytes.data(), length);
  }
  netconn_close(connection);
  netconn_delete(connection);
}

} // namespace

int main(int argc, char** argv)
{
  ip4_addr_t address {};
  if (argc != 4 || ip4addr_aton(argv[2], &address) == 0)
  {
    std::fputs("usage: tandem-lwip-server DEVICE ADDRESS DIRECTORY\n", stderr);
    return 2;
  }
  int fd = open_device(argv[1]);
  tcpip_init(nullptr, nullptr);
  static netif device {};
  // Everybody is a neighbour on this device.
  ip4_addr_t everybody {};
  LOCK_TCPIP_CORE();
  netif_add(&device, &address, &everybody, &everybody, &fd, begin, tcpip_input);
  netif_set_default(&device);
  netif_set_up(&device);
  netif_set_link_up(&device);
  UNLOCK_TCPIP_CORE();
  netconn* listener = netconn_new(NETCONN_TCP);
  if (listener == nullptr || netconn_bind(listener, IP_ADDR_ANY, port) != ERR_OK || netconn_listen(listener) != ERR_OK)
  {
    std::fputs("tandem-lwip-server: cannot listen\n", stderr);
    return 1;
  }
  std::thread { take_in, std::ref(device), fd }.detach();
  std::puts("ready");
  std::fflush(stdout);
  for (netconn* connection = nullptr; netconn_accept(listener, &connection) == ERR_OK;)
    std::thread { serve, connection, std::string { argv[3] } }.detach();
}
