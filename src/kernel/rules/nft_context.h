// libnftables under C++ ownership: text in, complaint out.
#pragma once

#include <string>

struct nft_ctx;

namespace tandem::kernel
{

class NftContext
{
public:
  // Opens a netlink socket that owns the tables loaded with `flags owner`. Throws std::runtime_error.
  NftContext();
  ~NftContext();
  NftContext(const NftContext&) = delete;
  NftContext& operator=(const NftContext&) = delete;

  // Empty when the kernel took the text as a whole; else the reason, and nothing was changed.
  std::string load(const std::string& text);
  // The same, but nothing is changed either way. Hooks are left out: the kernel would make them before it learns that
  // they are only tried, and drop what waits in every queue as it takes them away again. Each stands on its own line.
  std::string try_out(const std::string& text);
  // What a `list` command prints; empty when it failed.
  std::string list(const std::string& command);

private:
  nft_ctx* context_ = nullptr;
};

// iptables-nft makes the table "mangle" of an IP version on first use and never removes it. Remembers whether it was
// there, so that a table of Tandem's making goes again.
class BorrowedMangle
{
public:
  BorrowedMangle();
  // The table of this IP version was made by a run that could not give it back.
  void take_over(bool v6) noexcept { (v6 ? there_v6_ : there_v4_) = false; }
  // Removes the table if it was not there at the start, or was taken over, and nobody has put anything in it meanwhile.
  void give_back(bool v6) noexcept;

private:
  bool there_v4_ = true;
  bool there_v6_ = true;
};

} // namespace tandem::kernel
