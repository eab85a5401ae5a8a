// The command line's side of the control API.
#pragma once

#include <tandem/units.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace tandem::cli
{

inline constexpr int exit_bad_input = 2;
// Where the daemon listens unless told otherwise.
inline constexpr const char* default_socket = "/run/tandem/control.sock";

// A command that could not be carried out, in words for the user, with the exit code: 1 failure, 2 bad input.
class Failure : public std::runtime_error
{
public:
  explicit Failure(const std::string& what, int code = 1) : std::runtime_error { what }, exit_code { code } {}
  int exit_code;
};

// Nobody answers on the control socket.
class NotRunning : public Failure
{
public:
  using Failure::Failure;
};

class Client
{
public:
  explicit Client(std::filesystem::path socket) : socket_ { std::move(socket) } {}

  // The body of a 200 answer. Throws NotRunning; Failure with the daemon's own words and exit code 2 when it answers
  // 400, with exit code 1 otherwise.
  std::string get(const std::string& target, Duration timeout = std::chrono::seconds { 5 }) const;
  nlohmann::json get_json(const std::string& target, Duration timeout = std::chrono::seconds { 5 }) const;
  nlohmann::json put(const std::string& target, const nlohmann::json& body) const;
  nlohmann::json post(const std::string& target, const nlohmann::json& body) const;

  const std::filesystem::path& socket() const { return socket_; }

private:
  std::filesystem::path socket_;

  std::string request(const std::string& method, const std::string& target, const std::string& body,
                      Duration timeout) const;
  // The daemon's answer to a change.
  nlohmann::json change(const std::string& method, const std::string& target, const nlohmann::json& body) const;
};

} // namespace tandem::cli
