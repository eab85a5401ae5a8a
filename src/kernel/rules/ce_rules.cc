#include "src/kernel/rules/ce_rules.h"

#include "src/kernel/rules/nft_context.h"
#include "src/kernel/rules/render_text.h"

#include <optional>
#include <string_view>

namespace tandem::kernel
{

namespace
{

// Empty when the kernel would take a rule. A table of another name: a running Tandem owns its own.
std::string sample(NftContext& nft, bool owner)
{
  std::string text = render::ce_nftables({ { .interface = "lo", .rate = 0.5 } }, owner);
  constexpr std::string_view name = "tandem_steer";
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += name.size())
    text.insert(at + name.size(), "_probe");
  return nft.try_out(text);
}

} // namespace

std::string probe_ce()
{
  try
  {
    NftContext nft {};
    const std::string reason = sample(nft, true);
    return reason.empty() ? reason : sample(nft, false);
  }
  catch (const std::exception& e)
  {
    return e.what();
  }
}

struct CeMarker::Parts
{
  std::optional<NftContext> nft {};
  bool owner = true;
  bool keep = false; // keep_hook()
  bool bare = false; // the table is there for its hook alone
  std::string backend {};
  std::string why {};

  void find_way()
  {
    try
    {
      nft.emplace();
    }
    catch (const std::exception& e)
    {
      why = e.what();
      return;
    }
    owner = true;
    std::string reason = sample(*nft, owner);
    if (!reason.empty())
    {
      owner = false; // kernels before 5.12
      reason = sample(*nft, owner);
    }
    if (reason.empty())
    {
      // Without table owners that of a killed run is taken over, for its hook.
      bare = nft->load(render::nft_end_of("tandem_steer", !owner)).empty() && !owner;
      backend = "nftables";
      why = "this kernel's nft matches TCP options and draws random numbers";
    }
    else
      why = "no CE marks here: nftables refused the rule (" + reason
            + "); the kernel modules nf_tables, nft_numgen and nft_exthdr are needed";
  }
};

CeMarker::CeMarker() : parts_ { std::make_unique<Parts>() }
{
  parts_->find_way();
}

CeMarker::~CeMarker()
{
  if (!parts_->backend.empty()) parts_->nft->load("delete table inet tandem_steer\n");
}

bool CeMarker::is_left() noexcept
{
  try
  {
    // Only on a kernel without table owners has a killed run left it.
    return !NftContext {}.list("list table inet tandem_steer\n").empty();
  }
  catch (const std::exception&)
  {
    return false; // without nftables in the kernel there is no such table
  }
}

const std::string& CeMarker::backend() const
{
  return parts_->backend;
}

const std::string& CeMarker::why() const
{
  return parts_->why;
}

std::string CeMarker::apply(const std::vector<CeRule>& rules)
{
  if (parts_->backend.empty()) return parts_->why;
  std::string reason = parts_->nft->load(render::ce_nftables(rules, parts_->owner, parts_->keep));
  if (!reason.empty()) return "nftables refused the CE rules: " + reason;
  parts_->bare = rules.empty() && parts_->keep;
  return {};
}

void CeMarker::keep_hook(bool keep) noexcept
{
  parts_->keep = keep;
  if (parts_->bare && !keep) apply({});
}

} // namespace tandem::kernel
