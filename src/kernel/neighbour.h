// The hardware address of a neighbour on a link, as the kernel knows it.
#pragma once

#include <tandem/segment.h>

#include <string>

namespace tandem::kernel
{

// "02:00:00:00:00:01"; empty when the kernel does not know it (yet), or the link has no such addresses. Asks nobody.
std::string neighbour_address(int ifindex, const Address& neighbour);

} // namespace tandem::kernel
