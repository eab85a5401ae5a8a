// The one setting of an interface that Tandem changes: with what source address the kernel asks for the cellular
// gateway.
#pragma once

#include <string>

namespace tandem::kernel
{

// The kernel asks "who has the gateway, tell <source of the packet>": with the Wi-Fi address as source a careful
// gateway does not answer on the cell side. arp_announce 2 makes it ask with an address of the cell interface. The
// value before is put back in the end. `note` is a file that says it to the next start (recover()) after this process
// was killed; an empty name: nobody is told.
class ArpAnnounce
{
public:
  explicit ArpAnnounce(std::string note = {}) : note_ { std::move(note) } {}
  ~ArpAnnounce() { restore(); }
  ArpAnnounce(const ArpAnnounce&) = delete;
  ArpAnnounce& operator=(const ArpAnnounce&) = delete;

  void prefer_own_address(const std::string& interface);
  void restore();

  // Puts back what the note of a killed run says, unless somebody has changed it since. Never throws.
  static void recover(const std::string& note) noexcept;

private:
  std::string note_;
  std::string interface_ {};
  std::string before_ {};
};

} // namespace tandem::kernel
