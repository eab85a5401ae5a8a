// Classic BPF programs that tell TCP segments apart inside the kernel: one meaning for the observer's socket filter and
// for iptables' bpf match.
#pragma once

#include "src/kernel/packet/sampling.h"

#include <linux/filter.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::kernel
{

using BpfProgram = std::vector<sock_filter>;

// Matches (returns 1) the segments of one IP version and direction that `traffic` names, by the table in
// tandem/classify.h. Fragments, IPv4 packets with options and IPv6 packets with extension headers before TCP never
// match. The caller has established the IP version. At most 64 instructions, the limit of iptables' bpf match.
BpfProgram traffic_filter(std::uint32_t traffic, bool egress, bool v6);

// Returns `snap` for the TCP packets of both versions that `sampling` picks, else 0. For a SOCK_DGRAM packet socket.
BpfProgram observer_filter(const Sampling& sampling, std::uint32_t snap);

// "LENGTH,CODE JT JF K,..." as iptables' --bytecode takes it.
std::string bytecode(const BpfProgram& program);

} // namespace tandem::kernel
