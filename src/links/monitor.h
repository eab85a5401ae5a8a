// Follows interfaces, addresses, routes and rules by rtnetlink, and keeps a LinkTable and a Routing current.
#pragma once

#include "src/links/link_table.h"
#include "src/links/routing.h"

#include <tandem/units.h>

#include <memory>
#include <string>
#include <vector>

namespace tandem::links
{

class Monitor
{
public:
  // Reads the present state; no role is filled yet. Throws std::runtime_error with a sentence.
  explicit Monitor(Tick now);
  // The same with roles; the interfaces need not exist yet. Names as for LinkTable.
  Monitor(const std::string& wifi, const std::string& cell, Tick now, const std::vector<std::string>& more_wifi = {});
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  int fd() const;
  // Takes in what is waiting; never blocks. True when a role or the routing changed. Reads everything anew after a
  // message overrun, and where the kernel drops routes without a message.
  bool receive(Tick now);
  // Reading anew has failed, and what is known is as old as that: call receive() again in a while.
  bool outdated() const;

  // As LinkTable::assign().
  bool assign(const std::string& wifi, const std::string& cell, const std::vector<std::string>& more_wifi, Tick now,
              const LowerInterfaces& lower = {});

  const LinkTable& table() const;
  const Routing& routing() const;
  const LinkInfo& operator[](Link link) const { return table()[link]; }
  const LinkInfo& lower(Link link) const { return table().lower(link); }
  Link owner(const Address& local) const { return table().owner(local); }

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace tandem::links
