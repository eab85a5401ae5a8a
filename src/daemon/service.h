// What a service manager expects: log lines with a severity, readiness and a watchdog (sd_notify(3), sd-daemon(3)).
#pragma once

#include <tandem/units.h>

#include <string>

namespace tandem::daemon
{

// The numbers of syslog.
enum class Severity : unsigned char
{
  error = 3,
  warning = 4,
  notice = 5,
  info = 6,
};

// What a line of the log is about: fields of its entry in the journal. Empty ones are left out.
struct About
{
  std::string module {}; // MODULE=offload
  std::string flow {};   // FLOW=192.0.2.2:40000 - 198.51.100.7:443
  std::string reason {}; // REASON=roaming: why something is so, in a word or a literal
};

// One entry a line: in the journal, with its fields, when stderr goes there; to stderr as "tandemd: warning: text"
// else. Safe from any thread.
void log(Severity severity, const std::string& text, const About& about = {});

// Sends e.g. "READY=1" to $NOTIFY_SOCKET; does nothing when there is none.
void notify_service_manager(const std::string& state);

// How often WATCHDOG=1 is expected ($WATCHDOG_USEC); zero when it is not.
Duration watchdog_period();

} // namespace tandem::daemon
