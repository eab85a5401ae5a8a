#include "src/kernel/packet/queue_message.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/if_ether.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>

#include <cstring>

namespace tandem::kernel
{

namespace
{

bool read_u32(const nlattr* attribute, std::uint32_t& out)
{
  std::uint32_t raw;
  if (mnl_attr_get_payload_len(attribute) < sizeof raw) return false;
  std::memcpy(&raw, mnl_attr_get_payload(attribute), sizeof raw);
  out = ntohl(raw);
  return true;
}

} // namespace

bool parse(nlmsghdr& message, QueueMessage& out) noexcept
{
  if (message.nlmsg_len < MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(nfgenmsg))) return false;
  bool has_header = false;
  std::uint32_t number = 0;
  // Not mnl_nlmsg_get_payload_tail(), which rounds the length up.
  const auto* end = reinterpret_cast<const char*>(&message) + message.nlmsg_len;
  for (auto* attribute = static_cast<nlattr*>(mnl_nlmsg_get_payload_offset(&message, sizeof(nfgenmsg)));
       mnl_attr_ok(attribute, static_cast<int>(end - reinterpret_cast<const char*>(attribute)));
       attribute = mnl_attr_next(attribute))
  {
    switch (mnl_attr_get_type(attribute))
    {
    case NFQA_PACKET_HDR:
    {
      if (mnl_attr_get_payload_len(attribute) < sizeof(nfqnl_msg_packet_hdr)) break;
      nfqnl_msg_packet_hdr header;
      std::memcpy(&header, mnl_attr_get_payload(attribute), sizeof header);
      out.packet.id = ntohl(header.packet_id);
      out.packet.hook = static_cast<Hook>(header.hook);
      out.packet.ip_version = ntohs(header.hw_protocol) == ETH_P_IPV6 ? 6 : 4;
      has_header = true;
      break;
    }
    case NFQA_MARK:
      read_u32(attribute, out.packet.mark);
      break;
    case NFQA_IFINDEX_INDEV:
      if (read_u32(attribute, number)) out.packet.in_ifindex = static_cast<int>(number);
      break;
    case NFQA_IFINDEX_OUTDEV:
      if (read_u32(attribute, number)) out.packet.out_ifindex = static_cast<int>(number);
      break;
    case NFQA_SKB_INFO:
      if (!read_u32(attribute, number)) break;
      out.packet.gso = number & NFQA_SKB_GSO;
      out.packet.checksum_not_ready = number & NFQA_SKB_CSUMNOTREADY;
      break;
    case NFQA_CAP_LEN: // only present when the packet was cut
      if (read_u32(attribute, out.packet.original_length)) out.packet.cut = true;
      break;
    case NFQA_PAYLOAD:
      out.packet.bytes = { static_cast<std::byte*>(mnl_attr_get_payload(attribute)),
                           mnl_attr_get_payload_len(attribute) };
      break;
    default:
      break;
    }
  }
  if (!out.packet.cut) out.packet.original_length = static_cast<std::uint32_t>(out.packet.bytes.size());
  if (!out.packet.bytes.empty())
  {
    unsigned version = std::to_integer<unsigned>(out.packet.bytes.front()) >> 4;
    out.readable = version == out.packet.ip_version;
  }
  return has_header;
}

} // namespace tandem::kernel
