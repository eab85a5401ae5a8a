// The settings of other interfaces than its own that Tandem changes: how the kernel asks and answers by ARP there.
#pragma once

#include <string>
#include <utility>

namespace tandem::kernel
{

// One setting below net.ipv4.conf.INTERFACE. The value before is put back in the end. `note` is a file that says it to
// the next start (recover()) after this process was killed; an empty name: nobody is told.
class ArpSetting
{
public:
  ArpSetting(std::string name, std::string value, std::string note)
      : name_ { std::move(name) }, wanted_ { std::move(value) }, note_ { std::move(note) }
  {
  }
  ~ArpSetting() { restore(); }
  ArpSetting(const ArpSetting&) = delete;
  ArpSetting& operator=(const ArpSetting&) = delete;

  // Of one interface at a time.
  void set(const std::string& interface);
  void restore();

  // Puts back what the note of a killed run says, unless somebody has changed it since. Never throws.
  void recover() noexcept;

private:
  std::string file_of(const std::string& interface) const;

  std::string name_, wanted_;
  std::string note_;
  std::string interface_ {};
  std::string before_ {};
};

// The kernel asks "who has the gateway, tell <source of the packet>": with the Wi-Fi address as source a careful
// gateway does not answer on the cell side. arp_announce 2 makes it ask with an address of the cell interface.
struct ArpAnnounce : ArpSetting
{
  explicit ArpAnnounce(std::string note = {}) : ArpSetting { "arp_announce", "2", std::move(note) } {}
};

// The kernel answers on each interface for the addresses of all: of two in one network, the gateway believes whichever
// answers first. arp_ignore 1 makes an interface answer for its own addresses only.
struct ArpIgnore : ArpSetting
{
  explicit ArpIgnore(std::string note = {}) : ArpSetting { "arp_ignore", "1", std::move(note) } {}
};

} // namespace tandem::kernel
