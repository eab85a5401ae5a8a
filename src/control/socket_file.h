// The control socket's file.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace tandem::control
{

// Binds beside the final name and renames: the socket is never seen with other permissions than its own, and the file
// of a dead daemon is replaced in one step.
class SocketFile
{
public:
  // Throws std::runtime_error with a sentence for the user: another daemon listens there, the directory or the group
  // does not exist, ...
  SocketFile(const std::filesystem::path& path, const std::string& group);
  // Removes the file unless another daemon has put its socket there.
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

  int descriptor = -1; // listens; handed to the acceptor, which closes it

private:
  std::filesystem::path path_;
  ino_t inode_ = 0;
};

} // namespace tandem::control
