// Settings of network interfaces below /proc/sys/net.
#pragma once

#include <string>

namespace tandem::kernel
{

// "ipv4/conf/wlan0/arp_ignore": its value; empty when it cannot be read.
std::string interface_setting(const std::string& name);
// False: the kernel, or whoever confines this process, refused.
bool set_interface(const std::string& name, const std::string& value);

} // namespace tandem::kernel
