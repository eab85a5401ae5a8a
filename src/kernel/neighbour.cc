#include "src/kernel/neighbour.h"

#include "src/kernel/rtnetlink.h"

#include <array>
#include <exception>

namespace tandem::kernel
{

std::string neighbour_address(int ifindex, const Address& neighbour)
{
  try
  {
    const Owned<nl_sock> socket = routing_socket();
    nl_cache* all = nullptr;
    if (rtnl_neigh_alloc_cache(socket.get(), &all) < 0) return {};
    const Owned<nl_cache> cache { all };
    const Owned<nl_addr> wanted { nl_addr_build(neighbour.v6 ? AF_INET6 : AF_INET, neighbour.bytes.data(),
                                                neighbour.v6 ? 16 : 4) };
    const Owned<rtnl_neigh> found { rtnl_neigh_get(cache.get(), ifindex, wanted.get()) };
    nl_addr* address = found ? rtnl_neigh_get_lladdr(found.get()) : nullptr;
    if (address == nullptr || nl_addr_get_len(address) != 6) return {};
    std::array<char, 64> text {};
    return nl_addr2str(address, text.data(), text.size());
  }
  catch (const std::exception&)
  {
    return {};
  }
}

} // namespace tandem::kernel
