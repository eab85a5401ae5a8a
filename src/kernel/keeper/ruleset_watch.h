// Hears of every change of nftables in this network namespace, iptables-nft's included. The legacy iptables announces
// nothing.
#pragma once

#include "src/kernel/fd.h"

namespace tandem::kernel
{

class RulesetWatch
{
public:
  // A kernel without nftables: nothing is ever heard.
  RulesetWatch();

  int fd() const { return socket_.get(); } // -1: nothing is heard
  // Takes in what has come; true when there was anything.
  bool take() noexcept;

private:
  Fd socket_ {};
};

} // namespace tandem::kernel
