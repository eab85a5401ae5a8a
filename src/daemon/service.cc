#include "src/daemon/service.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace tandem::daemon
{
namespace
{

std::string_view environment(const char* name)
{
  const char* value = std::getenv(name);
  return value ? value : "";
}

// $JOURNAL_STREAM is DEVICE:INODE of what systemd connected; a child may have redirected stderr since.
bool stderr_is_journal()
{
  struct stat status
  {
  };
  if (::fstat(STDERR_FILENO, &status) != 0) return false;
  return environment("JOURNAL_STREAM") == std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

// sd_journal_send(3), without a format to be interpreted. False: nothing was sent.
bool to_journal(Severity severity, const std::string& line, const About& about)
{
  std::vector<std::string> fields { "MESSAGE=" + line, "PRIORITY=" + std::to_string(static_cast<int>(severity)),
                                    std::string { "SYSLOG_IDENTIFIER=tandemd" } };
  if (!about.module.empty()) fields.push_back("MODULE=" + about.module);
  if (!about.flow.empty()) fields.push_back("FLOW=" + about.flow);
  if (!about.reason.empty()) fields.push_back("REASON=" + about.reason);
  std::vector<iovec> parts {};
  for (std::string& field : fields)
    parts.push_back({ field.data(), field.size() });
  return ::sd_journal_sendv(parts.data(), static_cast<int>(parts.size())) == 0;
}

const char* name(Severity severity)
{
  switch (severity)
  {
  case Severity::error:
    return "error: ";
  case Severity::warning:
    return "warning: ";
  case Severity::notice:
  case Severity::info:
    break;
  }
  return "";
}

} // namespace

void log(Severity severity, const std::string& text, const About& about)
{
  static const bool journal = stderr_is_journal();
  std::string out;
  std::size_t start = 0;
  while (start <= text.size())
  {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string line = text.substr(start, end - start);
    // "<4>text" where the journal cannot be reached by its own socket: the stream that stderr is will do.
    if (!journal)
      out += std::string { "tandemd: " } + name(severity) + line + '\n';
    else if (!to_journal(severity, line, about))
      out += "<" + std::to_string(static_cast<int>(severity)) + ">" + line + '\n';
    start = end + 1;
  }
  // One call, so that lines of two threads do not mix.
  std::fwrite(out.data(), 1, out.size(), stderr);
}

void notify_service_manager(const std::string& state)
{
  const std::string_view where = environment("NOTIFY_SOCKET");
  sockaddr_un address {};
  address.sun_family = AF_UNIX;
  if (where.empty() || where.size() >= sizeof address.sun_path || (where[0] != '/' && where[0] != '@')) return;
  std::memcpy(address.sun_path, where.data(), where.size());
  if (where[0] == '@') address.sun_path[0] = '\0'; // the abstract name space
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + where.size());
  // A manager that went away is no reason to stop working.
  [[maybe_unused]] const auto sent =
      ::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), length);
  ::close(fd);
}

Duration watchdog_period()
{
  const std::string_view pid = environment("WATCHDOG_PID");
  if (!pid.empty() && pid != std::to_string(::getpid())) return {};
  const std::string_view text = environment("WATCHDOG_USEC");
  std::int64_t microseconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), microseconds);
  return microseconds > 0 ? std::chrono::microseconds { microseconds } : Duration {};
}

} // namespace tandem::daemon
