#include "src/feeder/sources/nl80211_source.h"

#include <linux/nl80211.h>
#include <net/if.h>
#include <netlink/attr.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace tandem::feeder
{

namespace
{

constexpr std::array<const char*, 3> groups { NL80211_MULTICAST_GROUP_MLME, NL80211_MULTICAST_GROUP_SCAN,
                                              NL80211_MULTICAST_GROUP_CONFIG };
// An event may still be on its way when a reading says the opposite.
constexpr unsigned readings_that_convince = 2;

} // namespace

Nl80211Source::Nl80211Source(std::string interface, Nl80211Settings settings)
    : interface_ { std::move(interface) }, settings_ { settings }
{
  reopen(Tick {});
}

bool Nl80211Source::ended(const std::string& what, int error)
{
  problem_ = nl80211::Socket::explain("nl80211 on " + interface_ + ": " + what, error);
  events_.close();
  questions_.close();
  known_ = false;
  return false;
}

bool Nl80211Source::reopen(Tick now)
{
  if (events_ && questions_) return true;
  ifindex_ = if_nametoindex(interface_.c_str());
  if (ifindex_ == 0) return ended("looking the interface up", ENODEV);
  if (const int error = events_.open(groups); error != 0) return ended("listening", error);
  if (const int error = questions_.open(); error != 0) return ended("connecting", error);
  // Whether it is a Wi-Fi interface shows with the first question.
  if (const int error = ask_what_it_is(); error != 0) return ended("asking what it is", error);
  problem_.clear();
  station_due_ = now;
  survey_due_ = std::max(survey_due_, now);
  scan_due_ = std::max(scan_due_, now);
  scan_wanted_ = surveys_ = true;
  known_ = false;
  disagreed_ = 0;
  set_threshold();
  return true;
}

// 0 or a positive errno.
int Nl80211Source::ask_what_it_is()
{
  std::optional<nl80211::Interface> its {};
  const int error = questions_.ask(
      NL80211_CMD_GET_INTERFACE, false, [this](nl_msg* m) { nla_put_u32(m, NL80211_ATTR_IFINDEX, ifindex_); },
      [&](std::span<const std::byte> bytes)
      {
        if (auto one = nl80211::decode_interface(bytes)) its = std::move(one);
      });
  if (error != 0) return error;
  if (!its) return ENODEV;
  client_ = its->is_client();
  turned_ = false;
  return 0;
}

void Nl80211Source::set_threshold()
{
  if (!settings_.signal_threshold || !questions_) return;
  const int error = questions_.ask(
      NL80211_CMD_SET_CQM, false,
      [this](nl_msg* m)
      {
        nla_put_u32(m, NL80211_ATTR_IFINDEX, ifindex_);
        nlattr* nest = nla_nest_start(m, NL80211_ATTR_CQM);
        nla_put_s32(m, NL80211_ATTR_CQM_RSSI_THOLD, *settings_.signal_threshold);
        nla_put_u32(m, NL80211_ATTR_CQM_RSSI_HYST, settings_.signal_hysteresis);
        nla_nest_end(m, nest);
      },
      nullptr);
  threshold_problem_ =
      error == 0 ? "" : nl80211::Socket::explain("nl80211 on " + interface_ + ": setting a signal threshold", error);
}

Tick Nl80211Source::due() const
{
  if (!events_) return Tick::max();
  Tick next = station_due_;
  if (surveys_) next = std::min(next, survey_due_);
  if (scan_wanted_) next = std::min(next, scan_due_);
  return next;
}

bool Nl80211Source::receive(Tick now, std::vector<Report>& reports)
{
  if (!events_) return false;
  const int heard = events_.listen([&](std::span<const std::byte> bytes) { take_event(bytes, now, reports); });
  if (heard == ENOBUFS)
  {
    ++skipped_; // the next readings tell what was missed, of scans too
    scan_wanted_ = true;
  }
  else if (heard != 0)
    return ended("listening", heard);

  if (!questions_)
  {
    if (const int error = questions_.open(); error != 0) return ended("connecting", error);
  }
  if (now >= station_due_)
  {
    station_due_ = now + settings_.period;
    const int error = poll_station(now, reports);
    if (error == ENODEV) return ended("reading the counters", error);
    // Events, surveys and scan results come all the same.
    problem_ = error == 0 ? "" : nl80211::Socket::explain("nl80211 on " + interface_ + ": reading the counters", error);
  }
  if (surveys_ && now >= survey_due_ && questions_)
  {
    survey_due_ = now + settings_.slow_period;
    const int error = ask(NL80211_CMD_GET_SURVEY, now, reports);
    if (error == EOPNOTSUPP) surveys_ = false;
    if (error == ENODEV) return ended("reading the survey", error);
  }
  if (scan_wanted_ && now >= scan_due_ && questions_)
  {
    scan_due_ = now + settings_.slow_period;
    scan_wanted_ = false;
    const int error = ask(NL80211_CMD_GET_SCAN, now, reports);
    if (error == ENODEV) return ended("reading scan results", error);
    if (error != 0) scan_wanted_ = true; // EAGAIN: the list changed meanwhile
  }
  return true;
}

void Nl80211Source::take_event(std::span<const std::byte> bytes, Tick now, std::vector<Report>& reports)
{
  const auto message = nl80211::decode(bytes);
  if (!message)
  {
    ++skipped_;
    return;
  }
  if (message->ifindex != ifindex_) return;
  if (message->command == NL80211_CMD_NEW_SCAN_RESULTS) scan_wanted_ = true;
  if (message->command == NL80211_CMD_SET_INTERFACE) turned_ = true;
  if (const auto* change = std::get_if<WifiChange>(&message->what)) changed(*change, now, reports);
}

// The kernel tells one event more than once: the frame that ended an association, then that it has ended.
void Nl80211Source::changed(WifiChange change, Tick now, std::vector<Report>& reports)
{
  using Kind = WifiChange::Kind;
  disagreed_ = 0;
  if (change.kind == Kind::disconnected)
  {
    if (known_ && !ap_) return;
    if (known_ && change.ap && change.ap != ap_) return; // another one than ours: it was only authenticated with
    if (!change.ap) change.ap = ap_;
    ap_.reset();
    known_ = true;
  }
  else if (change.kind == Kind::connected || change.kind == Kind::roamed)
  {
    if (known_ && change.ap && change.ap == ap_) return;
    if (known_ && ap_) change.kind = Kind::roamed;
    ap_ = change.ap;
    known_ = true;
    scan_wanted_ = true;
    station_due_ = now;
    set_threshold(); // does not outlast an association with every driver
  }
  else if (!change.ap)
    change.ap = ap_;
  reports.push_back({ .at = now, .what = change });
}

// Of all that there is, or of one station.
int Nl80211Source::ask(std::uint8_t command, Tick now, std::vector<Report>& reports, const std::optional<Mac>& of)
{
  return questions_.ask(
      command, !of,
      [&](nl_msg* m)
      {
        nla_put_u32(m, NL80211_ATTR_IFINDEX, ifindex_);
        if (of) nla_put(m, NL80211_ATTR_MAC, static_cast<int>(of->size()), of->data());
      },
      [&](std::span<const std::byte> bytes)
      {
        const auto message = nl80211::decode(bytes);
        if (!message)
          ++skipped_;
        else if (message->ifindex && *message->ifindex != ifindex_)
          return;
        else if (const auto* survey = std::get_if<Survey>(&message->what))
          reports.push_back({ .at = now, .what = *survey });
        else if (const auto* candidate = std::get_if<Candidate>(&message->what))
        {
          reports.push_back({ .at = now, .what = *candidate });
          // Nothing else says with whom we were associated before the first event.
          if (refused_ && !ap_ && candidate->associated)
          {
            ap_ = candidate->ap;
            known_ = true;
          }
        }
        else if (const auto* station = std::get_if<StationStats>(&message->what))
          reports.push_back({ .at = now, .what = *station });
      });
}

int Nl80211Source::poll_station(Tick now, std::vector<Report>& reports)
{
  // Each refusal may cost a question to the firmware, and a line in the kernel's log (brcmfmac).
  if (refused_ && !turned_ && now < list_due_)
    return client_ && ap_ ? ask(NL80211_CMD_GET_STATION, now, reports, ap_) : 0;
  list_due_ = now + settings_.slow_period;
  const std::size_t before = reports.size();
  int error = turned_ ? ask_what_it_is() : 0;
  if (error == 0 && client_) error = ask(NL80211_CMD_GET_STATION, now, reports);
  if (error == EAGAIN) return 0; // a list that changed meanwhile: the next one says how it is
  refused_ = error != 0 && error != ENODEV && error != ETIMEDOUT && questions_;
  // Some list none, at times only while there is none, and tell of one that they are asked about (brcmfmac). That they
  // do not know it says nothing of the association: who lists none may know none.
  if (refused_) return client_ && ap_ ? ask(NL80211_CMD_GET_STATION, now, reports, ap_) : 0;
  if (error != 0) return error;
  std::optional<Mac> seen {};
  for (std::size_t i = before; i < reports.size(); ++i)
    if (const auto* station = std::get_if<StationStats>(&reports[i].what)) seen = station->ap;
  reconcile(seen, now, reports);
  return 0;
}

// Events get lost when the socket is full: what the counters belong to says how it is.
void Nl80211Source::reconcile(const std::optional<Mac>& seen, Tick now, std::vector<Report>& reports)
{
  if (!known_)
  {
    known_ = true;
    ap_ = seen;
    return;
  }
  if (seen == ap_)
  {
    disagreed_ = 0;
    return;
  }
  if (++disagreed_ < readings_that_convince) return;
  changed({ .kind = seen ? WifiChange::Kind::connected : WifiChange::Kind::disconnected, .ap = seen ? seen : ap_ }, now,
          reports);
}

} // namespace tandem::feeder
