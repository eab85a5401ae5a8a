#include "src/control/socket_file.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace tandem::control
{
namespace
{

[[noreturn]] void refuse_start(const std::string& what)
{
  throw std::runtime_error { what };
}

// What errno says, and what to do about it where that is known.
std::string fault_text(const std::string& group = {})
{
  const int fault = errno;
  std::string text = std::strerror(fault);
  if (fault == EPERM && !group.empty())
    text += "; daemon.socket_group = \"" + group
            + "\": this process may give files to groups of its own only, the packaged service to \"tandem\" (adduser "
              "NAME tandem)";
  if (fault == EACCES)
    text += "; where the directory is another user's, start the daemon as that user (systemctl start tandemd), or "
            "choose another daemon.socket";
  return text;
}

sockaddr_un address_of(const std::string& path)
{
  sockaddr_un address {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

gid_t find_group(const std::string& group)
{
  if (group.empty()) return static_cast<gid_t>(-1);
  const struct group* found = ::getgrnam(group.c_str());
  if (!found)
    refuse_start("daemon.socket_group = \"" + group + "\": no such group; create it (groupadd --system " + group
                 + ") or leave the setting empty");
  return found->gr_gid;
}

// For the group, unless it is the group's already: a filter of system calls may forbid to ask for it.
bool give_to(const std::string& path, gid_t group)
{
  struct stat status
  {
  };
  return (::stat(path.c_str(), &status) == 0 && status.st_gid == group)
         || ::chown(path.c_str(), static_cast<uid_t>(-1), group) == 0;
}

void prepare_directory(const std::filesystem::path& directory, gid_t owner, const std::string& group)
{
  if (::mkdir(directory.c_str(), 0750) == 0)
  {
    if (::chmod(directory.c_str(), 0750) != 0 || !give_to(directory, owner))
      refuse_start("directory " + directory.string() + " of the control socket: " + fault_text(group));
    return;
  }
  struct stat status
  {
  };
  if (errno != EEXIST || ::stat(directory.c_str(), &status) != 0)
    refuse_start("directory " + directory.string() + " of the control socket: " + fault_text());
  if (!S_ISDIR(status.st_mode)) refuse_start(directory.string() + " is not a directory; the control socket needs one");
  if ((status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0)
    refuse_start("directory " + directory.string()
                 + " is writable by everyone: anyone could replace the control "
                   "socket there; remove that permission (chmod o-w) or choose another daemon.socket");
}

void refuse_live_one(const std::filesystem::path& path)
{
  struct stat status
  {
  };
  if (::lstat(path.c_str(), &status) != 0) return;
  if (!S_ISSOCK(status.st_mode))
    refuse_start(path.string() + " exists and is not a socket; remove it or choose another daemon.socket");
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un address = address_of(path.string());
  const bool live = probe >= 0
                    && (::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0
                        || errno == EAGAIN /* its backlog is full: it lives */);
  if (probe >= 0) ::close(probe);
  if (live) refuse_start("a daemon already answers on " + path.string() + "; stop it first (tandem down)");
}

} // namespace

SocketFile::SocketFile(const std::filesystem::path& path, const std::string& group) : path_ { path }
{
  if (!path.is_absolute() || path.string().size() > 100)
    refuse_start("control socket " + path.string() + ": an absolute path of at most 100 characters is needed");
  const gid_t owner = find_group(group);
  prepare_directory(path.parent_path(), owner, group);
  refuse_live_one(path);

  const std::string fresh = path.string() + ".new";
  ::unlink(fresh.c_str());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) refuse_start("control socket: " + fault_text());
  descriptor = fd;
  const sockaddr_un address = address_of(fresh);
  // Without a group it is root's and this process's user's alone: a service has a primary group, too.
  const mode_t mode = group.empty() ? 0600 : 0660;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::chmod(fresh.c_str(), mode) != 0
      || !give_to(fresh, owner) || ::listen(fd, 64) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0)
  {
    const std::string why = fault_text(group);
    ::unlink(fresh.c_str());
    ::close(fd);
    refuse_start("control socket " + path.string() + ": " + why);
  }
  struct stat status
  {
  };
  if (::stat(path.c_str(), &status) == 0) inode_ = status.st_ino;
}

SocketFile::~SocketFile()
{
  // Only our own: by now another daemon may have put its socket there.
  struct stat status
  {
  };
  if (::stat(path_.c_str(), &status) == 0 && status.st_ino == inode_) ::unlink(path_.c_str());
}

} // namespace tandem::control
