// The two Unix sockets of the emulator: control (JSON lines) and frames (a pcap stream). Both never make the air wait.
#pragma once

#include "tools/lab/emulator/system.h"

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::lab
{

// An epoll set whose entries carry a small number instead of a pointer.
class Poll
{
public:
  Poll();
  int fd() const { return fd_.get(); }
  void add(int fd, std::uint32_t id, std::uint32_t events = EPOLLIN);
  void modify(int fd, std::uint32_t id, std::uint32_t events);
  void remove(int fd);
  // Waits until something is ready or `timeout` nanoseconds have passed; negative = no limit.
  std::size_t wait(std::vector<epoll_event>& events, std::int64_t timeout);

private:
  Fd fd_;
};

// Accepts any number of peers on a Unix stream socket. What a peer does not read in time is cut off at `backlog_limit`
// bytes.
class SocketServer
{
public:
  // Ids from `first_id` on are this server's in the poll set. Replaces a socket file that nobody listens on any more.
  SocketServer(Poll& poll, const std::string& path, std::uint32_t first_id, std::size_t backlog_limit);
  ~SocketServer();
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;

  struct Peer
  {
    Fd fd {};
    std::string input;
    std::string output;
    bool subscribed = false;
    bool waiting = false; // for room in the socket
    std::uint64_t lost = 0;
  };

  bool owns(std::uint32_t id) const { return id >= first_id_ && id < first_id_ + id_span; }
  // Handles readiness of `id`: accepts, reads, writes. Calls `on_line` for every complete line, `on_accept` for a new
  // peer.
  void ready(std::uint32_t id, std::uint32_t events, const std::function<void(Peer&, std::string_view)>& on_line,
             const std::function<void(Peer&)>& on_accept);
  // Queues bytes for one peer. False (and counted) when its backlog is full.
  bool send(Peer& peer, std::string_view bytes);
  void flush();

  std::map<std::uint32_t, Peer>& peers() { return peers_; }
  std::uint64_t lost() const { return lost_; }

private:
  static constexpr std::uint32_t id_span = 1u << 24;

  bool flush(std::uint32_t id, Peer& peer);

  Poll& poll_;
  std::string path_;
  std::uint32_t first_id_;
  std::size_t limit_;
  std::uint32_t next_id_;
  Fd listener_;
  std::map<std::uint32_t, Peer> peers_;
  std::uint64_t lost_ = 0;
};

} // namespace tandem::lab
