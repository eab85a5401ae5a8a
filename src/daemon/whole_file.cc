#include "src/daemon/whole_file.h"

#include "src/kernel/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace tandem::daemon
{

namespace
{

[[noreturn]] void fail(const std::filesystem::path& file)
{
  throw std::runtime_error { file.string() + ": " + std::strerror(errno) };
}

bool write_all(int fd, std::string_view bytes)
{
  while (!bytes.empty())
  {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

} // namespace

void write_whole(const std::filesystem::path& file, std::string_view bytes)
{
  const std::string partial = file.string() + ".part";
  {
    // What is there, of a writer that was killed or of another user, is not written into: its owner could read and
    // change it.
    ::unlink(partial.c_str());
    const kernel::Fd out { ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) };
    if (!out && errno == EEXIST)
      throw std::runtime_error { partial + " is in the way and cannot be removed: remove it" };
    if (!out || !write_all(out.get(), bytes) || ::fsync(out.get()) != 0)
    {
      const int why = errno;
      if (out) ::unlink(partial.c_str());
      errno = why;
      fail(file);
    }
  }
  if (::rename(partial.c_str(), file.c_str()) != 0)
  {
    const int why = errno;
    ::unlink(partial.c_str());
    errno = why;
    fail(file);
  }
  // The new name is on the disk once the directory is.
  const kernel::Fd directory { ::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
  if (directory) static_cast<void>(::fsync(directory.get()));
}

std::string read_whole(const std::filesystem::path& file, std::size_t longest)
{
  const kernel::Fd in { ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) };
  if (!in && errno == ENOENT) return {};
  struct stat info
  {
  };
  if (!in || ::fstat(in.get(), &info) != 0) fail(file);
  if (!S_ISREG(info.st_mode)) throw std::runtime_error { file.string() + ": is not a plain file" };
  std::string bytes(longest + 1, '\0');
  std::size_t got = 0;
  while (got < bytes.size())
  {
    const ssize_t count = ::read(in.get(), bytes.data() + got, bytes.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(file);
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  if (got > longest) throw std::runtime_error { file.string() + ": is longer than any that Tandem writes" };
  bytes.resize(got);
  return bytes;
}

std::string file_stamp(std::time_t at)
{
  std::array<char, 32> stamp {};
  std::tm parts {};
  std::strftime(stamp.data(), stamp.size(), "%Y%m%d-%H%M%S", ::localtime_r(&at, &parts));
  return stamp.data();
}

} // namespace tandem::daemon
