#include "tools/tandem/life.h"

#include "src/daemon/layout.h"
#include "src/daemon/lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>
#include <thread>

namespace tandem::cli
{
namespace
{

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr const char* unit = "tandemd.service";
// What the packaged configuration (packaging/tandem.toml) switches on, too.
constexpr std::array default_modules { "offload", "freeze", "mirror", "ecn" };
const fs::path drop_in = "/run/systemd/system/tandemd.service.d/50-tandem-up.conf";

std::vector<char*> argument_list(std::vector<std::string>& words)
{
  std::vector<char*> list;
  for (std::string& word : words)
    list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

enum class Output
{
  shown,
  unseen,
  as_errors
};

// Runs a program and waits; its exit code, 127 when it cannot be run.
int run(std::vector<std::string> words, Output output)
{
  const auto list = argument_list(words);
  const pid_t child = ::fork();
  if (child < 0) throw Failure { std::string { "fork: " } + std::strerror(errno) };
  if (child == 0)
  {
    const int null = output == Output::unseen ? ::open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (null >= 0)
      for (const int descriptor : { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO })
        ::dup2(null, descriptor);
    if (output == Output::as_errors) ::dup2(STDERR_FILENO, STDOUT_FILENO);
    ::execvp(list[0], list.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
  {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool unit_is_installed()
{
  return fs::is_directory("/run/systemd/system") && run({ "systemctl", "cat", unit }, Output::unseen) == 0;
}

// Whether this process and that one are in one network namespace. What cannot be read counts as yes.
bool shares_network_with(pid_t process)
{
  std::error_code fault;
  const fs::path own = fs::read_symlink("/proc/self/ns/net", fault);
  if (fault) return true;
  const fs::path others = fs::read_symlink("/proc/" + std::to_string(process) + "/ns/net", fault);
  return fault || own == others;
}

bool by_systemd(const Client& client)
{
  const Caller caller { .unit_installed = unit_is_installed(),
                        .machines_network = shares_network_with(1),
                        .default_socket = client.socket() == default_socket };
  return cli::by_systemd(caller);
}

// Network namespaces have one /run: in the lab the machine's own daemon is met at the default socket.
void leave_the_machines_alone(const daemon::LockState& lock, const Client& client)
{
  if (!lock.owner_runs || shares_network_with(1) || shares_network_with(lock.owner)) return;
  throw Failure { "the tandemd of " + client.socket().string() + " (process " + std::to_string(lock.owner)
                  + ") is in another network namespace; use another socket: --socket, or TANDEM_SOCKET" };
}

fs::path daemon_program()
{
  const fs::path here = program_directory();
  std::error_code fault;
  for (const fs::path& candidate : { here / "tandemd", here / "../sbin/tandemd" })
    if (fs::exists(candidate, fault)) return fs::weakly_canonical(candidate, fault);
  throw Failure { "tandemd is neither beside " + here.string() + "/tandem nor in ../sbin; is the installation whole?" };
}

std::vector<std::string> daemon_arguments(const UpOptions& options, const Client& client, bool with_socket)
{
  std::vector<std::string> words { daemon_program().string() };
  const auto add = [&](const char* option, const std::string& value)
  {
    if (value.empty()) return;
    words.emplace_back(option);
    words.push_back(value);
  };
  std::error_code fault;
  // The daemon may run elsewhere than in this directory.
  add("--config", options.config.empty() ? "" : fs::absolute(options.config, fault).string());
  add("--wifi", options.wifi);
  add("--cell", options.cell);
  if (with_socket) add("--socket", client.socket().string());
  for (const std::string& module : options.modules)
    add("--module", module);
  for (const std::string& module : options.default_modules)
    add("--default-module", module);
  for (const std::string& setting : options.settings)
    add("--set", setting);
  return words;
}

// One word of a unit's command line (systemd.syntax(7)).
std::string unit_word(const std::string& word)
{
  std::string out = "\"";
  for (const char c : word)
  {
    if (c == '\n') throw Failure { "an option holds a line break", exit_bad_input };
    if (c == '"' || c == '\\') out += '\\';
    out += c;
    if (c == '%' || c == '$') out += c; // specifiers and variables
  }
  return out + '"';
}

void say_up(const Client& client)
{
  const auto status = client.get_json("/v1/status");
  std::string on;
  for (const auto& module : status.value("modules", nlohmann::json::array()))
    if (module.value("enabled", false)) on += (on.empty() ? "" : ", ") + module.value("name", "?");
  std::cout << "tandemd is up (process " << status.value("pid", 0)
            << "), modules on: " << (on.empty() ? "none; switch one on: tandem module NAME on" : on) << '\n';
}

// The unit has ProtectHome and PrivateTmp: the daemon finds nothing there, whoever calls.
bool unseen_by_service(const fs::path& file)
{
  std::error_code fault;
  const std::string path = fs::weakly_canonical(fs::absolute(file, fault), fault).string();
  const std::array<std::string_view, 5> places { "/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/" };
  return std::any_of(places.begin(), places.end(), [&](std::string_view place) { return path.starts_with(place); });
}

// What `tandem up` has asked systemd for. The directory is left where somebody else has something there, too.
void forget_drop_in()
{
  std::error_code fault;
  if (!fs::remove(drop_in, fault)) return;
  fs::remove(drop_in.parent_path(), fault);
  run({ "systemctl", "daemon-reload" }, Output::unseen);
}

// Takes back what `tandem up` has asked for: neither a later start nor systemd's next attempt shall meet it unasked.
[[noreturn]] void give_up(const UpOptions& options, std::time_t asked)
{
  if (options.any())
  {
    run({ "systemctl", "stop", unit }, Output::unseen);
    forget_drop_in();
    run({ "systemctl", "reset-failed", unit }, Output::unseen);
  }
  run({ "journalctl", "--quiet", "--no-pager", "--output=cat", "--identifier=tandemd",
        "--since=@" + std::to_string(asked) },
      Output::as_errors);
  std::string text = std::string { "systemd could not start " } + unit + "; see: journalctl -u " + unit;
  if (!options.config.empty() && unseen_by_service(options.config))
    text += ". The service may not look into home directories, /tmp and /var/tmp: copy " + options.config
            + " to /etc/tandem";
  throw Failure { text };
}

int up_by_systemd(const UpOptions& options, const Client& client)
{
  const std::time_t asked = std::time(nullptr);
  std::error_code fault;
  if (options.any())
  {
    // In /run: forgotten with the next boot, or `tandem down`. Under its name once it is whole: systemd takes no other.
    std::string words;
    for (const std::string& word : daemon_arguments(options, client, false))
      words += unit_word(word) + ' ';
    const std::string text = "# Written by `tandem up`, removed by `tandem down`.\n[Service]\nExecStart=\nExecStart="
                             + words + "\nExecReload=\nExecReload=" + words
                             + "\"--check\"\n" // as the unit does: the second only after the first
                               "ExecReload=/bin/sh -c 'kill -HUP $MAINPID'";
    fs::create_directories(drop_in.parent_path(), fault);
    const fs::path part = drop_in.string() + ".part";
    std::ofstream out { part };
    out << text << '\n';
    out.close();
    if (!out || ::rename(part.c_str(), drop_in.c_str()) != 0)
    {
      const int why = errno;
      fs::remove(part, fault);
      throw Failure { drop_in.string() + ": " + std::strerror(why)
                      + (why == EACCES || why == ENOENT ? "; run as root" : "") };
    }
    run({ "systemctl", "daemon-reload" }, Output::unseen);
  }
  else
    forget_drop_in();
  if (run({ "systemctl", "start", unit }, Output::shown) != 0) give_up(options, asked);
  say_up(client);
  return 0;
}

std::string tail(const fs::path& file)
{
  std::ifstream in { file };
  std::ostringstream all;
  all << in.rdbuf();
  const std::string text = all.str();
  constexpr std::size_t most = 4000;
  return text.size() <= most ? text : "..." + text.substr(text.size() - most);
}

// Waits until the child answers on the socket, or has ended.
int wait_until_up(pid_t child, const Client& client, const fs::path& log)
{
  constexpr auto timeout = 20s; // the first rules may wait for another program's xtables lock
  const auto give_up = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < give_up)
  {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child)
    {
      std::cerr << tail(log);
      if (WIFEXITED(status)) return WEXITSTATUS(status);
      throw Failure { "tandemd was ended by signal " + std::to_string(WTERMSIG(status)) };
    }
    try
    {
      say_up(client);
      std::cout << "log: " << log.string() << '\n';
      return 0;
    }
    catch (const Failure&)
    {
      std::this_thread::sleep_for(50ms);
    }
  }
  ::kill(child, SIGTERM);
  std::cerr << tail(log);
  throw Failure { "tandemd did not answer within " + std::to_string(timeout.count()) + " s and was stopped" };
}

int up_in_background(const UpOptions& options, const Client& client)
{
  auto words = daemon_arguments(options, client, true);
  const auto list = argument_list(words);
  const fs::path directory = client.socket().parent_path();
  if (::mkdir(directory.c_str(), 0750) != 0 && errno != EEXIST)
    throw Failure { directory.string() + ": " + std::strerror(errno)
                    + (errno == ENOENT ? "; make the directory " + directory.parent_path().string()
                                       : "; run as root, or name another socket: --socket") };
  const fs::path log = directory / "tandemd.log";
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (out < 0)
    throw Failure { log.string() + ": " + std::strerror(errno)
                    + (errno == EACCES || errno == EPERM ? "; run as root" : "") };
  const pid_t child = ::fork();
  if (child < 0) throw Failure { std::string { "fork: " } + std::strerror(errno) };
  if (child == 0)
  {
    ::setsid(); // outlives the terminal
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(null, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    // Nothing of the caller's stays open for as long as the daemon lives: a lock held through it would never be free.
    ::close_range(STDERR_FILENO + 1, ~0U, 0);
    if (::chdir("/") == 0) ::execv(list[0], list.data());
    ::_exit(127);
  }
  ::close(out);
  return wait_until_up(child, client, log);
}

fs::path lock_file(const Client& client)
{
  return client.socket().parent_path() / "tandemd.lock";
}

// Waits for the lock, so that the keeper has cleared up too.
bool gone_within(const Client& client, std::chrono::milliseconds timeout)
{
  for (auto waited = 0ms; waited < timeout; waited += 20ms)
  {
    if (!daemon::look_at_lock(lock_file(client)).held) return true;
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

} // namespace

int up(const UpOptions& options, const Client& client)
{
  // The daemon does not run in this directory.
  if (!client.socket().is_absolute())
    throw Failure { "--socket " + client.socket().string() + ": an absolute path is needed", exit_bad_input };
  for (const std::string& setting : options.settings)
    if (setting.starts_with("daemon.socket="))
      throw Failure { "--set " + setting + ": the daemon would be looked for at " + client.socket().string()
                          + "; name its socket by `tandem --socket PATH up`",
                      exit_bad_input };
  // From the lock file rather than the socket, so that a daemon that hangs is found too.
  const auto lock = daemon::look_at_lock(lock_file(client));
  leave_the_machines_alone(lock, client);
  if (lock.owner_runs)
  {
    if (options.any() || options.foreground)
      throw Failure { "tandemd is running already (process " + std::to_string(lock.owner)
                      + "); stop it first: tandem down" };
    std::cout << "tandemd is running already (process " << lock.owner << ")\n";
    return 0;
  }
  // Root without CAP_DAC_OVERRIDE would find neither exclusions nor budget, which the unit's user keeps, and no room
  // for the socket in that user's /run/tandem.
  if (options.foreground && by_systemd(client))
    throw Failure { std::string { "--foreground: " } + unit
                    + " runs as a user of its own here, and what is saved and "
                      "spent is that user's; use `tandem up`, then `tandem logs --follow`" };
  UpOptions chosen = options;
  std::error_code fault;
  if (options.modules.empty() && options.config.empty() && !fs::exists(default_config_file(), fault))
  {
    chosen.default_modules.assign(default_modules.begin(), default_modules.end());
    std::cout
        << "no configuration file and no --module: offload, freeze, mirror and ecn are switched on, unless saved as "
           "off\n";
  }
  if (options.foreground)
  {
    auto words = daemon_arguments(chosen, client, true);
    const auto list = argument_list(words);
    std::cout.flush();
    ::execv(list[0], list.data());
    throw Failure { words[0] + ": " + std::strerror(errno) };
  }
  return by_systemd(client) ? up_by_systemd(chosen, client) : up_in_background(chosen, client);
}

int down(const Client& client)
{
  const auto lock = daemon::look_at_lock(lock_file(client));
  leave_the_machines_alone(lock, client);
  if (by_systemd(client))
  {
    const bool active = run({ "systemctl", "is-active", "--quiet", unit }, Output::unseen) == 0;
    // One that has failed is not active, and systemd starts it again a moment later.
    const bool stops = active || ::geteuid() == 0;
    const int code = stops ? run({ "systemctl", "stop", unit }, Output::shown) : 0;
    if (stops) forget_drop_in();
    if (code != 0) throw Failure { std::string { "systemd could not stop " } + unit + "; see: journalctl -u " + unit };
    if (active)
    {
      std::cout << "tandemd is down\n";
      return 0;
    }
  }
  if (!lock.held)
  {
    std::cout << "tandemd is not running\n";
    return 0;
  }
  const std::string process = "process " + std::to_string(lock.owner);
  if (lock.owner_runs && ::kill(lock.owner, SIGTERM) != 0 && errno != ESRCH)
    throw Failure { process + ": " + std::strerror(errno) + "; run as root" };
  if (!gone_within(client, 5s))
  {
    // Its keeper sees the end and takes rules and routes away.
    if (lock.owner_runs)
    {
      std::cerr << "tandemd (" << process << ") does not stop by itself; killing it\n";
      ::kill(lock.owner, SIGKILL);
    }
    if (!gone_within(client, 10s)) throw Failure { process + " or its keeper cannot be ended" };
  }
  std::cout << "tandemd is down\n";
  return 0;
}

} // namespace tandem::cli
