// The card's own association: moved because somebody says so, or because a module asks for it.
#include "src/association/associator.h"

#include <memory>

namespace tandem::association
{

using nlohmann::json;

std::optional<std::string> Associator::roam(const Mac& ap, Duration patience)
{
  const auto out = std::make_shared<std::string>();
  const Work work = [this, ap, out]
  {
    if (!problem_.empty())
      *out = problem_;
    else if (view_ && (view_->ap == ap || view_->links.contains(ap)))
      *out = interface_ + " is at " + feeder::text(ap) + " already";
    else if (!view_ || heard_of(view_->heard, ap) == nullptr)
      *out = "no access point " + feeder::text(ap) + " is in range; `tandem aps --scan` looks around";
    else
      *out = supplicant_.roam(interface_, ap, frequency_of(view_->heard, ap, 0));
    if (out->empty()) say_(false, interface_ + " was asked to roam to " + feeder::text(ap));
  };
  if (!post_and_wait(work, patience)) return {};
  return *out;
}

void Associator::want_roam(bool wanted)
{
  {
    const std::lock_guard guard { mutex_ };
    roam_wished_ = wanted;
  }
  changed_.notify_one();
}

json Associator::roaming() const
{
  const std::lock_guard guard { mutex_ };
  const Roamer::Counters& counters = roaming_.counters;
  return { { "wanted", roaming_.wanted }, { "asked", counters.asked },   { "moved", counters.moved },
           { "worse", counters.worse },   { "failed", counters.failed }, { "stayed", counters.stayed },
           { "last", roaming_.last } };
}

void Associator::follow_roam(const Situation& now)
{
  Roamer::Seen seen { .now = now.now,
                      .wanted = wanted_,
                      .interface = interface_,
                      .problem = problem_,
                      .own = now.own,
                      .links = view_ ? view_->links : std::set<Mac> {},
                      .heard = now.heard,
                      .networks = now.networks.value_or(std::set<std::string> {}),
                      .stations = !made_.empty() };
  if ((wanted_ || roamer_.busy()) && problem_.empty())
  {
    seen.state = supplicant_.state(interface_);
    if (const auto its = card_.association(interface_)) seen.signal = its->signal;
  }
  const Roamer::Step step = roamer_.look(seen);
  roam_next_ = step.next;
  if (!step.said.empty()) say_(step.problem, step.said);
  if (step.announce)
  {
    // Modules need not get ready for what the user's network forbids. Where nobody tells, the roam itself finds out.
    const std::string why = supplicant_.against(interface_, *step.announce, frequency_of(now.heard, *step.announce, 0));
    if (!why.empty() && supplicant_.problem().empty())
      roamer_.unwanted(why, now.now);
    else
      announce_(true);
  }
  if (step.arrived) announce_(false);
  if (step.ask)
    if (const std::string why = supplicant_.roam(interface_, *step.ask, frequency_of(now.heard, *step.ask, 0));
        !why.empty())
    {
      roamer_.refused(why, now.now);
      say_(true, why);
    }
  const std::lock_guard guard { mutex_ };
  roaming_ = { wanted_, roamer_.counters(), roamer_.last() };
}

} // namespace tandem::association
