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

// One line to stderr: "<4>text" when stderr goes to the journal, "tandemd: warning: text" else. Safe from any thread.
void log(Severity severity, const std::string& text);

// Sends e.g. "READY=1" to $NOTIFY_SOCKET; does nothing when there is none.
void notify_service_manager(const std::string& state);

// How often WATCHDOG=1 is expected ($WATCHDOG_USEC); zero when it is not.
Duration watchdog_period();

} // namespace tandem::daemon
