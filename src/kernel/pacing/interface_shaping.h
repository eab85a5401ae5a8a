// Uploads bounded at their interface, for hosts where the pace of a socket cannot be set from outside: a class of HTB
// (tc-htb(8)) for each of them, with a u32 filter on its addresses and ports. Everything else goes by them as it would.
#pragma once

#include "src/kernel/pacing/socket_pace.h"

#include <memory>
#include <string>

namespace tandem::kernel
{

// Takes away what a killed run left of it, on all interfaces of this network namespace. Says where: a sentence, or
// empty.
std::string clear_shaping() noexcept;

// Needs CAP_NET_ADMIN and nothing else. An interface with a queueing discipline that somebody has chosen is left as it
// is, and one where packets wait at that moment: they would be lost. The classes go with this object.
std::unique_ptr<SocketPacing> make_interface_shaping();

// Whether this kernel has what it takes, tried in a network namespace of its own: why not; empty: it has, or nobody may
// try, which takes CAP_SYS_ADMIN.
std::string probe_shaping();

} // namespace tandem::kernel
