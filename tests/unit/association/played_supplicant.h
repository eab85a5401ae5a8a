// A wpa_supplicant that is played, by datagrams on a socket of the test's own.
#pragma once

#include "src/kernel/fd.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace tandem::association
{

// Answers what it has an answer to, and says nothing else, or `otherwise`. It has heard what it says "" to, and does
// not answer.
class Played
{
public:
  explicit Played(std::map<std::string, std::string, std::less<>> answers, std::string otherwise = {},
                  std::string name = "socket", std::function<void(const std::string& question)> on_question = {})
      : answers_ { std::move(answers) }, otherwise_ { std::move(otherwise) }, name_ { std::move(name) }, on_question_ {
          std::move(on_question)
        }
  {
    std::array<char, 32> fresh { "/tmp/tandem-wpa-XXXXXX" };
    if (::mkdtemp(fresh.data()) == nullptr) throw std::runtime_error { "no directory" };
    directory_ = fresh.data();
    std::filesystem::create_directories(std::filesystem::path { path() }.parent_path());
    sockaddr_un at {};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, path().c_str(), path().size());
    socket_ = kernel::Fd { ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
      throw std::runtime_error { "no socket" };
    thread_ = std::thread { [this] { run(); } };
  }
  ~Played()
  {
    ends_ = true;
    thread_.join();
    std::filesystem::remove_all(directory_);
  }
  std::string path() const { return directory_ + "/" + name_; }
  const std::string& directory() const { return directory_; }

private:
  void run()
  {
    while (!ends_)
    {
      pollfd readable { socket_.get(), POLLIN, 0 };
      if (::poll(&readable, 1, 10) <= 0) continue;
      std::array<char, 4096> question {};
      sockaddr_un from {};
      socklen_t size = sizeof from;
      const ssize_t length =
          ::recvfrom(socket_.get(), question.data(), question.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
      if (length <= 0) continue;
      const std::string asked { question.data(), static_cast<std::size_t>(length) };
      if (on_question_) on_question_(asked);
      const auto found = answers_.find(asked);
      const std::string& answer = found == answers_.end() ? otherwise_ : found->second;
      if (answer.empty()) continue;
      ::sendto(socket_.get(), answer.data(), answer.size(), 0, reinterpret_cast<const sockaddr*>(&from), size);
    }
  }

  std::map<std::string, std::string, std::less<>> answers_;
  std::string otherwise_;
  std::string name_;
  std::function<void(const std::string&)> on_question_; // before it is answered, in the thread
  std::string directory_ {};
  kernel::Fd socket_ {};
  std::atomic<bool> ends_ = false;
  std::thread thread_ {};
};

} // namespace tandem::association
