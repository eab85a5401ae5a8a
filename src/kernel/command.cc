#include "src/kernel/command.h"

#include "src/kernel/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>

extern char** environ;

namespace tandem::kernel
{

namespace
{

std::string find_program(const std::string& name)
{
  if (name.find('/') != std::string::npos) return name;
  for (const char* directory : { "/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/", "/usr/local/sbin/" })
    if (std::string path = directory + name; access(path.c_str(), X_OK) == 0) return path;
  return {};
}

struct Pipe
{
  Fd read;
  Fd write;
};

Pipe make_pipe()
{
  std::array<int, 2> ends { -1, -1 };
  if (pipe2(ends.data(), O_CLOEXEC) < 0) return {};
  return { Fd { ends[0] }, Fd { ends[1] } };
}

} // namespace

CommandResult run(const std::vector<std::string>& words, const std::string& input)
{
  CommandResult result;
  std::string path = find_program(words.front());
  if (path.empty())
  {
    result.status = 127;
    result.errors = words.front() + ": not installed";
    return result;
  }
  // Input goes by a socket: a program that ends early must not raise SIGPIPE here.
  std::array<int, 2> pair { -1, -1 };
  (void)socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data());
  Pipe in { Fd { pair[0] }, Fd { pair[1] } }, out = make_pipe(), err = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read.get(), 0);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, err.write.get(), 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // The keeper ignores SIGPIPE and others; its helpers should not inherit that.
  sigset_t defaults;
  sigfillset(&defaults);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> arguments;
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = -1;
  int code = posix_spawn(&child, path.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code != 0)
  {
    result.status = code == ENOENT ? 127 : 126;
    result.errors = path + ": cannot be started";
    return result;
  }
  in.read.reset();
  out.write.reset();
  err.write.reset();

  std::size_t fed = 0;
  if (input.empty()) in.write.reset();
  while (out.read || err.read)
  {
    std::array<pollfd, 3> polled { pollfd { out.read.get(), POLLIN, 0 }, pollfd { err.read.get(), POLLIN, 0 },
                                   pollfd { in.write.get(), POLLOUT, 0 } };
    if (poll(polled.data(), polled.size(), -1) < 0)
    {
      if (errno == EINTR) continue;
      break;
    }
    auto take = [](Fd& fd, short events, std::string& text)
    {
      if (!fd || events == 0) return;
      std::array<char, 4096> buffer;
      ssize_t n = read(fd.get(), buffer.data(), buffer.size());
      if (n > 0)
        text.append(buffer.data(), static_cast<std::size_t>(n));
      else if (n == 0 || errno != EINTR)
        fd.reset();
    };
    take(out.read, polled[0].revents, result.output);
    take(err.read, polled[1].revents, result.errors);
    if (in.write && polled[2].revents != 0)
    {
      ssize_t n = send(in.write.get(), input.data() + fed, input.size() - fed, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) fed += static_cast<std::size_t>(n);
      if (fed == input.size() || (n < 0 && errno != EAGAIN && errno != EINTR)) in.write.reset();
    }
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
  {
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

} // namespace tandem::kernel
