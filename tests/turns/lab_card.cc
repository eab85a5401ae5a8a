#include "tests/turns/lab_card.h"

#include "src/kernel/clock.h"

#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace tandem::association
{

LabCard::LabCard(const std::string& socket, Duration cost)
    : socket_ { ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) }, cost_ { cost }
{
  sockaddr_un to {};
  to.sun_family = AF_UNIX;
  if (socket.size() >= sizeof to.sun_path) throw std::runtime_error(socket + ": the path is too long");
  std::strcpy(to.sun_path, socket.c_str());
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    throw std::runtime_error(socket + ": " + std::strerror(errno) + "; is the lab up, and with air?");
}

Presence::Report LabCard::order(const std::string& station, bool present)
{
  if (present) std::this_thread::sleep_for(cost_);
  const std::string words = nlohmann::json {
    { "cmd", "set" }, { "key", "wifi.blackout" }, { "value", present ? "none" : "buffer" }, { "interface", station }
  }.dump() + "\n";
  if (::send(socket_.get(), words.data(), words.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(words.size()))
    return { kernel::now(), std::string { "emulator: " } + std::strerror(errno) };
  std::string answer {};
  while (answer.empty() || answer.back() != '\n')
  {
    std::array<char, 4096> piece {};
    pollfd readable { socket_.get(), POLLIN, 0 };
    const ssize_t length = ::poll(&readable, 1, 1000) == 1 ? ::recv(socket_.get(), piece.data(), piece.size(), 0) : 0;
    if (length <= 0) return { kernel::now(), "the emulator does not answer" };
    answer.append(piece.data(), static_cast<std::size_t>(length));
  }
  const nlohmann::json told = nlohmann::json::parse(answer, nullptr, false);
  const bool done = told.is_object() && told.value("ok", false);
  return { kernel::now(), done ? "" : "the emulator refuses: " + answer };
}

} // namespace tandem::association
