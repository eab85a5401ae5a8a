// Access points: what is in range, at which of them the card is, and roaming.
#include "src/daemon/engine.h"
#include "src/daemon/layout.h"
#include "src/daemon/packet_loop.h"
#include "src/daemon/service.h"

#include <tandem/link.h>

#include <algorithm>
#include <ctime>
#include <functional>
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
  const auto tell = [this](const std::function<void()>& what)
  {
    try
    {
      loop_->ask(what);
    }
    catch (const Refused&)
    {
    }
  };
  const auto announce = [this, tell](bool near)
  {
    // Modules get ready as for any handoff. Should it not come about the warning ends by itself.
    constexpr Duration warning = association::Roamer::ready_for + 2s, back = 500ms;
    tell(
        [&] {
          loop_->watch().announce(near ? links::Announcement::risk : links::Announcement::up, near ? warning : back);
        });
  };
  const auto away = [this, tell](const std::set<std::string>& interfaces)
  { tell([&] { loop_->card_is_away_from(interfaces); }); };
  associator_ = std::make_unique<association::Associator>(
      std::move(options), surroundings, announce, away,
      [](bool problem, const std::string& words) { log(problem ? Severity::warning : Severity::notice, words); });
  if (saved_aps_.keep != 0 && mptcp_setup_) associator_->keep(saved_keep());
  loop_->on_roam([this](bool wanted) { associator_->want_roam(wanted); });
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
  const std::lock_guard guard { settings_mutex_ };
  (*told)["saved"] = saved_aps_.keep;
  return *told;
}

namespace
{

std::string keep_text(const association::Keep& keep)
{
  return std::to_string(keep.most) + (keep.several_channels ? " on several channels" : "");
}

json keep_json(const association::Keep& keep, const char* from)
{
  return { { "value", keep_text(keep) }, { "from", from } };
}

} // namespace

association::Keep Engine::saved_keep() const
{
  return { saved_aps_.keep, saved_aps_.several_channels };
}

void Engine::keep_aps(std::uint64_t most, bool several_channels, bool save)
{
  const association::Keep wanted { most, most != 0 && several_channels };
  if (most == 1 || most > most_wifi)
    throw Refused { Refused::Kind::bad_request,
                    "keep: from 2 to " + std::to_string(most_wifi) + " access points, or 0 for the card's own alone" };
  if (most != 0 && !mptcp_setup_) throw Refused { Refused::Kind::conflict, no_mptcp };
  const std::lock_guard guard { settings_mutex_ };
  associator_->keep(wanted);
  aps_of_run_ = wanted;
  if (wanted == saved_keep()) aps_of_run_.reset();
  if (!save || (most == 0 && saved_aps_.keep == 0)) return;
  const SavedAps fresh = most == 0 ? SavedAps {} : SavedAps { most, std::time(nullptr), wanted.several_channels };
  if (!aps_file_.save(fresh))
    throw Refused { Refused::Kind::conflict,
                    std::string { aps_setting } + " = " + keep_text(wanted)
                        + " holds until the daemon ends, and is not saved: " + aps_file_.problem() };
  saved_aps_ = fresh;
  aps_of_run_.reset();
}

// Beside the settings of modules in `tandem saved`.
void Engine::add_saved_aps(json& saved, json& run) const
{
  const association::Keep below = mptcp_setup_ ? saved_keep() : association::Keep {};
  const char* from = below.most != 0 ? "saved" : "built-in";
  const json in_force = aps_of_run_ ? keep_json(*aps_of_run_, "this run") : keep_json(below, from);
  if (saved_aps_.keep != 0)
    saved.push_back({ { "name", aps_setting },
                      { "value", keep_text(saved_keep()) },
                      { "saved_s", saved_aps_.at_s },
                      { "ignored", mptcp_setup_ ? "" : no_mptcp },
                      { "in_force", in_force },
                      { "without", aps_of_run_ ? in_force : keep_json({}, "built-in") } });
  if (aps_of_run_)
    run.push_back({ { "name", aps_setting }, { "in_force", in_force }, { "without", keep_json(below, from) } });
}

// What is forgotten is no longer in force either, unless it was set for this run.
json Engine::forget_aps()
{
  if (!aps_file_.save({})) throw Refused { Refused::Kind::conflict, "nothing is forgotten: " + aps_file_.problem() };
  saved_aps_ = {};
  if (aps_of_run_ == association::Keep {}) aps_of_run_.reset();
  if (!aps_of_run_) associator_->keep({});
  return { { "name", aps_setting },
           { "in_force", aps_of_run_ ? keep_json(*aps_of_run_, "this run") : keep_json({}, "built-in") } };
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
