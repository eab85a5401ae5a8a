// Placement as the text that nft loads.
#include "src/kernel/rules/placement_rules.h"
#include "src/kernel/rules/render_text.h"

#include <cstdio>
#include <set>
#include <sstream>
#include <utility>

namespace tandem::kernel::render
{

namespace
{

std::string hex8(std::uint32_t n)
{
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", n);
  return text;
}

constexpr unsigned site_memory_minutes = 60;
constexpr std::size_t most_sites = 16384;

// One IP version of `tandem_place`.
class Version
{
public:
  Version(const PlacementPlan& plan, bool v6)
      : plan_ { plan }, v6_ { v6 }, turns_ { v6 ? plan.turns_v6 : plan.turns_v4 }, digit_ { v6 ? "6" : "4" }
  {
  }

  bool any() const { return !turns_.empty(); }

  // In this order: a chain must be known before it is gone to.
  std::string text()
  {
    if (plan_.by_site) sites();
    chain("spread");
    rule(in_turns("take_"));
    end();
    if (plan_.by_site) by_site();
    choose();
    return out_.str();
  }

private:
  void chain(const std::string& name) { out_ << "  chain " << name << digit_ << " {\n"; }
  void rule(const std::string& text) { out_ << "    " << text << "\n"; }
  void end() { out_ << "  }\n"; }
  std::string ip() const { return v6_ ? "ip6" : "ip"; }
  std::string sites_map() const { return "@sites" + digit_; }
  std::string site() const
  {
    static_assert(site_prefix_v4 == 24 && site_prefix_v6 == 48);
    return v6_ ? "ip6 daddr & ffff:ffff:ffff::" : "ip daddr & 255.255.255.0";
  }
  std::set<std::uint32_t> values() const { return { turns_.begin(), turns_.end() }; }

  // "numgen inc mod 3 vmap { 0 : goto take_1, .. }": the next connection takes the next turn, so that even few are
  // shared out as they should be.
  std::string in_turns(const std::string& chain) const
  {
    std::string ways;
    for (std::size_t i = 0; i < turns_.size(); ++i)
      ways += (i > 0 ? ", " : "") + std::to_string(i) + " : goto " + chain + std::to_string(turns_[i]);
    return "numgen inc mod " + std::to_string(turns_.size()) + " vmap { " + ways + " }";
  }

  void sites()
  {
    out_ << "  map sites" << digit_ << " {\n    type " << (v6_ ? "ipv6_addr" : "ipv4_addr")
         << " : mark; flags dynamic, timeout; timeout " << site_memory_minutes << "m; size " << most_sites
         << ";\n  }\n";
  }

  void by_site()
  {
    std::string known;
    for (const std::uint32_t value : values())
    {
      known += (known.empty() ? "" : ", ") + hex8(plan_.on_wire(value)) + " : goto take_" + std::to_string(value);
      out_ << "  chain settle" << digit_ << "_" << value << " {\n";
      rule("add " + sites_map() + " { " + site() + " : " + hex8(plan_.on_wire(value)) + " }");
      rule("goto take_" + std::to_string(value));
      end();
    }
    chain("new_site");
    rule(in_turns("settle" + digit_ + "_"));
    end();
    // A lookup that finds nothing ends its rule. A site whose link gets no new connections now is settled anew.
    chain("by_site");
    rule("meta mark set " + site() + " map " + sites_map());
    rule("meta mark 0 goto new_site" + digit_);
    rule("update " + sites_map() + " { " + site() + " : meta mark }");
    rule("meta mark vmap { " + known + " }");
    rule("delete " + sites_map() + " { " + site() + " : 0 }");
    rule("goto new_site" + digit_);
    end();
  }

  void choose()
  {
    chain("choose");
    if (const auto never = of_version(plan_.never_to, v6_); !never.empty())
      rule(ip() + " daddr { " + join(never) + " } goto stay");
    if (const std::uint32_t value = v6_ ? plan_.short_v6 : plan_.short_v4; value != 0 && !plan_.short_ports.empty())
      rule("tcp dport { " + join(plan_.short_ports) + " } goto take_" + std::to_string(value));
    if (plan_.by_site)
    {
      if (const auto spread = of_version(plan_.spread_to, v6_); !spread.empty())
        rule(ip() + " daddr { " + join(spread) + " } goto spread" + digit_);
      if (!plan_.spread_ports.empty()) rule("tcp dport { " + join(plan_.spread_ports) + " } goto spread" + digit_);
    }
    rule("goto " + std::string { plan_.by_site ? "by_site" : "spread" } + digit_);
    end();
  }

