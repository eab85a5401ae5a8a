#include "tools/lab/emulator/sockets.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace tandem::lab
{

Poll::Poll() : fd_(check("create an epoll set", ::epoll_create1(EPOLL_CLOEXEC))) {}

void Poll::add(int fd, std::uint32_t id, std::uint32_t events)
{
  epoll_event event {};
  event.events = events;
  event.data.u32 = id;
  check("watch a file descriptor", ::epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event));
}

void Poll::modify(int fd, std::uint32_t id, std::uint32_t events)
{
  epoll_event event {};
  event.events = events;
  event.data.u32 = id;
  ::epoll_ctl(fd_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Poll::remove(int fd)
{
  ::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

std::size_t Poll::wait(std::vector<epoll_event>& events, std::int64_t timeout)
{
  timespec limit {};
  limit.tv_sec = timeout / 1'000'000'000;
  limit.tv_nsec = timeout % 1'000'000'000;
  const int n = ::epoll_pwait2(fd_.get(), events.data(), static_cast<int>(events.size()),
                               timeout < 0 ? nullptr : &limit, nullptr);
  if (n < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "wait for packets");
  return n < 0 ? 0 : static_cast<std::size_t>(n);
}

SocketServer::SocketServer(Poll& poll, const std::string& path, std::uint32_t first_id, std::size_t backlog_limit)
    : poll_(poll), path_(path), first_id_(first_id), limit_(backlog_limit), next_id_(first_id + 1)
{
  sockaddr_un address {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw std::system_error(ENAMETOOLONG, std::generic_category(),
                            "socket path " + path + " (choose a shorter --state directory)");
  std::strcpy(address.sun_path, path.c_str());
  ::unlink(path.c_str());
  listener_ = Fd(check("open a Unix socket", ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
  check("bind " + path, ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address));
  check("listen on " + path, ::listen(listener_.get(), 16));
  poll_.add(listener_.get(), first_id_);
}

SocketServer::~SocketServer()
{
  ::unlink(path_.c_str());
}

void SocketServer::ready(std::uint32_t id, std::uint32_t events,
                         const std::function<void(Peer&, std::string_view)>& on_line,
                         const std::function<void(Peer&)>& on_accept)
{
  if (id == first_id_)
  {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    const std::uint32_t peer_id = next_id_++;
    Peer& peer = peers_[peer_id];
    peer.fd = Fd(fd);
    poll_.add(fd, peer_id);
    on_accept(peer);
    if (!flush(peer_id, peer)) peers_.erase(peer_id);
    return;
  }
  const auto it = peers_.find(id);
  if (it == peers_.end()) return;
  Peer& peer = it->second;
  bool alive = (events & (EPOLLERR | EPOLLHUP)) == 0 || (events & EPOLLIN) != 0;
  if (alive && (events & EPOLLIN) != 0)
  {
    char chunk[4096];
    const auto n = ::recv(peer.fd.get(), chunk, sizeof chunk, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
      alive = false;
    else if (n > 0)
    {
      peer.input.append(chunk, static_cast<std::size_t>(n));
      for (auto end = peer.input.find('\n'); end != std::string::npos; end = peer.input.find('\n'))
      {
        const std::string line = peer.input.substr(0, end);
        peer.input.erase(0, end + 1);
        if (!line.empty()) on_line(peer, line);
      }
      // No command is that long.
      if (peer.input.size() > 65536) alive = false;
    }
  }
  alive = alive && flush(id, peer);
  if (!alive) peers_.erase(it); // closing the descriptor takes it out of the poll set
}

bool SocketServer::send(Peer& peer, std::string_view bytes)
{
  if (peer.output.size() + bytes.size() > limit_)
  {
    ++peer.lost;
    ++lost_;
    return false;
  }
  peer.output.append(bytes);
  return true;
}

bool SocketServer::flush(std::uint32_t id, Peer& peer)
{
  while (!peer.output.empty())
  {
    const auto n = ::send(peer.fd.get(), peer.output.data(), peer.output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
    {
      if (errno != EAGAIN && errno != EINTR) return false;
      if (!peer.waiting) poll_.modify(peer.fd.get(), id, EPOLLIN | EPOLLOUT);
      peer.waiting = true;
      return true;
    }
    peer.output.erase(0, static_cast<std::size_t>(n));
  }
  if (peer.waiting) poll_.modify(peer.fd.get(), id, EPOLLIN);
  peer.waiting = false;
  return true;
}

void SocketServer::flush()
{
  for (auto it = peers_.begin(); it != peers_.end();)
    if (it->second.output.empty() || it->second.waiting || flush(it->first, it->second))
      ++it;
    else
      it = peers_.erase(it);
}

} // namespace tandem::lab
