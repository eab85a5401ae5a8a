#include "src/kernel/keeper/ruleset_watch.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace tandem::kernel
{

RulesetWatch::RulesetWatch()
    : socket_ { ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER) }
{
  const int group = NFNLGRP_NFTABLES;
  sockaddr_nl here {};
  here.nl_family = AF_NETLINK;
  if (!socket_ || ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0
      || ::setsockopt(socket_.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0)
    socket_.reset();
}

bool RulesetWatch::take() noexcept
{
  bool heard = false;
  std::array<char, 16384> scrap;
  // ENOBUFS: more than the socket holds, which is news as well.
  while (socket_ && (::recv(socket_.get(), scrap.data(), scrap.size(), MSG_DONTWAIT) > 0 || errno == ENOBUFS))
    heard = true;
  return heard;
}

} // namespace tandem::kernel
