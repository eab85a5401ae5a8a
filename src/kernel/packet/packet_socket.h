// A packet socket (AF_PACKET) that hears one interface through a filter.
#pragma once

#include "src/kernel/fd.h"
#include "src/kernel/packet/bpf.h"

#include <cstdint>
#include <string>

namespace tandem::kernel
{

// Opened without a protocol, so that not one unwanted packet comes before bind_packet_socket(). Never blocks; tells of
// each packet what the kernel knows of it (PACKET_AUXDATA); `room` bytes of packets wait, or as many as the machine
// allows. Throws std::system_error when the permission is missing.
Fd open_packet_socket(int room);

// `what` names the attempt, as for check().
void attach_filter(const Fd& socket, BpfProgram program, const std::string& what);

// From now on packets of `protocol` (ETH_P_*) of the interface are heard.
void bind_packet_socket(const Fd& socket, int ifindex, std::uint16_t protocol, const std::string& interface);

} // namespace tandem::kernel
