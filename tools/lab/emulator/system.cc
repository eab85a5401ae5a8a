#include "tools/lab/emulator/system.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

namespace tandem::lab
{

std::string text(const Mac& mac)
{
  char out[18];
  std::snprintf(out, sizeof out, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
  return out;
}

int check(std::string_view what, int result)
{
  if (result < 0) throw std::system_error(errno, std::generic_category(), std::string(what));
  return result;
}

Fd::~Fd()
{
  if (fd_ >= 0) ::close(fd_);
}

namespace
{

// Inside a named network namespace until destroyed.
class Inside
{
public:
  explicit Inside(const std::string& netns)
      : home_(check("open own network namespace", ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)))
  {
    const std::string path = "/var/run/netns/" + netns;
    const Fd target(check("open network namespace " + path + " (create it first: ip netns add " + netns + ")",
                          ::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
    check("enter network namespace " + netns, ::setns(target.get(), CLONE_NEWNET));
  }
  // Staying behind in another namespace would send everything that follows the wrong way: that is worth dying for.
  ~Inside()
  {
    if (::setns(home_.get(), CLONE_NEWNET) != 0) std::terminate();
  }

private:
  Fd home_;
};

} // namespace

Tap::Tap(const std::string& netns, const std::string& name, const Mac& mac)
{
  const std::string label = name + " in " + netns;
  const Inside inside(netns);
  fd_ = Fd(check("open /dev/net/tun (is the tun module there, and are we root?)",
                 ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC)));
  ifreq request {};
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  check("create device " + label, ::ioctl(fd_.get(), TUNSETIFF, &request));

  const Fd socket(check("open a socket", ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(request.ifr_hwaddr.sa_data, mac.data(), mac.size());
  check("set the address of " + label, ::ioctl(socket.get(), SIOCSIFHWADDR, &request));
  request.ifr_mtu = 1500;
  check("set the MTU of " + label, ::ioctl(socket.get(), SIOCSIFMTU, &request));
  check("read the flags of " + label, ::ioctl(socket.get(), SIOCGIFFLAGS, &request));
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  check("bring up " + label, ::ioctl(socket.get(), SIOCSIFFLAGS, &request));
}

int Tap::read(std::span<std::byte> into)
{
  const auto n = ::read(fd_.get(), into.data(), into.size());
  if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
  return static_cast<int>(n);
}

bool Tap::write(std::span<const std::byte> frame)
{
  return ::write(fd_.get(), frame.data(), frame.size()) >= 0;
}

void Tap::set_carrier(bool up)
{
  int value = up ? 1 : 0;
  ::ioctl(fd_.get(), TUNSETCARRIER, &value);
}

namespace
{
std::int64_t read_clock(clockid_t id)
{
  timespec now {};
  ::clock_gettime(id, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}
} // namespace

std::int64_t monotonic_ns()
{
  return read_clock(CLOCK_MONOTONIC);
}
std::int64_t realtime_ns()
{
  return read_clock(CLOCK_REALTIME);
}

std::string become_real_time()
{
  std::string missing;
  if (::mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
    missing += "locked memory (" + std::string(std::strerror(errno)) + ") ";
  ::prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  sched_param priority {};
  priority.sched_priority = 5;
  if (::sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &priority) != 0)
    missing += "real-time priority (" + std::string(std::strerror(errno)) + ") ";
  return missing;
}

} // namespace tandem::lab
