// A rule plan as the text that nft and iptables-restore load.
#include "src/kernel/packet/bpf.h"
#include "src/kernel/rules/render_text.h"
#include "src/kernel/rules/rules.h"

#include <tandem/classify.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <utility>

namespace tandem::kernel::render
{

namespace
{

std::string hex(std::uint32_t n)
{
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", n);
  return text;
}

// TCP header lengths in words, those of ACKs in bulk transfers first: timestamps; plain; timestamps with SACK blocks.
constexpr std::array<int, 11> header_words { 8, 5, 11, 13, 15, 10, 6, 7, 9, 12, 14 };
constexpr int longest_empty = 40 + 4 * 15; // bytes of an IPv6 packet without payload

// "syn", "(fin | rst)"
std::string flag_names(std::uint16_t flags)
{
  constexpr std::array<std::pair<std::uint16_t, const char*>, 4> names {
    { { tcp_flag::fin, "fin" }, { tcp_flag::syn, "syn" }, { tcp_flag::rst, "rst" }, { tcp_flag::ack, "ack" } }
  };
  std::string text;
  for (const auto& [bit, name] : names)
    if ((flags & bit) != 0) text += (text.empty() ? "" : " | ") + std::string { name };
  return text.find('|') == std::string::npos ? text : "(" + text + ")";
}

std::string bits_set(const char* what, const MarkBits& bits)
{
  return std::string { what } + " mark & " + hex(bits.mask) + " == " + hex(bits.value);
}

class NftChains
{
public:
  explicit NftChains(const RulePlan& plan) : plan_ { plan } {}

  std::string text()
  {
    if (plan_.traffic == 0) return {};
    if (plan_.traffic & traffic::egress) egress();
    if (plan_.traffic & traffic::ingress) ingress();
    if (plan_.release_by_connmark) release();
    return out_.str();
  }

private:
  void chain(const std::string& name) { out_ << "  chain " << name << " {\n"; }
  void rule(const std::string& text) { out_ << "    " << text << "\n"; }
  void end() { out_ << "  }\n"; }
  std::string leaving() const
  {
    return "\"" + plan_.wifi + "\"" + (plan_.cell.empty() ? "" : ", \"" + plan_.cell + "\"");
  }
  std::string queue() const { return "queue flags bypass to " + std::to_string(plan_.queue); }

  void egress()
  {
    chain("output");
    rule("type route hook output priority mangle; policy accept;");
    if (plan_.wifi_addresses.empty())
      rule("oifname \"" + plan_.wifi + "\" meta l4proto tcp goto egress");
    else
      for (bool v6 : { false, true })
        if (auto own = of_version(plan_.wifi_addresses, v6); !own.empty())
          rule("oifname { " + leaving() + " } meta l4proto tcp " + (v6 ? "ip6" : "ip") + " saddr { " + join(own)
               + " } goto egress");
    end();
    direction("egress", "saddr", "daddr", Direction::egress);
  }

  void ingress()
  {
    chain("prerouting");
    rule("type filter hook prerouting priority mangle; policy accept;");
    const std::string arriving = "iifname \"" + plan_.wifi + "\" meta l4proto tcp ";
    if (plan_.wifi_addresses.empty())
      rule(arriving + "fib daddr type local goto ingress"); // not what is forwarded to a container or a tethered device
    else
      for (bool v6 : { false, true })
        if (auto own = of_version(plan_.wifi_addresses, v6); !own.empty())
          rule(arriving + (v6 ? "ip6" : "ip") + " daddr { " + join(own) + " } goto ingress");
    end();
    direction("ingress", "daddr", "saddr", Direction::ingress);
  }

  // The rows of the table for one direction, with payload or without. Neighbours with the same end are one rule, and
  // what follows the last `queue` needs none.
  void kinds(const std::string& name, Direction way, bool payload)
  {
    struct Row
    {
      std::uint16_t flags;
      bool set;
      bool queued;
    };
    std::vector<Row> rows;
    for (const KindRule& rule : kind_rules)
    {
      if (!rule.concerns(way, payload)) continue;
      const bool queued = (plan_.traffic & rule.kind & ~traffic::handshake) != 0;
      if (!rows.empty() && rule.set && rows.back().set && rows.back().queued == queued)
        rows.back().flags |= rule.flags;
      else
        rows.push_back({ rule.flags, rule.set, queued });
    }
    while (!rows.empty() && !rows.back().queued)
      rows.pop_back();
    chain(name);
    for (const Row& row : rows)
      rule((row.flags == 0 ? "" : "tcp flags & " + flag_names(row.flags) + (row.set ? " != 0 " : " == 0 "))
           + (row.queued ? queue() : "return"));
    end();
  }

