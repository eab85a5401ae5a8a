#include "src/links/read_rules.h"

#include "src/kernel/check.h"
#include "src/kernel/fd.h"

#include <libmnl/libmnl.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace tandem::links
{

namespace
{

RuleEntry::Action action_of(std::uint8_t action)
{
  switch (action)
  {
  case FR_ACT_TO_TBL:
    return RuleEntry::Action::lookup;
  case FR_ACT_GOTO:
    return RuleEntry::Action::go_to;
  case FR_ACT_BLACKHOLE:
  case FR_ACT_UNREACHABLE:
  case FR_ACT_PROHIBIT:
    return RuleEntry::Action::refuse;
  default:
    return RuleEntry::Action::nothing;
  }
}

void take_attribute(const nlattr& attribute, unsigned from_length, unsigned to_length, RuleEntry& rule)
{
  const auto number = [&] { return mnl_attr_get_payload_len(&attribute) >= 4 ? mnl_attr_get_u32(&attribute) : 0; };
  const auto network = [&](unsigned length)
  {
    Address address { .v6 = rule.v6 };
    std::memcpy(address.bytes.data(), mnl_attr_get_payload(&attribute),
                std::min<std::size_t>(mnl_attr_get_payload_len(&attribute), address.bytes.size()));
    return network_of(address, length);
  };
  switch (mnl_attr_get_type(&attribute))
  {
  case FRA_PRIORITY:
    rule.priority = number();
    break;
  case FRA_TABLE:
    rule.table = number();
    break;
  case FRA_GOTO:
    rule.target = number();
    break;
  case FRA_FWMARK:
    rule.mark = number();
    break;
  case FRA_FWMASK:
    rule.mask = number();
    break;
  case FRA_SUPPRESS_PREFIXLEN:
    if (const std::uint32_t length = number(); length != UINT32_MAX) rule.suppress_below = length;
    break;
  case FRA_SRC:
    rule.from = network(from_length);
    break;
  case FRA_DST:
    rule.to = network(to_length);
    break;
  case FRA_IIFNAME:
    // What this host makes itself comes from lo.
    rule.elsewhere = rule.elsewhere || std::strcmp(mnl_attr_get_str(&attribute), "lo") != 0;
    break;
  case FRA_OIFNAME:
    rule.elsewhere = true;
    break;
  case FRA_L3MDEV:
    rule.elsewhere = rule.elsewhere || mnl_attr_get_u8(&attribute) != 0;
    break;
  case FRA_UID_RANGE:
  {
    fib_rule_uid_range range {};
    if (mnl_attr_get_payload_len(&attribute) >= sizeof range)
      std::memcpy(&range, mnl_attr_get_payload(&attribute), sizeof range);
    rule.some = rule.some || range.start != 0 || range.end != UINT32_MAX;
    break;
  }
  case FRA_IP_PROTO:
  case FRA_SPORT_RANGE:
  case FRA_DPORT_RANGE:
    rule.some = true;
    break;
  default:
    // Whatever newer kernels choose packets by, as the DSCP since 6.13 (FRA_DSCP).
    rule.some = rule.some || mnl_attr_get_type(&attribute) > FRA_DPORT_RANGE;
    break;
  }
}

// False when it is no rule.
bool take(const nlmsghdr& message, std::vector<RuleEntry>& all)
{
  if (message.nlmsg_type != RTM_NEWRULE || mnl_nlmsg_get_payload_len(&message) < sizeof(fib_rule_hdr)) return false;
  const auto& head = *static_cast<const fib_rule_hdr*>(mnl_nlmsg_get_payload(&message));
  RuleEntry rule { .v6 = head.family == AF_INET6,
                   .action = action_of(head.action),
                   .table = head.table,
                   .invert = (head.flags & FIB_RULE_INVERT) != 0,
                   .some = head.tos != 0 };
  auto taker = [&](const nlattr& attribute) { take_attribute(attribute, head.src_len, head.dst_len, rule); };
  const auto each = [](const nlattr* attribute, void* call)
  {
    (*static_cast<decltype(taker)*>(call))(*attribute);
    return MNL_CB_OK;
  };
  mnl_attr_parse(&message, sizeof head, each, &taker);
  all.push_back(rule);
  return true;
}

} // namespace

std::vector<RuleEntry> read_rules()
{
  const kernel::Fd socket { static_cast<int>(
      kernel::check("open a routing socket", ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE))) };
  std::vector<RuleEntry> all {};
  alignas(nlmsghdr) std::array<char, 32768> buffer {};
  for (const std::uint8_t family : { std::uint8_t { AF_INET }, std::uint8_t { AF_INET6 } })
  {
    nlmsghdr* request = mnl_nlmsg_put_header(buffer.data());
    request->nlmsg_type = RTM_GETRULE;
    request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    static_cast<fib_rule_hdr*>(mnl_nlmsg_put_extra_header(request, sizeof(fib_rule_hdr)))->family = family;
    kernel::check("ask for the ip rules", ::send(socket.get(), request, request->nlmsg_len, 0));
    for (bool more = true; more;)
    {
      int length =
          static_cast<int>(kernel::check("read the ip rules", ::recv(socket.get(), buffer.data(), buffer.size(), 0)));
      const auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data());
      for (; more && mnl_nlmsg_ok(message, length); message = mnl_nlmsg_next(message, &length))
        // An error is a kernel without this version.
        more = message->nlmsg_type != NLMSG_DONE && message->nlmsg_type != NLMSG_ERROR && take(*message, all);
    }
  }
  return all;
}

} // namespace tandem::links
