#include "src/daemon/radio_sources.h"

#include "src/feeder/recording/replay_source.h"
#include "src/feeder/sources/lab_source.h"
#include "src/feeder/sources/modem_source.h"
#include "src/feeder/sources/monitor_source.h"
#include "src/feeder/sources/nl80211_source.h"
#include "src/feeder/sources/rtnetlink_source.h"
#include "src/feeder/sources/source_name.h"
#include "src/feeder/sources/threaded_source.h"

#include <filesystem>

namespace tandem::daemon
{

namespace
{

bool wireless(const std::string& interface)
{
  std::error_code ignored;
  return std::filesystem::exists("/sys/class/net/" + interface + "/phy80211", ignored);
}

std::unique_ptr<feeder::Source> behind_thread(std::unique_ptr<feeder::Source> source)
{
  return std::make_unique<feeder::ThreadedSource>(std::move(source));
}

} // namespace

std::vector<std::unique_ptr<feeder::Source>> make_sources(const std::vector<std::string>& names, bool modem,
                                                          const std::vector<std::string>& interfaces)
{
  const std::string& wifi = interfaces.front();
  std::vector<std::unique_ptr<feeder::Source>> all;
  for (const std::string& name : names)
  {
    if (name == "nl80211" || (name == "auto" && wireless(wifi)))
      all.push_back(behind_thread(std::make_unique<feeder::Nl80211Source>(wifi)));
    else if (name == "monitor")
      all.push_back(std::make_unique<feeder::MonitorSource>(wifi));
    else if (const auto interface = feeder::behind(feeder::monitor_prefix, name))
      all.push_back(std::make_unique<feeder::MonitorSource>(wifi, *interface));
    else if (const auto socket = feeder::behind(feeder::lab_prefix, name))
      all.push_back(std::make_unique<feeder::LabSource>(*socket));
    else if (const auto file = feeder::behind(feeder::replay_prefix, name))
      all.push_back(std::make_unique<feeder::ReplaySource>(*file));
  }
  if (modem) all.push_back(behind_thread(std::make_unique<feeder::ModemSource>()));
  all.push_back(std::make_unique<feeder::RtnetlinkSource>(interfaces));
  return all;
}

} // namespace tandem::daemon