  void direction(const std::string& name, const std::string& local, const std::string& remote, Direction way)
  {
    // Declared first: a chain must be known before it is jumped to.
    kinds(name + "_empty", way, false);
    kinds(name + "_payload", way, true);

    chain(name);
    rule(bits_set("meta", plan_.marks.injected) + " return");
    if (way == Direction::egress && plan_.placed_mask != 0)
      rule("meta mark & " + hex(plan_.placed_mask) + " != 0 return");
    rule("ip frag-off & 0x3fff != 0 return");
    rule("ip hdrlength != 5 return");
    rule("meta nfproto ipv6 ip6 nexthdr != tcp return");
    for (bool v6 : { false, true })
    {
      const std::string version = v6 ? "ip6 " : "ip ";
      if (auto list = of_version(plan_.exempt_local, v6); !list.empty())
        rule(version + local + " { " + join(list) + " } return");
      if (auto list = of_version(plan_.exempt_remote, v6); !list.empty())
        rule(version + remote + " { " + join(list) + " } return");
    }
    if (!plan_.exempt_ports.empty())
      for (const char* port : { "sport", "dport" })
        rule(std::string { "tcp " } + port + " { " + join(plan_.exempt_ports) + " } return");
    if (way == Direction::egress && !plan_.exempt_users.empty())
      rule("meta skuid { " + join(plan_.exempt_users) + " } return");
    if (plan_.release_by_connmark) rule(bits_set("ct", plan_.marks.release) + " return");
    // Exact, and cheap for data. A set of header and packet lengths would be one rule, but nft 1.0.6 stops with an
    // assertion when it lists a set over fields that are not whole bytes.
    rule("meta length > " + std::to_string(longest_empty) + " goto " + name + "_payload");
    for (int words : header_words)
      for (bool v6 : { false, true })
        rule("tcp doff " + std::to_string(words) + (v6 ? " ip6" : " ip") + " length "
             + std::to_string(4 * words + (v6 ? 0 : 20)) + " goto " + name + "_empty");
    rule("goto " + name + "_payload");
    end();
  }

  void release()
  {
    // The verdict's mark is seen by the hooks behind the queue only.
    const MarkBits& bit = plan_.marks.release;
    const std::string remember =
        bits_set("meta", bit) + " ct mark set ct mark and " + hex(~bit.mask) + " or " + hex(bit.value);
    chain("postrouting");
    rule("type filter hook postrouting priority mangle; policy accept;");
    rule(remember);
    end();
    if (!(plan_.traffic & traffic::ingress)) return;
    chain("input");
    rule("type filter hook input priority mangle; policy accept;");
    rule(remember);
    end();
  }

