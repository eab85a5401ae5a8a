#include "src/kernel/command.h"

#include "src/kernel/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

extern char** environ;

namespace tandem::kernel
{

namespace
{

using std::chrono::milliseconds, std::chrono::steady_clock;

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

// A program that runs, and this process's ends of its input, output and errors.
struct Started
{
  pid_t process = -1;
  int fault = 0; // an errno; 0: it runs
  Fd input {};
  Fd output {};
  Fd errors {};
};

Started start(const std::string& path, const std::vector<std::string>& words)
{
  Started started {};
  // Input goes by a socket: a program that ends early must not raise SIGPIPE here.
  std::array<int, 2> pair { -1, -1 };
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) return { .fault = errno };
  Pipe in { Fd { pair[0] }, Fd { pair[1] } }, out = make_pipe(), err = out.read ? make_pipe() : Pipe {};
  // Without them it would have this process's own input and output, and its answer would be taken for an empty one.
  if (!err.read) return { .fault = errno };
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
  // A group of its own: where it has to be killed, what it has started goes with it.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments;
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  started.fault = posix_spawn(&started.process, path.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  started.input = std::move(in.write);
  started.output = std::move(out.read);
  started.errors = std::move(err.read);
  return started;
}

// Appends what has come; closes what has ended.
void take(Fd& fd, short events, std::string& text)
{
  if (!fd || events == 0) return;
  std::array<char, 4096> buffer;
  const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
  if (n > 0)
    text.append(buffer.data(), static_cast<std::size_t>(n));
  else if (n == 0 || errno != EINTR)
    fd.reset();
}

// Both ways at once, for neither side may wait for the other. Until all is said, or the time is up.
void exchange(Started& with, const std::string& input, steady_clock::time_point end, CommandResult& result)
{
  std::size_t fed = 0;
  if (input.empty()) with.input.reset();
  while (with.output || with.errors)
  {
    const auto left = std::chrono::ceil<milliseconds>(end - steady_clock::now());
    if (left <= milliseconds::zero()) return;
    std::array<pollfd, 3> polled { pollfd { with.output.get(), POLLIN, 0 }, pollfd { with.errors.get(), POLLIN, 0 },
                                   pollfd { with.input.get(), POLLOUT, 0 } };
    if (poll(polled.data(), polled.size(), static_cast<int>(left.count())) < 0)
    {
      if (errno == EINTR) continue;
      break;
    }
    take(with.output, polled[0].revents, result.output);
    take(with.errors, polled[1].revents, result.errors);
    if (!with.input || polled[2].revents == 0) continue;
    const ssize_t n = send(with.input.get(), input.data() + fed, input.size() - fed, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) fed += static_cast<std::size_t>(n);
    if (fed == input.size() || (n < 0 && errno != EAGAIN && errno != EINTR)) with.input.reset();
  }
}

// Waits for its end; false: it has not come in time. Most end with their last word, and are not slept for. `status`
// stays as it is where the kernel does not keep it: who started this process had SIGCHLD ignored (wait(2)).
bool has_ended(pid_t process, steady_clock::time_point end, std::optional<int>& status)
{
  for (milliseconds nap { 1 };; nap = std::min(2 * nap, milliseconds { 50 }))
  {
    int told = 0;
    const pid_t got = waitpid(process, &told, WNOHANG);
    if (got == process) status = told;
    if (got == process || (got < 0 && errno != EINTR)) return true;
    if (steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(nap);
  }
}

std::string in_seconds(milliseconds time)
{
  std::ostringstream text;
  text << static_cast<double>(time.count()) / 1000 << " s";
  return text.str();
}

} // namespace

CommandResult run(const std::vector<std::string>& words, const std::string& input, milliseconds limit)
{
  const std::string path = find_program(words.front());
  if (path.empty()) return { .status = 127, .errors = words.front() + ": not installed" };
  Started started = start(path, words);
  if (started.fault != 0)
    return { .status = started.fault == ENOENT ? 127 : 126,
             .errors = path + ": cannot be started: " + std::strerror(started.fault) };
  CommandResult result {};
  const steady_clock::time_point end = steady_clock::now() + limit;
  exchange(started, input, end, result);
  std::optional<int> status {};
  if (!has_ended(started.process, end, status))
  {
    kill(-started.process, SIGKILL);
    while (waitpid(started.process, nullptr, 0) < 0 && errno == EINTR)
    {
    }
    result.errors = path + ": has not ended within " + in_seconds(limit) + " and was killed\n" + result.errors;
    return result;
  }
  result.status = status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
  if (!status) result.errors = path + ": how it ended is not known, for SIGCHLD is ignored\n" + result.errors;
  return result;
}

} // namespace tandem::kernel
