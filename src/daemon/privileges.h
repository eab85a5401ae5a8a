// What the daemon may do: two capabilities, and nothing else after start.
#pragma once

#include <string>

namespace tandem::daemon
{

// Throws std::runtime_error that names what is missing of CAP_NET_ADMIN (queue, rules, routes) and CAP_NET_RAW
// (injected segments, observation), and how to get it.
void require_privileges();

// Keeps these two and gives up every other capability, for good (no_new_privs, bounding set as far as that is allowed).
// They are made ambient, so that iptables and nft have them when this is not root. Joins `socket_group` first, if named
// and possible: its members may then be given the control socket without CAP_CHOWN. Call before any thread starts.
// Throws std::runtime_error when the kernel refuses.
void drop_privileges(const std::string& socket_group);

} // namespace tandem::daemon
