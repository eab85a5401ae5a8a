#include "src/kernel/rules/arp_setting.h"

#include "src/kernel/interface_setting.h"
#include "src/kernel/note_file.h"

#include <exception>
#include <sstream>

namespace tandem::kernel
{

std::string ArpSetting::file_of(const std::string& interface) const
{
  return "ipv4/conf/" + interface + "/" + name_;
}

void ArpSetting::set(const std::string& interface)
{
  const std::string value = interface_setting(file_of(interface));
  if (value.empty() || value == wanted_) return;
  if (interface_ != interface)
  {
    restore();
    const JournalPlace place = journal_place();
    // First the note: killed between the two, the next start finds the value that it would put back.
    write_note(note_, place.boot + " " + std::to_string(place.space) + " " + interface + " " + value + "\n");
  }
  if (!set_interface(file_of(interface), wanted_) || interface_ == interface) return;
  interface_ = interface;
  before_ = value;
}

void ArpSetting::restore()
{
  if (interface_.empty()) return;
  set_interface(file_of(interface_), before_);
  interface_.clear();
  write_note(note_, "");
}

void ArpSetting::recover() noexcept
{
  try
  {
    JournalPlace place;
    std::string interface, before;
    std::istringstream text { read_note(note_).text };
    if (text >> place.boot >> place.space >> interface >> before && place == journal_place()
        && interface.find('/') == std::string::npos && (before == "0" || before == "1" || before == "2")
        && interface_setting(file_of(interface)) == wanted_)
      set_interface(file_of(interface), before);
    write_note(note_, "");
  }
  catch (const std::exception&)
  {
    // No memory: then it stays as it is, which harms nobody.
  }
}

} // namespace tandem::kernel
