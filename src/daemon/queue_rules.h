// Which packets the rules queue, and how much of each is copied. Pure: from what the modules want, the configuration,
// and what the Wi-Fi link is.
#pragma once

#include "src/daemon/config.h"
#include "src/daemon/roles.h"
#include "src/kernel/marks.h"
#include "src/kernel/rules/rules.h"
#include "src/links/link_table.h"

#include <tandem/admission.h>
#include <tandem/module.h>

#include <cstddef>
#include <cstdint>

namespace tandem::daemon
{

// What of `modules`' wants is to be seen now. `everything`: the recorder wants it all. Nothing is queued while
// `bypass`, nor without an address, for then no flow is the Wi-Fi link's.
Wanted wanted_now(Wanted modules, bool everything, const links::LinkInfo& wifi, bool bypass);

// Of more than most_networks_in_rules the rules leave out the rest of the exclusions. Packets of those are queued like
// all others, and pass untouched: ExclusionDriver asks of every flow whether its peer is excluded.
kernel::RulePlan rule_plan(const Wanted& wanted, const Config& config, const Roles& roles, const kernel::Marks& marks,
                           const links::LinkInfo& wifi, const Exclusions& exclusions);

// How many networks and addresses that leaves out.
std::size_t beyond_rules(const Config& config, const Exclusions& exclusions);

// Bytes of a queued packet that are copied: whole packets are needed only where one with payload may be changed.
std::uint32_t copy_range(const Interest& interest, std::uint32_t recorded);

// Rules are there only while a packet is needed: flows that no module wants cost nothing. A new flow, or a quiet one
// that is to be looked at again, brings them back well before its window has grown.
class Bypass
{
public:
  // A look at whether some module needs a packet, five times a second or when a flow begins. True: on() changed.
  // `at_once`: a pause is not what makes it unneeded.
  bool look(bool needed, bool at_once = false);
  bool on() const { return on_; }

private:
  bool on_ = false;
  int unneeded_ = 0; // looks in a row
};

} // namespace tandem::daemon
