#include "tools/trace/link_story.h"

#include "src/trace/chain_input.h"
#include "src/trace/reader.h"

#include <array>
#include <variant>

namespace tandem::trace_tool
{
namespace
{

namespace input = trace::input;

class Story
{
public:
  explicit Story(double times_a_second) : least_ns_ { static_cast<std::int64_t>(1e9 / times_a_second) } {}

  void take(const trace::Recorded& recorded)
  {
    // A packet of which the chain was asked has both clocks.
    if (recorded.input.empty())
    {
      if (recorded.asked && !offset_ns_) offset_ns_ = recorded.time_ns - ticks(recorded.asked->at);
      return;
    }
    const auto one = trace::decode(recorded.input);
    if (!one || !recorded.asked) return;
    at_ = ticks(recorded.asked->at);
    if (const auto* state = std::get_if<input::State>(&*one))
      all(state->links, &state->radio_told);
    else if (const auto* links = std::get_if<input::Links>(&*one))
      all(links->states, nullptr);
    else if (const auto* radio = std::get_if<input::Radio>(&*one))
      note(radio->link, [&](LinkMoment& now) { hear(radio->state, now); });
  }

  // In the time since 1970; nothing when no packet told how the clocks relate.
  std::vector<LinkMoment> finish()
  {
    if (!offset_ns_) return {};
    for (LinkMoment& moment : moments_)
      moment.time_ns += *offset_ns_;
    return std::move(moments_);
  }

private:
  static std::int64_t ticks(Tick at) { return at.time_since_epoch().count(); }

  static void hear(const std::optional<RadioState>& radio, LinkMoment& now)
  {
    now.signal_dbm = radio ? radio->signal : std::nullopt;
    now.delivery = radio ? radio->delivery : std::nullopt;
    now.packet_time_us =
        radio && radio->packet_time ? std::optional { milliseconds(*radio->packet_time) * 1e3 } : std::nullopt;
  }

  void all(const LinkStates& states, const std::array<std::optional<RadioState>, link_count>* radio)
  {
    for (const Link link : all_links)
    {
      const auto i = static_cast<std::size_t>(link);
      if (link == Link::other || (!states[i].present && !known_[i])) continue;
      note(link,
           [&](LinkMoment& now)
           {
             now.up = states[i].up;
             now.at_risk = states[i].at_risk;
             if (radio != nullptr && (*radio)[i]) hear((*radio)[i], now);
           });
    }
  }

  template <typename Change>
  void note(Link link, const Change& change)
  {
    const auto i = static_cast<std::size_t>(link);
    LinkMoment now = known_[i].value_or(LinkMoment { .link = link });
    change(now);
    now.time_ns = at_;
    const bool turned = !known_[i] || now.up != known_[i]->up || now.at_risk != known_[i]->at_risk;
    LinkMoment same = now;
    if (known_[i]) same.time_ns = known_[i]->time_ns;
    if (!turned && (same == *known_[i] || at_ - known_[i]->time_ns < least_ns_)) return;
    known_[i] = now;
    moments_.push_back(now);
  }

  std::int64_t least_ns_;
  std::int64_t at_ = 0;
  std::optional<std::int64_t> offset_ns_ {};
  std::array<std::optional<LinkMoment>, link_count> known_ {}; // as told last
  std::vector<LinkMoment> moments_ {};
};

} // namespace

std::vector<LinkMoment> link_story(const std::filesystem::path& file, double times_a_second)
{
  trace::Reader reader { file, true };
  Story story { times_a_second };
  try
  {
    while (const auto recorded = reader.next())
      story.take(*recorded);
  }
  catch (const trace::BadFile&)
  {
    // Whoever reads the packets says so.
  }
  return story.finish();
}

} // namespace tandem::trace_tool
