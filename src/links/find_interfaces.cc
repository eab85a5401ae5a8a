#include "src/links/find_interfaces.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace tandem::links
{

namespace
{

namespace fs = std::filesystem;

bool is_up(const fs::path& device)
{
  std::string state;
  std::ifstream { device / "operstate" } >> state;
  return state == "up" || state == "unknown";
}

bool has_devtype(const fs::path& device, const std::string& type)
{
  std::ifstream file { device / "uevent" };
  for (std::string line; std::getline(file, line);)
    if (line == "DEVTYPE=" + type) return true;
  return false;
}

struct Candidate
{
  std::string name;
  std::string sign;
  bool up = false;
};

template <class Sign>
Found choose(const std::string& sysfs, Sign sign, const std::string& remedy)
{
  std::vector<Candidate> candidates;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator { sysfs, error })
    if (std::string why = sign(entry.path()); !why.empty())
      candidates.push_back({ entry.path().filename(), why, is_up(entry.path()) });
  if (candidates.empty()) return { "", remedy };
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.up != b.up ? a.up : a.name < b.name; });
  Found found { candidates.front().name, candidates.front().name + " " + candidates.front().sign };
  for (std::size_t i = 1; i < candidates.size(); ++i)
    found.why += (i == 1 ? "; also possible: " : ", ") + candidates[i].name;
  return found;
}

} // namespace

Found find_wifi(const std::string& sysfs)
{
  return choose(
      sysfs,
      [](const fs::path& device) -> std::string
      {
        if (fs::exists(device / "phy80211")) return "has a phy80211 in sysfs";
        if (fs::exists(device / "wireless")) return "has wireless extensions in sysfs";
        return {};
      },
      "no Wi-Fi interface found: plug one in, or name it with --wifi INTERFACE");
}

Found find_cell(const std::string& sysfs)
{
  return choose(
      sysfs,
      [](const fs::path& device) -> std::string
      {
        if (has_devtype(device, "wwan")) return "is a device of type wwan";
        const std::string name = device.filename();
        for (const char* prefix : { "wwan", "wwp", "ppp" })
          if (name.rfind(prefix, 0) == 0) return std::string { "is named like a modem (" } + prefix + ")";
        return {};
      },
      "no cellular interface found: connect the modem, or name the interface with --cell INTERFACE (a tethered phone "
      "looks "
      "like Ethernet)");
}

} // namespace tandem::links
