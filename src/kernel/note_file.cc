#include "src/kernel/note_file.h"

#include "src/kernel/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace tandem::kernel
{

namespace
{

constexpr std::size_t longest_note = 64 * 1024;

std::string because(const std::string& what, const std::string& path)
{
  return what + " " + path + ": " + std::strerror(errno);
}

} // namespace

JournalPlace journal_place()
{
  JournalPlace place {};
  std::ifstream { "/proc/sys/kernel/random/boot_id" } >> place.boot;
  struct stat info
  {
  };
  if (stat("/proc/self/ns/net", &info) == 0) place.space = info.st_ino;
  return place;
}

std::string write_note(const std::string& path, const std::string& text)
{
  if (path.empty()) return {};
  if (text.empty()) return unlink(path.c_str()) == 0 || errno == ENOENT ? "" : because("remove", path);
  const std::string fresh = path + ".new";
  unlink(fresh.c_str()); // of a run killed here
  Fd file { open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) };
  if (!file) return because("write", fresh);
  for (std::size_t done = 0; done < text.size();)
  {
    const ssize_t n = write(file.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return because("write", fresh);
    done += static_cast<std::size_t>(n);
  }
  return rename(fresh.c_str(), path.c_str()) == 0 ? "" : because("replace", path);
}

Note read_note(const std::string& path)
{
  if (path.empty()) return {};
  Fd file { open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) };
  if (!file) return { .fault = errno == ENOENT ? "" : std::strerror(errno) };
  struct stat info
  {
  };
  if (fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) return { .fault = "not a regular file" };
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return { .fault = "others than the daemon's user can write it" };
  std::string text(longest_note + 1, '\0');
  std::size_t length = 0;
  for (ssize_t n = 0; length < text.size(); length += static_cast<std::size_t>(n))
    if (n = read(file.get(), text.data() + length, text.size() - length); n <= 0) break;
  if (length > longest_note) return { .fault = "too long" };
  text.resize(length);
  return { .text = std::move(text) };
}

} // namespace tandem::kernel
