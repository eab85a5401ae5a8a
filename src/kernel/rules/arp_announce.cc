#include "src/kernel/rules/arp_announce.h"

#include "src/kernel/note_file.h"

#include <fstream>
#include <sstream>

namespace tandem::kernel
{

namespace
{

constexpr const char* own_address = "2";

std::string file_of(const std::string& interface)
{
  return "/proc/sys/net/ipv4/conf/" + interface + "/arp_announce";
}

std::string value_of(const std::string& interface)
{
  std::string value;
  std::ifstream { file_of(interface) } >> value;
  return value;
}

bool set(const std::string& interface, const std::string& value)
{
  return static_cast<bool>(std::ofstream { file_of(interface) } << value << std::flush);
}

} // namespace

void ArpAnnounce::prefer_own_address(const std::string& interface)
{
  const std::string value = value_of(interface);
  if (value.empty() || value == own_address) return;
  if (interface_ != interface)
  {
    restore();
    const JournalPlace place = journal_place();
    // First the note: killed between the two, the next start finds the value that it would put back.
    write_note(note_, place.boot + " " + std::to_string(place.space) + " " + interface + " " + value + "\n");
  }
  if (!set(interface, own_address) || interface_ == interface) return;
  interface_ = interface;
  before_ = value;
}

void ArpAnnounce::restore()
{
  if (interface_.empty()) return;
  set(interface_, before_);
  interface_.clear();
  write_note(note_, "");
}

void ArpAnnounce::recover(const std::string& note) noexcept
{
  try
  {
    JournalPlace place;
    std::string interface, before;
    std::istringstream text { read_note(note).text };
    if (text >> place.boot >> place.space >> interface >> before && place == journal_place()
        && interface.find('/') == std::string::npos && (before == "0" || before == "1")
        && value_of(interface) == own_address)
      set(interface, before);
    write_note(note, "");
  }
  catch (const std::exception&)
  {
    // No memory: then it stays as it is, which harms nobody.
  }
}

} // namespace tandem::kernel
