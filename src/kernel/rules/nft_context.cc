#include "src/kernel/rules/nft_context.h"

#include "src/kernel/fd.h"

#include <linux/netlink.h>
#include <nftables/libnftables.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <stdexcept>

namespace tandem::kernel
{

namespace
{

// libnftables ends the process where it cannot open its netlink socket (netlink_init_error()), so that is tried first.
nft_ctx* new_context()
{
  if (const Fd socket { ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER) }; !socket)
    throw std::runtime_error { std::string { "nftables: cannot open a netlink socket: " } + std::strerror(errno) };
  return nft_ctx_new(NFT_CTX_DEFAULT);
}

std::string without_hooks(const std::string& text)
{
  std::istringstream lines { text };
  std::string all;
  for (std::string line; std::getline(lines, line);)
    if (line.find(" hook ") == std::string::npos) all += line + "\n";
  return all;
}

} // namespace

NftContext::NftContext() : context_ { new_context() }
{
  if (!context_) throw std::runtime_error { "nftables: no context could be made: out of memory" };
  nft_ctx_buffer_output(context_);
  nft_ctx_buffer_error(context_);
}

NftContext::~NftContext()
{
  nft_ctx_free(context_);
}

std::string NftContext::load(const std::string& text)
{
  const int rc = nft_run_cmd_from_buffer(context_, text.c_str());
  // Reading the buffers empties them.
  nft_ctx_get_output_buffer(context_);
  const char* errors = nft_ctx_get_error_buffer(context_);
  if (rc == 0) return {};
  std::string first = errors ? errors : "";
  first = first.substr(0, first.find('\n'));
  return first.empty() ? "no reason given" : first;
}

std::string NftContext::try_out(const std::string& text)
{
  nft_ctx_set_dry_run(context_, true);
  std::string reason = load(without_hooks(text));
  nft_ctx_set_dry_run(context_, false);
  return reason;
}

std::string NftContext::list(const std::string& command)
{
  const int rc = nft_run_cmd_from_buffer(context_, command.c_str());
  nft_ctx_get_error_buffer(context_);
  const char* output = nft_ctx_get_output_buffer(context_);
  return rc == 0 && output ? output : "";
}

namespace
{

// Nothing but built-in chains that accept.
bool is_bare(const std::string& listed)
{
  if (listed.empty()) return false;
  std::istringstream lines { listed };
  for (std::string line; std::getline(lines, line);)
  {
    line.erase(0, line.find_first_not_of(" \t"));
    const bool frame = line.empty() || line == "}" || line.front() == '#' || line.rfind("table ", 0) == 0
                       || line.rfind("chain ", 0) == 0;
    const bool hook = line.rfind("type ", 0) == 0 && line.find("policy accept;") != std::string::npos;
    if (!frame && !hook) return false;
  }
  return true;
}

} // namespace

BorrowedMangle::BorrowedMangle()
{
  try
  {
    NftContext nft;
    there_v4_ = !nft.list("list table ip mangle").empty();
    there_v6_ = !nft.list("list table ip6 mangle").empty();
  }
  catch (const std::exception&)
  {
    // Without nftables in the kernel there is no such table to be given back.
  }
}

void BorrowedMangle::give_back(bool v6) noexcept
{
  if (v6 ? there_v6_ : there_v4_) return;
  try
  {
    NftContext nft;
    const std::string table = v6 ? "table ip6 mangle" : "table ip mangle";
    if (is_bare(nft.list("list " + table))) nft.load("delete " + table);
  }
  catch (const std::exception&)
  {
  }
}

} // namespace tandem::kernel
