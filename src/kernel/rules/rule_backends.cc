// Loading rules: libnftables where the kernel has nft's queue expression, iptables otherwise.
#include "src/kernel/command.h"
#include "src/kernel/rules/nft_context.h"
#include "src/kernel/rules/render_text.h"
#include "src/kernel/rules/rules.h"

#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace tandem::kernel
{

namespace
{

// The first line of a program's complaint, which is where the reason is.
std::string first_line(const std::string& text)
{
  std::size_t start = text.find_first_not_of(" \n");
  if (start == std::string::npos) return "no reason given";
  return text.substr(start, text.find('\n', start) - start);
}

// A plan that needs every kernel part a real one may need, short of connection tracking.
RulePlan probe_plan()
{
  RulePlan plan;
  plan.wifi = "lo";
  plan.traffic = traffic::egress_pure_ack | traffic::ingress_data;
  return plan;
}

class Nftables final : public RuleBackend
{
public:
  explicit Nftables(std::string why) : why_ { std::move(why) } {}

  std::string name() const override { return "nftables"; }
  std::string why() const override { return why_ + (owner_ ? "; the table belongs to this run and dies with it" : ""); }

  void apply(const RulePlan& plan) override
  {
    validate(plan);
    if (plan.traffic == 0) return pause();
    std::string reason = nft_.load(render::nftables(plan, owner_));
    if (!reason.empty() && owner_ && !loaded_)
    {
      // A table without an owner, of somebody else's making, stands in the way.
      clear();
      reason = nft_.load(render::nftables(plan, true));
      if (!reason.empty())
      {
        reason = nft_.load(render::nftables(plan, false));
        owner_ = !reason.empty();
      }
    }
    if (!reason.empty()) throw std::runtime_error { "nftables refused Tandem's rules: " + reason };
    loaded_ = true;
    current_ = plan;
  }

  bool in_place() override
  {
    const auto queues = [](const std::string& text)
    {
      int count = 0;
      for (std::size_t at = 0; (at = text.find("queue flags bypass", at)) != std::string::npos; ++at)
        ++count;
      return count;
    };
    return queues(nft_.list("list table inet tandem\n")) == queues(render::nftables(current_, owner_));
  }

  bool announced() const override { return true; }

  void pause() override
  {
    // Without an owner whoever flushes everything takes the table, too.
    if (const std::string reason = nft_.load(render::nft_end_of("tandem", true)); !reason.empty() && !missing(reason))
      throw std::runtime_error { "nftables did not take Tandem's rules away: " + reason };
    current_ = {};
  }
  void clear() override { nft_.load(render::nft_end_of("tandem", false)); }

  // Of a killed run. A table that knows no owner, as before Linux 5.12, is taken over with its hooks by apply().
  void take_over() { nft_.load(render::nft_end_of("tandem", !owner_)); }

  // Empty when the kernel would take the rules; nothing is changed.
  std::string probe()
  {
    // A table of another name: a running Tandem owns its own.
    auto text = [](bool owner)
    {
      std::string rules = render::nftables(probe_plan(), owner);
      for (std::size_t at = 0; (at = rules.find("inet tandem", at)) != std::string::npos; at += 17)
        rules.insert(at + 11, "_probe");
      return rules;
    };
    std::string reason = nft_.try_out(text(true));
    if (!reason.empty())
    {
      reason = nft_.try_out(text(false));
      owner_ = !reason.empty();
    }
    if (missing(reason)) return "not in this kernel";
    return reason;
  }

private:
  static bool missing(const std::string& reason)
  {
    return reason.find("No such file or directory") != std::string::npos;
  }

  NftContext nft_ {};
  std::string why_;
  bool owner_ = true;
  bool loaded_ = false; // whether the kernel knows table owners has been found out
  RulePlan current_ {};
};

class Iptables final : public RuleBackend
{
public:
  Iptables(std::string variant, std::string why) : variant_ { std::move(variant) }, why_ { std::move(why) } {}

  std::string name() const override { return "iptables-" + variant_; }
  std::string why() const override { return why_; }

  void apply(const RulePlan& plan) override
  {
    validate(plan);
    applied_ = true;
    load(plan, false);
    try
    {
      if (has_v6()) load(plan, true);
    }
    catch (const std::exception&)
    {
      load(current_, false);
      throw;
    }
    current_ = plan;
  }

  bool in_place() override
  {
    for (bool v6 : { false, true })
      if (!v6 || has_v6())
        if (!render::holds(saved(v6), current_, v6)) return false;
    return true;
  }

  bool announced() const override { return variant_ == "nft"; }

  void pause() override
  {
    of_each_version([this](bool v6) { empty(v6); });
    current_ = {};
  }

  void clear() override
  {
    of_each_version([this](bool v6) { clear(v6); });
    current_ = {};
  }

  // A kill at any moment leaves chains by which the next run knows a table of Tandem's making, or no table.
  void clear(bool v6)
  {
    empty(v6);
    if (variant_ == "nft") borrowed_.give_back(v6);
    load(RulePlan {}, v6);
  }

  // Empty when the kernel takes a queue rule. The chains have names of their own and nothing jumps to them.
  std::string probe()
  {
    const std::string reason = try_out();
    for (bool v6 : { false, true })
      if (variant_ == "nft") borrowed_.give_back(v6);
    return reason;
  }

private:
  static bool has_v6() { return std::filesystem::exists("/proc/sys/net/ipv6"); }
  std::string tool(bool v6, const char* action) const
  {
    return (v6 ? "ip6tables-" : "iptables-") + variant_ + "-" + action;
  }
  // Of both, also where one fails: its rules are no reason for the other's to stay. Throws what was first.
  template <class Work>
  static void of_each_version(Work work)
  {
    std::exception_ptr first {};
    for (bool v6 : { false, true })
      try
      {
        if (!v6 || has_v6()) work(v6);
      }
      catch (const std::exception&)
      {
        if (!first) first = std::current_exception();
      }
    if (first) std::rethrow_exception(first);
  }
  CommandResult restore(const std::string& rules, bool v6) const
  {
    return run({ tool(v6, "restore"), "--noflush", "-w", "5" }, rules);
  }

  std::string try_out() const
  {
    for (bool v6 : { false, true })
    {
      if (v6 && !has_v6()) continue;
      std::string rules, remove = "*mangle\n";
      std::istringstream lines { render::iptables(probe_plan(), v6) };
      for (std::string line; std::getline(lines, line);)
      {
        if (line.rfind("-A OUTPUT", 0) == 0 || line.rfind("-A PREROUTING", 0) == 0) continue;
        for (std::size_t at = 0; (at = line.find("TANDEM-", at)) != std::string::npos; at += 13)
          line.insert(at, "PROBE-");
        if (line.front() == ':') remove += "-F " + line.substr(1, line.find(' ') - 1) + "\n";
        rules += line + "\n";
      }
      CommandResult result = restore(rules, v6);
      if (!result.ok()) return first_line(result.errors);
      std::istringstream flushes { remove.substr(remove.find('\n') + 1) };
      for (std::string line; std::getline(flushes, line);)
        remove += "-X" + line.substr(2) + "\n";
      restore(remove + "COMMIT\n", v6);
    }
    return {};
  }

  void load(const RulePlan& plan, bool v6) const
  {
    const render::Present before = present(v6);
    if (plan.traffic == 0 && before.empty()) return;
    load(render::iptables(plan, v6, before), v6);
  }

  void load(const std::string& rules, bool v6) const
  {
    const CommandResult result = restore(rules, v6);
    if (!result.ok())
      throw std::runtime_error { tool(v6, "restore") + " refused Tandem's rules: " + first_line(result.errors) };
  }

  // What it could not read must not be taken for a table without rules: they would stay, or be there twice.
  std::string saved(bool v6) const
  {
    CommandResult result = run({ tool(v6, "save"), "-t", "mangle" });
    if (!result.ok())
      throw std::runtime_error { tool(v6, "save")
                                 + " cannot tell which rules there are: " + first_line(result.errors) };
    return std::move(result.output);
  }

  render::Present present(bool v6) const { return render::present(saved(v6)); }

  // Takes the rules away and leaves the chains.
  void empty(bool v6)
  {
    const render::Present before = present(v6);
    if (before.empty()) return;
    // What this run has not made a killed one left behind; the table, too, if there is nothing else in it.
    if (!applied_) borrowed_.take_over(v6);
    std::string rules = "*mangle\n";
    for (const auto& jump : before.jumps)
      rules += "-D " + jump + "\n";
    for (const auto& chain : before.chains)
      rules += "-F " + chain + "\n";
    load(rules + "COMMIT\n", v6);
  }

  std::string variant_;
  std::string why_;
  RulePlan current_ {};
  bool applied_ = false; // in this run
  BorrowedMangle borrowed_ {};
};

const char* legacy_names(bool v6)
{
  return v6 ? "/proc/net/ip6_tables_names" : "/proc/net/ip_tables_names";
}

// Is there a mangle table of the legacy iptables? Asking its tool would make one, and load the modules for it. That
// ip_tables is loaded says nothing: systemd does that at every boot.
bool legacy_mangle_is_there(bool v6)
{
  if (!std::filesystem::exists(legacy_names(v6))) return false;
  if (std::ifstream names { legacy_names(v6) })
  {
    for (std::string name; std::getline(names, name);)
      if (name == "mangle") return true;
    return false;
  }
  // Root's alone to read. Where modules are loaded the table's own tells; built into the kernel it may be there.
  return std::filesystem::exists(v6 ? "/sys/module/ip6table_mangle" : "/sys/module/iptable_mangle")
         || !std::filesystem::exists(v6 ? "/sys/module/ip6_tables" : "/sys/module/ip_tables");
}

// What is missing or cannot work here has left nothing either.
template <class Work>
void if_possible(Work work)
{
  try
  {
    work();
  }
  catch (const std::exception&)
  {
  }
}

// Removes what a killed run left in the back ends that are not chosen now.
void clear_others(const std::string& chosen)
{
  if (chosen != "iptables-nft") if_possible([] { Iptables { "nft", "" }.clear(); });
  if (chosen != "iptables-legacy")
    for (const bool v6 : { false, true })
      if (legacy_mangle_is_there(v6)) if_possible([v6] { Iptables { "legacy", "" }.clear(v6); });
  if (chosen != "nftables") if_possible([] { Nftables { "" }.clear(); });
}

// The service may load no modules, and what iptables says of that is that there are none.
std::string lacks_legacy_modules()
{
  std::string missing;
  for (const bool v6 : { false, true })
    if (!std::filesystem::exists(legacy_names(v6))) missing += v6 ? " ip6_tables" : " ip_tables";
  return missing.empty() ? ""
                         : " (not loaded:" + missing + "; the service loads none itself: modprobe -a" + missing + ")";
}

} // namespace

std::string probe_nftables()
{
  try
  {
    return Nftables { "" }.probe();
  }
  catch (const std::exception& e)
  {
    return e.what();
  }
}

std::string probe_iptables(const std::string& variant)
{
  return Iptables { variant, "" }.probe();
}

std::unique_ptr<RuleBackend> choose_backend(BackendChoice wanted)
{
  std::string nft_reason;
  if (wanted != BackendChoice::iptables)
  {
    try
    {
      auto nftables = std::make_unique<Nftables>("this kernel has nft's queue expression");
      nft_reason = nftables->probe();
      if (nft_reason.empty())
      {
        clear_others("nftables");
        nftables->take_over();
        return nftables;
      }
    }
    catch (const std::exception& e)
    {
      nft_reason = e.what();
    }
    if (wanted == BackendChoice::nftables)
      throw std::runtime_error { "nftables cannot queue packets here (" + nft_reason
                                 + "): load the kernel module nft_queue, or choose iptables" };
  }
  std::string iptables_reason;
  for (const std::string variant : { "nft", "legacy" })
  {
    std::string why = wanted == BackendChoice::iptables
                          ? "chosen by the user"
                          : "nft queue expression: " + nft_reason + "; using iptables NFQUEUE";
    auto iptables = std::make_unique<Iptables>(variant, why);
    std::string reason;
    try
    {
      reason = iptables->probe();
    }
    catch (const std::exception& e)
    {
      reason = e.what();
    }
    if (reason.empty())
    {
      clear_others(iptables->name());
      iptables->pause();
      return iptables;
    }
    if (variant == "legacy") reason += lacks_legacy_modules();
    iptables_reason += (iptables_reason.empty() ? "" : "; ") + ("iptables-" + variant) + ": " + reason;
  }
  throw std::runtime_error { "no way to queue packets: nftables: "
                             + (nft_reason.empty() ? std::string { "not tried" } : nft_reason) + "; " + iptables_reason
                             + ". Install nftables or iptables, and use a kernel with nft_queue or xt_NFQUEUE" };
}

} // namespace tandem::kernel
