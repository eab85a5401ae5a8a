// By what the pace of sockets is bounded on this host.
#pragma once

#include "src/kernel/pacing/socket_pace.h"

#include <memory>
#include <string>

namespace tandem::kernel
{

// A BPF iterator over TCP sockets (`iter/tcp`), and the map by which it is told which of them. Loading it needs CAP_BPF
// and CAP_PERFMON; who has these two descriptors can run it without.
struct PacingProgram
{
  int map = -1, link = -1;                     // descriptors, closed with the process
  std::string why { "no program was loaded" }; // why there are none
};
// Never throws.
PacingProgram load_pacing_program() noexcept;

// By the program if there is one, else by HTB at the interface (interface_shaping.h). Takes away what a killed run has
// left of the latter.
std::unique_ptr<SocketPacing> make_socket_pacing(const PacingProgram& program);

} // namespace tandem::kernel
