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

std::string sign_of_wifi(const fs::path& device)
{
  int type = 1; // ARPHRD_ETHER, as of a station
  std::ifstream { device / "type" } >> type;
  if (type != 1) return {};
  if (fs::exists(device / "phy80211")) return "has a phy80211 in sysfs";
  if (fs::exists(device / "wireless")) return "has wireless extensions in sysfs";
  return {};
}

// A USB gadget that makes up its own address, as Android does. An Ethernet adapter has one from its maker; one that has
// none, or is given another, says so in addr_assign_type.
bool has_made_up_address(const fs::path& device)
{
  int assigned = -1; // 0: NET_ADDR_PERM, the device's own
  std::ifstream { device / "addr_assign_type" } >> assigned;
  std::string first;
  std::getline(std::ifstream { device / "address" } >> std::ws, first, ':');
  constexpr unsigned locally_administered = 2; // IEEE 802, of the first octet
  return assigned == 0 && first.size() == 2 && first.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos
         && (std::stoul(first, nullptr, 16) & locally_administered) != 0;
}

std::string sign_of_modem(const fs::path& device)
{
  if (has_devtype(device, "wwan")) return "is a device of type wwan";
  if (has_devtype(device, "bluetooth")) return "is a phone by Bluetooth";
  std::error_code error;
  const std::string driver = fs::read_symlink(device / "device" / "driver", error).filename();
  for (const char* phone : { "ipheth", "rndis_host" })
    if (driver == phone) return "is a phone by USB (" + driver + ")";
  for (const char* any : { "cdc_ncm", "cdc_ether", "cdc_eem" })
    if (driver == any && has_made_up_address(device))
      return "is a phone by USB (" + driver + ", with an address of its own making)";
  const std::string name = device.filename();
  for (const char* prefix : { "wwan", "wwp", "ppp" })
    if (name.rfind(prefix, 0) == 0) return std::string { "is named like a modem (" } + prefix + ")";
  return {};
}

// Those with the sign, the first ones to be taken in front.
template <class Sign>
std::vector<Candidate> candidates(const std::string& sysfs, Sign sign, const std::vector<std::string>& besides)
{
  std::vector<Candidate> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator { sysfs, error })
  {
    const std::string name = entry.path().filename();
    if (std::find(besides.begin(), besides.end(), name) != besides.end()) continue;
    if (std::string why = sign(entry.path()); !why.empty()) all.push_back({ name, why, is_up(entry.path()) });
  }
  std::sort(all.begin(), all.end(),
            [](const Candidate& a, const Candidate& b) { return a.up != b.up ? a.up : a.name < b.name; });
  return all;
}

Found first_of(const std::vector<Candidate>& all, const std::string& remedy)
{
  if (all.empty()) return { "", remedy };
  Found found { all.front().name, all.front().name + " " + all.front().sign };
  for (std::size_t i = 1; i < all.size(); ++i)
    found.why += (i == 1 ? "; also possible: " : ", ") + all[i].name;
  return found;
}

} // namespace

Found find_wifi(const std::vector<std::string>& besides, const std::string& sysfs)
{
  return first_of(candidates(sysfs, sign_of_wifi, besides),
                  "no Wi-Fi interface found: plug one in, or name it: links.wifi in the configuration, or tandem up "
                  "--wifi INTERFACE");
}

Found find_cell(const std::vector<std::string>& besides, const std::string& sysfs)
{
  return first_of(
      candidates(sysfs, sign_of_modem, besides),
      "no cellular interface found: connect the modem, or name it: links.cell in the configuration, or tandem up "
      "--cell INTERFACE (a tethered phone may look like Ethernet)");
}

Found find_wifi(const std::string& sysfs)
{
  return find_wifi({}, sysfs);
}

Found find_cell(const std::string& sysfs)
{
  return find_cell({}, sysfs);
}

std::vector<Candidate> wifi_candidates(const std::vector<std::string>& besides, const std::string& sysfs)
{
  return candidates(sysfs, sign_of_wifi, besides);
}

std::vector<Candidate> cell_candidates(const std::vector<std::string>& besides, const std::string& sysfs)
{
  return candidates(sysfs, sign_of_modem, besides);
}

} // namespace tandem::links