  const PlacementPlan& plan_;
  bool v6_;
  const std::vector<std::uint32_t>& turns_;
  std::string digit_;
  std::ostringstream out_ {};
};

std::string mark_set(const PlacementPlan& plan, const std::string& what, std::uint32_t value)
{
  return what + " mark set " + what + " mark & " + hex8(~plan.mark.mask) + " | " + hex8(plan.on_wire(value));
}

// Everything that may be gone to: a link, or staying at home.
void takes(std::ostream& out, const PlacementPlan& plan)
{
  std::set<std::uint32_t> values { placed_at_home };
  for (const auto* all : { &plan.turns_v4, &plan.turns_v6 })
    values.insert(all->begin(), all->end());
  for (const std::uint32_t one : { plan.short_v4, plan.short_v6 })
    if (one != 0) values.insert(one);
  for (const std::uint32_t value : values)
    out << "  counter begun_" << value << " {\n  }\n";
  for (const std::uint32_t value : values)
    out << "  chain take_" << value << " {\n    counter name \"begun_" << value << "\"\n    meta mark set 0\n    "
        << mark_set(plan, "ct", value) << "\n  }\n";
  // A SYN that is sent again must not be thought over: the connection has its source address by then.
  out << "  chain stay {\n    " << mark_set(plan, "ct", placed_at_home) << "\n  }\n";
}

// The table is made first so that flushing it succeeds whether it was there or not. Maps and counters keep what they
// hold.
std::string begin_table(const std::string& name, bool owner)
{
  const std::string head = "table inet " + name + " {\n" + (owner ? "  flags owner\n" : "");
  return head + "}\nflush table inet " + name + "\n" + head;
}

} // namespace

std::string place_nftables(const PlacementPlan& plan, bool owner)
{
  std::ostringstream out;
  out << begin_table("tandem_place", owner);
  takes(out, plan);
  std::string versions;
  for (const bool v6 : { false, true })
    if (Version one { plan, v6 }; one.any())
    {
      out << one.text();
      versions += (versions.empty() ? "" : ", ") + std::string { v6 ? "ipv6 : goto choose6" : "ipv4 : goto choose4" };
    }
  out << "  chain candidate {\n";
  // With another source address the policy would no longer match, and leave in clear what it is to encrypt.
  out << "    rt ipsec exists goto stay\n";
  // Its subflows are made by the kernel's path manager, each from the address that it says.
  out << "    tcp option mptcp exists goto stay\n";
  if (!plan.never_ports.empty()) out << "    tcp dport { " << join(plan.never_ports) << " } goto stay\n";
  if (!plan.never_users.empty()) out << "    meta skuid { " << join(plan.never_users) << " } goto stay\n";
  if (!versions.empty()) out << "    meta nfproto vmap { " << versions << " }\n";
  out << "  }\n";
  // Behind connection tracking (-200). A packet with somebody's mark has a way of its own already.
  out << "  chain output {\n    type filter hook output priority mangle - 20; policy accept;\n";
  for (const bool v6 : { false, true })
    if (const auto own = of_version(plan.home_addresses, v6); !own.empty())
      out << "    oifname \"" << plan.home << "\" meta mark 0 tcp flags & (fin | syn | rst | ack) == syn ct mark & "
          << hex8(plan.mark.mask) << " == 0 " << (v6 ? "ip6" : "ip") << " saddr { " << join(own)
          << " } goto candidate\n";
  out << "  }\n}\n";
  return out.str();
}

std::string placed_nftables(const PlacementPlan& plan)
{
  std::ostringstream out;
  out << begin_table("tandem_placed", false);
  std::string out_ways, in_ways;
  for (const PlacementLink& link : plan.links)
  {
    const std::string number = std::to_string(link.value), mark = hex8(plan.on_wire(link.value));
    for (const char* counter : { "out_", "in_", "answered_" })
      out << "  counter " << counter << number << " {\n  }\n";
    // Whoever began while these rules were away has home's address, and stays there.
    out << "  chain by_" << number
        << " {\n    ct status & (confirmed | snat) == confirmed return\n    counter name \"out_" << number << "\"\n    "
        << mark_set(plan, "meta", link.value) << "\n  }\n";
    out << "  chain from_" << number << " {\n    counter name \"in_" << number
        << "\"\n    tcp flags & (syn | ack) == (syn | ack) counter name \"answered_" << number
        << "\"\n    tcp flags & (rst | ack) == (rst | ack) tcp sequence 0 counter name \"answered_" << number
        << "\"\n  }\n"; // a SYN that is refused is answered, too (RFC 9293 3.10.7.1)
    out_ways += (out_ways.empty() ? "" : ", ") + mark + " : goto by_" + number;
    in_ways += (in_ways.empty() ? "" : ", ") + mark + " : goto from_" + number;
  }
  if (!plan.links.empty())
  {
    const std::string of = "meta l4proto tcp ct mark & " + hex8(plan.mark.mask) + " vmap { ";
    // Before the queue's rules (mangle), which know by the mark what is not Wi-Fi's.
    out << "  chain output {\n    type route hook output priority mangle - 10; policy accept;\n    " << of << out_ways
        << " }\n  }\n";
    out << "  chain input {\n    type filter hook input priority mangle; policy accept;\n    " << of << in_ways
        << " }\n  }\n";
    out << "  chain segment_size {\n    type filter hook postrouting priority mangle; policy accept;\n";
    const auto leaves = [&](const PlacementLink& link)
    {
      return "meta l4proto tcp meta mark & " + hex8(plan.mark.mask) + " == " + hex8(plan.on_wire(link.value))
             + " oifname \"" + link.interface + "\" ";
    };
    for (const PlacementLink& link : plan.links)
      for (const bool v6 : { false, true })
        if (link.mtu != 0)
          out << "    meta nfproto " << (v6 ? "ipv6 " : "ipv4 ") << leaves(link)
              << "tcp flags & (syn | rst) == syn tcp option maxseg size set " << link.mtu - (v6 ? 60 : 40) << "\n";
    out << "  }\n";
    out << "  chain source {\n    type nat hook postrouting priority srcnat - 1; policy accept;\n";
    for (const PlacementLink& link : plan.links)
      out << "    " << leaves(link) << "masquerade\n";
    out << "  }\n";
  }
  out << "}\n";
  return out.str();
}

std::map<std::string, NftCounter> nft_counters(const std::string& listed)
{
  std::map<std::string, NftCounter> all {};
  std::istringstream words { listed };
  std::string name {};
  NftCounter counter {};
  for (std::string word; words >> word;)
  {
    if (word == "counter")
      words >> name;
    else if (word == "packets")
      words >> counter.packets;
    else if (word == "bytes" && words >> counter.bytes)
      all[name] = counter;
  }
  return all;
}

} // namespace tandem::kernel::render
