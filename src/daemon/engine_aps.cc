// Access points: what is in range, at which of them the card is, and roaming.
#include "src/daemon/engine.h"
#include "src/daemon/layout.h"
#include "src/daemon/packet_loop.h"
#include "src/daemon/service.h"

#include <tandem/link.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace tandem::daemon
{

using control::Refused;
using nlohmann::json;

namespace
{

using namespace std::chrono_literals;

// Below the second that every call may take.
constexpr Duration patience = 900ms;

[[noreturn]] void busy()
{
  throw Refused { Refused::Kind::busy, "a Wi-Fi driver or wpa_supplicant takes its time; try again" };
}

} // namespace

void Engine::make_associator(const Config& config)
{
  const std::filesystem::path run = config.daemon.socket.parent_path();
  association::AssociatorOptions options { .supplicant = config.links.supplicant,
                                           .script = module_directory(config.daemon.module_dir) / "services/dhcp-lease",
                                           .note = run / "arp_ignore" };
  // What was known last counts while the loop has no time, before it begins and after it has ended.
  const auto known = std::make_shared<association::Surroundings>();
  const auto surroundings = [this, known]
  {
    try
    {
      *known = loop_->ask(
          [this]
          {
            association::Surroundings now { .wifi = loop_->roles().wifi };
            for (const Exclusion& one : loop_->exclusions().known().all())
              if (one.kind == Exclusion::Kind::ssid) now.excluded.insert(one.what);
            return now;
          });
    }
    catch (const Refused&)
    {
    }
    return *known;
  };
  associator_ = std::make_unique<association::Associator>(
      std::move(options), surroundings,
      [](bool problem, const std::string& words) { log(problem ? Severity::warning : Severity::notice, words); });
}

json Engine::aps()
{
  auto told = associator_->snapshot(patience);
  if (!told) busy();
  const auto endpoints = loop_->ask([this] { return loop_->sources().keeper.state().steering.endpoints; });
  for (json& station : (*told)["stations"])
  {
    const std::string address = station.value("address", "");
    station["endpoint"] = std::any_of(endpoints.begin(), endpoints.end(),
                                      [&](const kernel::MptcpEndpoint& one) { return one.address == address; });
  }
  return *told;
}

void Engine::keep_aps(std::uint64_t most)
{
  if (most == 1 || most > most_wifi)
    throw Refused { Refused::Kind::bad_request,
                    "keep: from 2 to " + std::to_string(most_wifi) + " access points, or 0 for the card's own alone" };
  if (most != 0 && !mptcp_setup_)
    throw Refused { Refused::Kind::conflict, "virtual stations are of use with MPTCP endpoints, which Tandem may not "
                                             "make now: start it with `tandem up --mptcp`, or set mptcp.setup" };
  associator_->keep(most);
}

void Engine::scan_aps()
{
  const auto refused = associator_->scan(patience);
  if (!refused) busy();
  if (!refused->empty()) throw Refused { Refused::Kind::conflict, *refused };
}

void Engine::roam(const std::string& ap)
{
  const auto to = feeder::parse_mac(ap);
  if (!to)
    throw Refused { Refused::Kind::bad_request,
                    "ap: the address of an access point such as 02:00:00:00:00:01 is needed" };
  const auto refused = associator_->roam(*to, patience);
  if (!refused) busy();
  if (!refused->empty()) throw Refused { Refused::Kind::conflict, *refused };
}

} // namespace tandem::daemon
