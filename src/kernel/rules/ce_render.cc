// CE rules as the text that nft loads.
#include "src/kernel/rules/ce_rules.h"
#include "src/kernel/rules/render_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

namespace tandem::kernel::render
{

namespace
{

// The kernel merges arriving packets (GRO). `packets` is the mean over the class, for packets of 1500 bytes.
struct LengthClass
{
  unsigned up_to; // bytes, the network header included; 0: no end
  double packets;
};
constexpr std::array<LengthClass, 11> length_classes { { { 1500, 1 },
                                                         { 3000, 2 },
                                                         { 4500, 3 },
                                                         { 6000, 4 },
                                                         { 9000, 5.5 },
                                                         { 12000, 7.5 },
                                                         { 18000, 10.5 },
                                                         { 24000, 14.5 },
                                                         { 36000, 20.5 },
                                                         { 48000, 28.5 },
                                                         { 0, 38.5 } } };
constexpr double million = 1e6;

} // namespace

std::uint32_t ce_millionths(double rate, double packets)
{
  return static_cast<std::uint32_t>(std::lround(million * -std::expm1(packets * std::log1p(-std::min(rate, 1.0)))));
}

std::string ce_nftables(const std::vector<CeRule>& rules, bool owner, bool keep_hook)
{
  std::vector<CeRule> marking {};
  std::copy_if(rules.begin(), rules.end(), std::back_inserter(marking),
               [](const CeRule& rule) { return ce_millionths(rule.rate, 1) > 0; });
  const std::string empty = std::string { "table inet tandem_steer {\n" } + (owner ? "  flags owner\n" : "") + "}\n";
  // The table is made first so that deleting it succeeds whether it was there or not.
  if (marking.empty()) return empty + nft_end_of("tandem_steer", keep_hook);

  std::ostringstream out;
  out << empty << "flush table inet tandem_steer\n"
      << "table inet tandem_steer {\n"
      << (owner ? "  flags owner\n" : "");
  out << "  chain set_ce {\n    ip ecn set ce\n    ip6 ecn set ce\n  }\n";
  for (std::size_t i = 0; i < marking.size(); ++i)
  {
    out << "  chain by_" << i << " {\n";
    unsigned from = 0;
    for (const LengthClass& c : length_classes)
    {
      out << "    ";
      if (from > 0) out << "meta length > " << from << " ";
      if (c.up_to > 0) out << "meta length <= " << c.up_to << " ";
      // nft knows that every number drawn is below a million, and refuses to compare.
      if (const std::uint32_t share = ce_millionths(marking[i].rate, c.packets); share < million)
        out << "numgen random mod 1000000 < " << share << " ";
      out << "goto set_ce\n";
      from = c.up_to;
    }
    out << "  }\n";
  }
  std::string names, ways;
  for (std::size_t i = 0; i < marking.size(); ++i)
  {
    const std::string comma = i > 0 ? ", " : "";
    names += comma + "\"" + marking[i].interface + "\"";
    ways += comma + "\"" + marking[i].interface + "\" : goto by_" + std::to_string(i);
  }
  out << "  chain candidate {\n    tcp option mptcp exists iifname vmap { " << ways << " }\n  }\n";
  // Input, not prerouting: what is forwarded to a container or a tethered device is another host's to steer.
  out << "  chain input {\n    type filter hook input priority mangle; policy accept;\n";
  for (const char* ect0 : { "ip ecn ect0", "ip6 ecn ect0" })
    out << "    iifname { " << names << " } meta l4proto tcp " << ect0 << " goto candidate\n";
  out << "  }\n}\n";
  return out.str();
}

} // namespace tandem::kernel::render
