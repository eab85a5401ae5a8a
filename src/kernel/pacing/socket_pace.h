// How fast TCP sockets of other processes may send, by their cookies: SO_MAX_PACING_RATE, or what comes nearest to it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tandem::kernel
{

struct SocketPace
{
  std::uint64_t cookie = 0;
  // Bytes per second to set if the value is `only_if`; 0: only read.
  std::uint32_t set = 0;
  std::uint32_t only_if = 0;

  // Out: whether there is such a socket; the value that it had; what went wrong, empty: nothing.
  bool found = false;
  std::uint32_t before = 0;
  std::string error {};
};

class SocketPacing
{
public:
  virtual ~SocketPacing() = default;
  virtual std::string why() const = 0; // why it cannot; empty: it can
  virtual std::string how() const = 0; // by what: "BPF", "HTB"
  // Whether what it has set must be noted, so that somebody else can take it back after a kill -9.
  virtual bool leaves_traces() const = 0;
  virtual std::string recovered() const { return {}; } // what it took back of a killed run; a sentence, or empty
  // Something of what it has set is still there although no socket needs it; each apply() tries to take it away.
  virtual bool untidy() const { return false; }
  // Throws std::runtime_error when no socket could be looked at.
  virtual void apply(std::span<SocketPace> sockets) = 0;
};

} // namespace tandem::kernel