  const RulePlan& plan_;
  std::ostringstream out_ {};
};

} // namespace

std::string nftables(const RulePlan& plan, bool owner)
{
  const std::string flags = owner ? "  flags owner\n" : "";
  // Rules are replaced, chains stay: deleting a base chain makes the kernel drop every packet that waits in a queue.
  // All is one transaction; the table is made first so that flushing it succeeds whether it was there or not.
  return "table inet tandem {\n" + flags + "}\nflush table inet tandem\n" + "table inet tandem {\n" + flags
         + NftChains { plan }.text() + "}\n";
}

Present present(const std::string& saved)
{
  Present found;
  std::istringstream lines { saved };
  for (std::string line; std::getline(lines, line);)
  {
    if (line.rfind(":TANDEM-", 0) == 0)
      found.chains.push_back(line.substr(1, line.find(' ') - 1));
    else if (line.rfind("-A ", 0) == 0 && line.rfind("-A TANDEM-", 0) != 0
             && (line.find(" -j TANDEM-") != std::string::npos || line.find(" -g TANDEM-") != std::string::npos))
      found.jumps.push_back(line.substr(3));
  }
  return found;
}

namespace
{

// One direction's chain: what is spared, then one exact match and the queue.
void iptables_direction(std::ostream& out, const RulePlan& plan, bool egress, bool v6)
{
  const std::string chain = egress ? "TANDEM-EGRESS" : "TANDEM-INGRESS";
  const std::string add = "-A " + chain + " ";
  auto bits = [](const MarkBits& b) { return hex(b.value) + "/" + hex(b.mask); };
  out << add << "-m mark --mark " << bits(plan.marks.injected) << " -j RETURN\n";
  if (egress && plan.placed_mask != 0) out << add << "-m mark ! --mark 0x0/" << hex(plan.placed_mask) << " -j RETURN\n";
  for (const auto& cidr : of_version(plan.exempt_local, v6))
    out << add << (egress ? "-s " : "-d ") << cidr << " -j RETURN\n";
  for (const auto& cidr : of_version(plan.exempt_remote, v6))
    out << add << (egress ? "-d " : "-s ") << cidr << " -j RETURN\n";
  for (std::uint16_t port : plan.exempt_ports)
    out << add << "-p tcp -m multiport --ports " << port << " -j RETURN\n";
  if (egress)
    for (std::uint32_t user : plan.exempt_users)
      out << add << "-m owner --uid-owner " << user << " -j RETURN\n";
  if (plan.release_by_connmark) out << add << "-m connmark --mark " << bits(plan.marks.release) << " -j RETURN\n";
  out << add << "-p tcp -m bpf --bytecode \"" << bytecode(traffic_filter(plan.traffic, egress, v6))
      << "\" -j NFQUEUE --queue-num " << plan.queue << " --queue-bypass\n";
}

} // namespace

std::string iptables(const RulePlan& plan, bool v6, const Present& before)
{
  const bool egress = (plan.traffic & traffic::egress) != 0, ingress = (plan.traffic & traffic::ingress) != 0;
  const bool release = plan.traffic != 0 && plan.release_by_connmark;
  std::vector<std::string> wanted;
  if (egress) wanted.insert(wanted.end(), { "TANDEM-OUT", "TANDEM-EGRESS" });
  if (ingress) wanted.insert(wanted.end(), { "TANDEM-IN", "TANDEM-INGRESS" });
  if (release) wanted.emplace_back("TANDEM-KEEP");

  std::ostringstream out;
  out << "*mangle\n";
  for (const auto& chain : wanted)
    out << ":" << chain << " - [0:0]\n"; // creates it, or empties it
  for (const auto& jump : before.jumps)
    out << "-D " << jump << "\n";
  std::vector<std::string> stale;
  for (const auto& chain : before.chains)
    if (std::find(wanted.begin(), wanted.end(), chain) == wanted.end()) stale.push_back(chain);
  for (const auto& chain : stale)
    out << "-F " << chain << "\n";
  for (const auto& chain : stale)
    out << "-X " << chain << "\n";

  const auto own = of_version(plan.wifi_addresses, v6);
  if (egress)
  {
    iptables_direction(out, plan, true, v6);
    if (plan.wifi_addresses.empty()) out << "-A TANDEM-OUT -o " << plan.wifi << " -g TANDEM-EGRESS\n";
    for (const auto& address : own)
      for (const std::string& by : { plan.wifi, plan.cell })
        if (!by.empty()) out << "-A TANDEM-OUT -o " << by << " -s " << address << " -g TANDEM-EGRESS\n";
    out << "-A OUTPUT -p tcp -j TANDEM-OUT\n";
  }
  if (ingress)
  {
    iptables_direction(out, plan, false, v6);
    // Not what is forwarded to a container or a tethered device.
    if (plan.wifi_addresses.empty())
      out << "-A TANDEM-IN -i " << plan.wifi << " -m addrtype --dst-type LOCAL -g TANDEM-INGRESS\n";
    for (const auto& address : own)
      out << "-A TANDEM-IN -i " << plan.wifi << " -d " << address << " -g TANDEM-INGRESS\n";
    out << "-A PREROUTING -p tcp -j TANDEM-IN\n";
  }
  if (release)
  {
    // The verdict's mark is seen by the hooks behind the queue only.
    const std::string bit = hex(plan.marks.release.value) + "/" + hex(plan.marks.release.mask);
    out << "-A TANDEM-KEEP -m mark --mark " << bit << " -j CONNMARK --set-xmark " << bit << "\n";
    out << "-A POSTROUTING -p tcp -j TANDEM-KEEP\n";
    if (ingress) out << "-A INPUT -p tcp -j TANDEM-KEEP\n";
  }
  out << "COMMIT\n";
  return out.str();
}

bool holds(const std::string& saved, const RulePlan& plan, bool v6)
{
  // The tools print rules in words of their own: they are counted.
  const auto rules = [](const std::string& text)
  {
    std::istringstream lines { text };
    int count = 0;
    for (std::string line; std::getline(lines, line);)
      count += line.rfind("-A ", 0) == 0 && line.find("TANDEM-") != std::string::npos ? 1 : 0;
    return count;
  };
  return rules(saved) == rules(iptables(plan, v6));
}

} // namespace tandem::kernel::render
