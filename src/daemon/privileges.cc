#include "src/daemon/privileges.h"

#include <cap-ng.h>
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace tandem::daemon
{

namespace
{

void read_capabilities()
{
  if (capng_get_caps_process() != 0)
    throw std::runtime_error { "cannot read the capabilities of this process (/proc/self/status); is /proc mounted?" };
}

} // namespace

void require_privileges()
{
  read_capabilities();
  std::string missing;
  if (!capng_have_capability(CAPNG_EFFECTIVE, CAP_NET_ADMIN)) missing += " CAP_NET_ADMIN (queue, rules, routes)";
  if (!capng_have_capability(CAPNG_EFFECTIVE, CAP_NET_RAW))
    missing += std::string { missing.empty() ? "" : " and" } + " CAP_NET_RAW (injected segments, observation)";
  if (missing.empty()) return;
  std::error_code fault;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", fault);
  throw std::runtime_error { "missing:" + missing
                             + "; run as root, start it by systemd (systemctl start tandemd), or give the program "
                               "the capabilities (setcap cap_net_admin,cap_net_raw+ep "
                             + program.string() + ")" };
}

namespace
{

void forbid_new_privileges()
{
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    throw std::runtime_error { std::string { "cannot set no_new_privs: " } + std::strerror(errno) };
}

// As a service of systemd is started: then nothing is called that its filter of system calls forbids.
bool holds_only_what_is_needed()
{
  for (int one = 0; one <= CAP_LAST_CAP; ++one)
  {
    const bool needed = one == CAP_NET_ADMIN || one == CAP_NET_RAW;
    for (const capng_type_t type : { CAPNG_EFFECTIVE, CAPNG_PERMITTED, CAPNG_INHERITABLE, CAPNG_AMBIENT })
      if ((capng_have_capability(type, static_cast<unsigned>(one)) != 0) != needed) return false;
  }
  return true;
}

// How far a process may lower its oom_score_adj without CAP_SYS_RESOURCE is what was last set with it
// (oom_score_adj_min, handed on to children). So the lowest is set with it, and what was there before without it: the
// keeper, which begins later, takes the lowest for itself.
class LowestOomScore
{
public:
  LowestOomScore()
  {
    int now = 0;
    if (!(std::ifstream { file } >> now)) return;
    before_ = now;
    std::ofstream { file } << "-1000";
  }
  ~LowestOomScore()
  {
    if (before_) std::ofstream { file } << *before_;
  }
  LowestOomScore(const LowestOomScore&) = delete;
  LowestOomScore& operator=(const LowestOomScore&) = delete;

private:
  static constexpr const char* file = "/proc/self/oom_score_adj";
  std::optional<int> before_ {};
};

} // namespace

void drop_privileges(const std::string& socket_group)
{
  read_capabilities();
  const bool may_change_groups = capng_have_capability(CAPNG_EFFECTIVE, CAP_SETGID);
  const bool may_change_bounds = capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP);

  if (may_change_groups)
  {
    const struct group* group = socket_group.empty() ? nullptr : ::getgrnam(socket_group.c_str());
    const gid_t joined = group ? group->gr_gid : 0;
    if (::setgroups(group ? 1 : 0, &joined) != 0)
      throw std::runtime_error { std::string { "cannot set the groups: " } + std::strerror(errno) };
  }

  if (holds_only_what_is_needed()) return forbid_new_privileges();
  const LowestOomScore lowest {}; // until the capabilities are gone
  capng_clear(CAPNG_SELECT_ALL);
  const auto kept = static_cast<capng_type_t>(CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_INHERITABLE | CAPNG_BOUNDING_SET
                                              | CAPNG_AMBIENT);
  capng_updatev(CAPNG_ADD, kept, CAP_NET_ADMIN, CAP_NET_RAW, -1);
  // The bounding set needs CAP_SETPCAP, which the next call gives up.
  if (may_change_bounds && capng_apply(CAPNG_SELECT_BOUNDS) != 0)
    throw std::runtime_error { "cannot give up capabilities: the bounding set was refused" };
  if (const int refused = capng_apply(static_cast<capng_select_t>(CAPNG_SELECT_CAPS | CAPNG_SELECT_AMBIENT)))
    throw std::runtime_error { "cannot give up capabilities: refused (" + std::to_string(refused) + ")" };
  forbid_new_privileges();
}

} // namespace tandem::daemon
