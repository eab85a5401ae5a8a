// Fetch services that must be refused: ALIEN=1 of another ABI, 2 of other headers, 3 without create().
#include "src/fetch/interface.h"

namespace tandem::fetch
{
namespace
{

std::unique_ptr<Service> create(ServiceOptions, Follows, Deliver)
{
  return nullptr;
}

constexpr ServiceEntry entry()
{
  ServiceEntry made { .create = create };
  if constexpr (ALIEN == 1) ++made.abi_version;
  if constexpr (ALIEN == 2) ++made.job_size;
  if constexpr (ALIEN == 3) made.create = nullptr;
  return made;
}

} // namespace
} // namespace tandem::fetch

extern "C" __attribute__((visibility("default"))) const tandem::fetch::ServiceEntry tandem_fetch;
extern "C" const tandem::fetch::ServiceEntry tandem_fetch = tandem::fetch::entry();
