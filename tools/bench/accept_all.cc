// The least a queue program can do, written against plain libnetfilter_queue: accepts every packet by a verdict of its
// own. The yardstick for what Tandem adds.
#include "src/kernel/check.h"

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace
{

using tandem::kernel::check;

struct Queue
{
  mnl_socket* socket = nullptr;
  std::uint16_t number = 0;

  void send(nlmsghdr* message, const char* what) const
  {
    check(what, mnl_socket_sendto(socket, message, message->nlmsg_len));
  }

  void set_up() const
  {
    alignas(nlmsghdr) std::array<char, 512> buffer {};
    nlmsghdr* message = nfq_nlmsg_put(buffer.data(), NFQNL_MSG_CONFIG, number);
    nfq_nlmsg_cfg_put_cmd(message, AF_UNSPEC, NFQNL_CFG_CMD_BIND);
    send(message, "bind the queue");

    message = nfq_nlmsg_put(buffer.data(), NFQNL_MSG_CONFIG, number);
    nfq_nlmsg_cfg_put_params(message, NFQNL_COPY_PACKET, 0xffff);
    constexpr std::uint32_t flags = NFQA_CFG_F_GSO | NFQA_CFG_F_FAIL_OPEN;
    mnl_attr_put_u32(message, NFQA_CFG_FLAGS, htonl(flags));
    mnl_attr_put_u32(message, NFQA_CFG_MASK, htonl(flags));
    send(message, "set the queue up");
  }
};

int accept(const nlmsghdr* message, void* data)
{
  const auto* queue = static_cast<const Queue*>(data);
  std::array<nlattr*, NFQA_MAX + 1> attributes {};
  if (nfq_nlmsg_parse(message, attributes.data()) < 0 || !attributes[NFQA_PACKET_HDR]) return MNL_CB_ERROR;
  const auto* header = static_cast<const nfqnl_msg_packet_hdr*>(mnl_attr_get_payload(attributes[NFQA_PACKET_HDR]));
  alignas(nlmsghdr) std::array<char, 256> buffer;
  nlmsghdr* verdict = nfq_nlmsg_put(buffer.data(), NFQNL_MSG_VERDICT, queue->number);
  nfq_nlmsg_verdict_put(verdict, static_cast<int>(ntohl(header->packet_id)), NF_ACCEPT);
  queue->send(verdict, "send a verdict");
  return MNL_CB_OK;
}

} // namespace

int main(int argc, char** argv)
{
  Queue queue;
  CLI::App app { "Accepts every packet of a netfilter queue until it is killed.", "tandem-bench-accept-all" };
  app.add_option("--queue", queue.number, "number of the queue")->required();
  CLI11_PARSE(app, argc, argv);
  try
  {
    queue.socket = mnl_socket_open(NETLINK_NETFILTER);
    check("open a netfilter socket", queue.socket ? 0 : -1);
    check("bind a netfilter socket", mnl_socket_bind(queue.socket, 0, MNL_SOCKET_AUTOPID));
    int one = 1;
    mnl_socket_setsockopt(queue.socket, NETLINK_NO_ENOBUFS, &one, sizeof one);
    queue.set_up();
    std::puts("ready");
    std::fflush(stdout);
    std::vector<char> buffer(0xffff + 4096);
    while (true)
    {
      const auto length = check("receive packets", mnl_socket_recvfrom(queue.socket, buffer.data(), buffer.size()));
      check("take packets", mnl_cb_run(buffer.data(), static_cast<std::size_t>(length), 0,
                                       mnl_socket_get_portid(queue.socket), accept, &queue));
    }
  }
  catch (const std::exception& e)
  {
    std::fprintf(stderr, "tandem-bench-accept-all: %s\n", e.what());
    return 1;
  }
}
