// What a network interface has carried.
#pragma once

#include <cstdint>
#include <string>

namespace tandem::kernel
{

// Bytes that have arrived by the interface since it exists; 0: not known.
std::uint64_t arrived_by(const std::string& interface);

// Packets both ways, likewise.
std::uint64_t packets_by(const std::string& interface);

} // namespace tandem::kernel
