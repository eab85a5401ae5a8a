#include "src/kernel/socket_owner.h"

#include "src/kernel/netlink_dump.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace tandem::kernel
{

namespace
{

// INET_DIAG_CGROUP_ID, of Linux 5.7; headers may be older.
constexpr int cgroup_attribute = 21;

struct Question
{
  nlmsghdr head {};
  inet_diag_req_v2 request {};
};

std::optional<SocketOwner> owner_in(const std::byte* bytes, std::size_t length, std::uint32_t sequence)
{
  const auto* head = reinterpret_cast<const nlmsghdr*>(bytes);
  constexpr std::size_t least = NLMSG_LENGTH(sizeof(inet_diag_msg));
  if (length < least || head->nlmsg_len < least || head->nlmsg_len > length || head->nlmsg_seq != sequence
      || head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return {};
  const auto* found = static_cast<const inet_diag_msg*>(NLMSG_DATA(head));
  SocketOwner owner { .user = found->idiag_uid,
                      .cookie = std::uint64_t { found->id.idiag_cookie[1] } << 32 | found->id.idiag_cookie[0] };
  const auto told = attributes_of<cgroup_attribute>(head, sizeof(inet_diag_msg));
  copy_attribute(told[cgroup_attribute], &owner.cgroup);
  const nlattr* layer = attributes_in<INET_ULP_INFO_MAX>(told[INET_DIAG_ULP_INFO])[INET_ULP_INFO_NAME];
  owner.mptcp = layer != nullptr && std::string_view { mnl_attr_get_str(layer) } == "mptcp";
  return owner;
}

} // namespace

SocketOwners::SocketOwners()
    : socket_ { ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG) }
{
}

std::optional<SocketOwner> SocketOwners::find(const FlowKey& flow, int interface)
{
  if (!socket_) return {};
  Question question {};
  question.head = { .nlmsg_len = sizeof question,
                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST,
                    .nlmsg_seq = ++asked_,
                    .nlmsg_pid = 0 };
  question.request.sdiag_family = flow.local.v6 ? AF_INET6 : AF_INET;
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_ext = 1u << (INET_DIAG_INFO - 1); // the upper layer's part comes only along with TCP's
  question.request.idiag_states = ~0u;
  inet_diag_sockid& id = question.request.id;
  id.idiag_sport = htons(flow.local_port);
  id.idiag_dport = htons(flow.remote_port);
  const std::size_t bytes = flow.local.v6 ? 16 : 4;
  std::memcpy(id.idiag_src, flow.local.bytes.data(), bytes);
  std::memcpy(id.idiag_dst, flow.remote.bytes.data(), bytes);
  id.idiag_if = static_cast<std::uint32_t>(interface);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (::send(socket_.get(), &question, sizeof question, 0) != sizeof question) return {};
  // What an earlier question left behind is passed over.
  alignas(nlmsghdr) std::array<std::byte, 8192> answer {};
  for (int tries = 0; tries < 4; ++tries)
  {
    const ssize_t count = ::recv(socket_.get(), answer.data(), answer.size(), 0);
    if (count < static_cast<ssize_t>(sizeof(nlmsghdr))) return {};
    if (reinterpret_cast<const nlmsghdr*>(answer.data())->nlmsg_seq == asked_)
      return owner_in(answer.data(), static_cast<std::size_t>(count), asked_);
  }
  return {};
}

namespace
{

namespace fs = std::filesystem;

// kernfs: the id of a cgroup is the number of its inode.
bool has_id(const fs::path& path, std::uint64_t id)
{
  struct stat status
  {
  };
  return ::stat(path.c_str(), &status) == 0 && status.st_ino == id;
}

// Empty: none there. Cgroups come and go meanwhile, and those that cannot be opened any more are passed over:
// std::filesystem::recursive_directory_iterator would end with the first of them.
fs::path cgroup_below(const fs::path& directory, std::uint64_t id)
{
  std::error_code fault {}, gone {};
  for (fs::directory_iterator at { directory, fault }; !fault && at != fs::directory_iterator {}; at.increment(fault))
  {
    if (at->is_symlink(gone) || !at->is_directory(gone)) continue;
    if (has_id(at->path(), id)) return at->path();
    if (fs::path found = cgroup_below(at->path(), id); !found.empty()) return found;
  }
  return {};
}

} // namespace

std::string cgroup_path(std::uint64_t id, const std::string& root)
{
  std::error_code fault {};
  fs::path top = root;
  // The second one where v1 is mounted beside it (systemd's hybrid hierarchy).
  if (root.empty())
    top = fs::exists("/sys/fs/cgroup/cgroup.controllers", fault) ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified";
  if (has_id(top, id)) return "/";
  const fs::path found = cgroup_below(top, id);
  return found.empty() ? std::string {} : "/" + found.lexically_relative(top).string();
}

} // namespace tandem::kernel
