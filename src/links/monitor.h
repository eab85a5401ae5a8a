// Follows interfaces, addresses and default routes by rtnetlink and keeps a LinkTable current.
#pragma once

#include "src/links/link_table.h"

#include <tandem/units.h>

#include <memory>
#include <string>
#include <vector>

namespace tandem::links
{

class Monitor
{
public:
  // Reads the present state; the interfaces need not exist yet. Names as for LinkTable. Throws std::runtime_error with
  // a sentence.
  Monitor(const std::string& wifi, const std::string& cell, Tick now, const std::vector<std::string>& more_wifi = {});
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  int fd() const;
  // Takes in what is waiting; never blocks. True when a role changed. Reads everything anew after a message overrun.
  bool receive(Tick now);

  const LinkTable& table() const;
  const LinkInfo& operator[](Link link) const { return table()[link]; }
  Link owner(const Address& local) const { return table().owner(local); }

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace tandem::links
