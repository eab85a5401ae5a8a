#include "tools/trace/live_replay.h"

#include "src/chain/worth.h"
#include "src/control/literal.h"
#include "src/trace/chain_input.h"
#include "src/trace/reader.h"
#include "src/wire/build.h"
#include "src/wire/edit.h"
#include "src/wire/parse.h"
#include "src/wire/text.h"
#include "tools/trace/bad_request.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <unordered_map>
#include <utility>

namespace tandem::trace_tool
{
namespace
{

namespace input = trace::input;
using trace::Disposition;

// What became of a packet, or was sent beside packets. The bytes and the reason lie elsewhere.
struct Left
{
  Disposition what = Disposition::passed;
  std::span<const std::byte> bytes {}; // as far as the recorder keeps them
  Link by = Link::wifi;
  std::string_view why {};

  bool operator==(const Left& other) const
  {
    return what == other.what && by == other.by && why == other.why
           && std::equal(bytes.begin(), bytes.end(), other.bytes.begin(), other.bytes.end());
  }
  std::string text() const
  {
    std::string text { name(what) };
    if (what == Disposition::edited || what == Disposition::injected)
    {
      const wire::Parsed parsed = wire::parse(bytes, Direction::egress, true, 0, 0);
      text += " by " + std::string { name(by) } + ": "
              + (parsed.ok() ? wire::describe(parsed.segment) : wire::hex_line(bytes, 60));
    }
    return why.empty() ? text : text + " | " + std::string { why };
  }
};

// A packet with all that the recording says of it: an edited one as it came and as it left.
struct Packet
{
  trace::Recorded before {};
  bool edited = false;
  trace::Recorded after {}; // of an edited one
};

Left recorded(const Packet& packet)
{
  const trace::Recorded& last = packet.edited ? packet.after : packet.before;
  return { .what = last.decision->disposition, .bytes = last.bytes, .by = last.link, .why = last.decision->why };
}

struct Hash
{
  std::size_t operator()(const Address& address) const noexcept
  {
    return std::hash<std::string_view> {}({ reinterpret_cast<const char*>(address.bytes.data()), 16 });
  }
};

class LivePlayer
{
public:
  LivePlayer(std::filesystem::path file, const NamedModules& make) : file_ { std::move(file) }, make_ { make } {}

  void take(const Packet& packet)
  {
    const trace::Recorded& one = packet.before;
    number_ = one.number;
    time_ns_ = one.time_ns;
    if (result_.packets++ == 0) result_.first_ns = one.time_ns;
    result_.last_ns = std::max(result_.last_ns, one.time_ns);
    if (!one.decision) return;
    if (!chain_)
    {
      ++result_.skipped;
      return;
    }
    if (one.decision->disposition == Disposition::injected)
    {
      const wire::Parsed parsed =
          wire::parse(one.bytes, one.direction.value_or(Direction::egress), true, 0, one.length);
      pending_.push_back(
          { .sent = true, .flow = parsed.ok() ? std::optional { parsed.segment.key } : std::nullopt, .packet = one });
    }
    else if (one.asked)
      segment(packet);
  }

  void take(const trace::Recorded& recorded)
  {
    ++result_.inputs;
    now_ = recorded.asked->at;
    const auto one = trace::decode(recorded.input);
    if (!one) throw trace::BadFile { file_, {}, "an input of the chain is damaged, or of a later release" };
    if (const auto* state = std::get_if<input::State>(&*one))
      begin(*state);
    else if (chain_)
      std::visit([this](const auto& each) { enter(each); }, *one);
  }

  LiveReplay& result() { return result_; }

private:
  // What the recording shows of the segments that an event made, before the event.
  struct Pending
  {
    bool sent = false;
    std::optional<FlowKey> flow {}; // nothing: it is no segment
    trace::Recorded packet {};

    Left left() const
    {
      return {
        .what = packet.decision->disposition, .bytes = packet.bytes, .by = packet.link, .why = packet.decision->why
      };
    }
  };

  void begin(const input::State& state)
  {
    if (chain_) return;
    // The daemon's has some thousand; what a file says must not take all memory.
    constexpr std::uint64_t most_flows = 1 << 20;
    if (state.capacity > most_flows)
      throw trace::BadFile {
        file_, {}, "says that the daemon had room for " + std::to_string(state.capacity) + " flows: it is damaged"
      };
    std::vector<std::string> names;
    for (const auto& [name, on] : state.modules)
      names.push_back(name);
    modules_ = make_(names);
    for (const std::string& name : names)
      if (std::none_of(modules_.begin(), modules_.end(), [&](const auto& one) { return one->name() == name; }))
        throw BadRequest { "module " + name
                           + " ran when this was recorded and is not here; --module-dir names its directory" };
    std::vector<Module*> all;
    for (const auto& one : modules_)
      all.push_back(one.get());
    chain::Chain::Options options { .seed = state.seed, .cell_budget = state.cell_budget, .worth = chain::worth_bytes };
    options.table.capacity = state.capacity;
    options.table.idle = state.idle;
    options.rest = [this](const FlowView&) { return answer(); };
    chain_.emplace(std::move(options), std::move(all));
    chain_->damage(&damage_);
    chain_->recall({ state.links, state.radio_told, state.rates, state.cell_bytes });
    set(state.knobs);
    for (std::size_t i = 0; i < chain_->module_count() && i < state.modules.size(); ++i)
      chain_->enable(i, state.modules[i].second, now_);
    result_.whole = state.first;
    pending_.clear();
    requests_.clear();
  }

  void set(const std::vector<trace::KnobIs>& knobs)
  {
    for (const trace::KnobIs& knob : knobs)
      for (const auto& module : modules_)
        if (module->name() == knob.module) set(*module, knob);
  }

  void set(Module& module, const trace::KnobIs& recorded)
  {
    for (const auto& knobs : { module.knobs(), module.test_knobs() })
      for (const Knob& knob : knobs)
      {
        if (knob.name != recorded.knob) continue;
        // A file may say anything.
        if (!takes(knob, recorded.value))
          throw trace::BadFile { file_,
                                 {},
                                 recorded.module + "." + recorded.knob + " was " + std::to_string(recorded.value)
                                     + ", which the module here does not take: the file is damaged, or of another "
                                       "release" };
        module.set(knob.name, recorded.value);
      }
  }

  chain::Rest answer()
  {
    const CellDenied denied = std::exchange(denied_, CellDenied::no);
    const std::optional<Duration> known = std::exchange(path_known_, {});
    if (answers_.empty()) return { .cell_denied = denied, .cell_path_known = known };
    const input::RestAnswer one = answers_.front();
    answers_.pop_front();
    return { one.modules, one.watched, one.cell_path_failed, denied, known };
  }

  // ---- inputs ----

  void enter(const input::State&) {}
  void enter(const input::Advanced&)
  {
    call([&] { chain_->advance(now_); });
  }
  void enter(const input::Links& one)
  {
    std::unordered_map<Address, Link, Hash> owners { one.owners.begin(), one.owners.end() };
    call(
        [&]
        {
          chain_->links(one.states, now_,
                        [&](const Address& local)
                        {
                          const auto at = owners.find(local);
                          return at != owners.end() ? at->second : Link::other;
                        });
        });
  }
  void enter(const input::Radio& one)
  {
    call([&] { chain_->radio(one.link, one.state, now_); });
  }
  void enter(const input::Damage& one)
  {
    if (one.whole) damage_.at = {};
    damage_.listening = one.listening;
    damage_.count = one.count;
    for (const auto& [place, at] : one.places)
      if (place < damage_.at.size()) damage_.at[place] = at;
  }
  void enter(const input::Switched& one)
  {
    if (one.slot < chain_->module_count()) call([&] { chain_->enable(one.slot, one.on, now_); });
  }
  void enter(const input::Knobs& one) { set(one.all); }
  void enter(const input::RestAnswer& one) { answers_.push_back(one); }
  void enter(const input::Rests& one)
  {
    if (flow::Flow* flow = chain_->table().find(one.flow))
      chain_->rest(*flow, { one.rest.modules, one.rest.watched, one.rest.cell_path_failed }, now_);
  }
  void enter(const input::CarriedOut&)
  {
    call([] {});
  }
  void enter(const input::PathFailed& one)
  {
    if (flow::Flow* flow = chain_->table().find(one.flow)) flow->view.cell_path_failed = one.failed;
  }
  void enter(const input::PathKnown& one)
  {
    if (flow::Flow* flow = chain_->table().find(one.flow)) flow->view.cell_path_known = one.added_delay;
  }
  void enter(const input::PathAnswer& one) { path_known_ = one.added_delay; }
  void enter(const input::QueueBypassed& one) { one.bypassed ? chain_->queue_bypassed() : chain_->queue_resumed(); }
  void enter(const input::NotSent& one) { pending_.push_back({ .flow = one.flow }); }
  void enter(const input::Spent& one) { chain_->spent(one.bytes); }
  void enter(const input::Fetches& one)
  {
    if (const flow::Flow* flow = chain_->table().find(one.flow))
      leave_out(flow->view.id, "its bytes were fetched a second time, which is not recorded");
  }
  void enter(const input::Request& one) { requests_.push_back(one); }
  void enter(const input::ModuleFault&) { fault_ = true; }
  void enter(const input::CellDenial& one) { denied_ = one.why; }
  void enter(const input::CellLimit& one) { chain_->limit_cell(one.bytes); }

  void enter(const input::Unanswered& one)
  {
    call([&] { chain_->unanswered(one, now_); });
  }

  // Something that concerns no packet.
  template <class Work>
  void call(Work&& work)
  {
    const std::uint64_t faults = this->faults();
    work();
    carry_out();
    if (std::exchange(fault_, false) && this->faults() == faults)
      for (const auto& [id, index] : by_id_)
        leave_out(id, too_long);
  }

  // ---- packets ----

  void segment(const Packet& packet)
  {
    const trace::Recorded& one = packet.before;
    const bool queued = one.decision->disposition != Disposition::observed;
    now_ = one.asked->at;
    // What the recorder did not keep is payload: nobody looks at it, but its length counts.
    bytes_.assign(one.bytes.begin(), one.bytes.end());
    constexpr std::size_t longest_packet = 65'575; // of IPv6; a damaged file may say anything
    bytes_.resize(std::max(bytes_.size(), std::min<std::size_t>(one.asked->seen, longest_packet)));
    wire::Parsed parsed = wire::parse(bytes_, one.direction.value_or(Direction::egress), true, 0, one.length);
    if (!parsed.ok()) return;
    Segment& segment = parsed.segment;
    segment.link = queued ? Link::wifi : one.link;
    segment.received = one.asked->received;

    const std::uint64_t faults = this->faults();
    const chain::Outcome outcome = chain_->segment(segment, queued, now_);
    LiveFlow* flow = outcome.flow != nullptr ? &flow_of(*outcome.flow, segment) : nullptr;
    if (flow != nullptr) ++flow->packets;
    const std::uint64_t id = outcome.flow != nullptr ? outcome.flow->id : 0;
    carry_out();
    if (std::exchange(fault_, false) && this->faults() == faults && id != 0) leave_out(id, too_long);
    if (!queued) return;
    // Forgotten while its segments were carried out it cannot be: advance() alone forgets.
    const Left replayed = decided(one, segment, outcome);
    if (flow != nullptr) judge(*flow, recorded(packet), replayed, segment);
  }

  // What leaves is in bytes_ afterwards.
  Left decided(const trace::Recorded& one, const Segment& segment, const chain::Outcome& outcome)
  {
    Left left { .by = Link::wifi, .why = outcome.why.substr(0, trace::longest_why) };
    const bool refused = one.decision->disposition == Disposition::fault && one.decision->why == trace::not_rerouted;
    if (outcome.verdict == Verdict::drop)
      left.what = Disposition::dropped;
    else if (refused && outcome.edit.route == Link::cell)
    {
      left.what = Disposition::fault;
      left.why = trace::not_rerouted;
      chain_->unedited(segment, outcome, now_);
    }
    else if (outcome.edit.changes_bytes())
    {
      const wire::EditFault fault =
          wire::edit(bytes_, segment, outcome.edit,
                     one.asked->checksum_not_ready ? wire::ChecksumState::partial : wire::ChecksumState::complete);
      left.what = fault == wire::EditFault::none ? Disposition::edited : Disposition::fault;
      if (fault != wire::EditFault::none)
      {
        left.why = wire::name(fault);
        chain_->unedited(segment, outcome, now_);
      }
    }
    if (left.what != Disposition::fault && left.what != Disposition::dropped && outcome.edit.route)
    {
      left.what = Disposition::edited;
      if (*outcome.edit.route == Link::cell) left.by = Link::cell;
    }
    left.bytes = std::span { bytes_ }.first(one.bytes.size());
    return left;
  }

  LiveFlow& flow_of(const FlowView& view, const Segment& first)
  {
    const auto [at, is_new] = by_id_.try_emplace(view.id, result_.flows.size());
    if (is_new)
    {
      result_.flows.push_back({ .key = view.key });
      if (!result_.whole && !first.has(tcp_flag::syn)) leave_out(view.id, "the recording begins in its middle", true);
    }
    return result_.flows[at->second];
  }

  // ---- comparison ----

  void carry_out()
  {
    chain::Output& output = chain_->output();
    for (const chain::Injection& one : output.segments)
    {
      const std::optional<Pending> shown = take_pending(one);
      const bool sent = !shown || shown->sent;
      std::array<std::byte, 256> buffer {};
      std::size_t length = 0;
      if (one.segment.kind == InjectedKind::fill)
        leave_out(one.flow, "its bytes were fetched a second time, which is not recorded");
      else
        length = wire::build(buffer, one.key, one.segment, one.ip_class);
      chain_->sent(one, !sent ? 0 : shown ? shown->packet.length : length);
      LiveFlow* flow = known(one.flow);
      if (flow == nullptr) continue;
      const Left left { .what = Disposition::injected,
                        .bytes = std::span { buffer }.first(length),
                        .by = one.segment.by,
                        .why = one.why.substr(0, trace::longest_why) };
      if (flow->unclaimed.empty()) ++flow->injected;
      if (!shown)
        differ(*flow, nullptr, &left);
      else if (shown->sent)
        compare(*flow, shown->left(), left);
    }
    for (; !pending_.empty(); pending_.pop_front())
      if (pending_.front().sent) unmatched(pending_.front());
    for (const chain::ModuleRequest& one : output.requests)
      judge(one);
    result_.requests_differing += requests_.size();
    requests_.clear();
    answers_.clear();
    denied_ = CellDenied::no;
    path_known_.reset();
    for (const chain::FetchRequest& one : output.fetches)
      leave_out(one.flow, "its bytes were fetched a second time, which is not recorded");
    output.clear();
  }

  // The next one of the flow: those of another may be missing here or there.
  std::optional<Pending> take_pending(const chain::Injection& made)
  {
    const bool segment =
        made.segment.kind != InjectedKind::host_unreachable && made.segment.kind != InjectedKind::own_unreachable;
    const auto at = std::find_if(pending_.begin(), pending_.end(),
                                 [&](const Pending& one) { return one.flow ? *one.flow == made.key : !segment; });
    if (at == pending_.end()) return {};
    Pending one = std::move(*at);
    pending_.erase(at);
    return one;
  }

  void judge(const chain::ModuleRequest& one)
  {
    ++result_.requests;
    const bool same =
        !requests_.empty() && requests_.front().slot == one.slot && requests_.front().request.kind == one.request.kind
        && requests_.front().request.link == one.request.link && requests_.front().request.value == one.request.value;
    if (!requests_.empty()) requests_.pop_front();
    if (!same) ++result_.requests_differing;
  }

  // A recorded segment that the replay did not make.
  void unmatched(const Pending& one)
  {
    LiveFlow* of = nullptr;
    for (LiveFlow& flow : result_.flows)
      if (one.flow == flow.key) of = &flow;
    if (const Left left = one.left(); of != nullptr)
      differ(*of, &left, nullptr);
    else
      ++result_.unmatched;
  }

  void judge(LiveFlow& flow, const Left& recorded, const Left& replayed, const Segment& segment)
  {
    if (!flow.unclaimed.empty()) return;
    ++flow.decided;
    compare(flow, recorded, replayed, &segment);
  }

  void compare(LiveFlow& flow, const Left& recorded, const Left& replayed, const Segment* segment = nullptr)
  {
    if (!(recorded == replayed))
      differ(flow, &recorded, &replayed, segment);
    else if (!replayed.why.empty() && flow.unclaimed.empty())
    {
      const auto at = flow.decisions.find(replayed.why);
      ++(at != flow.decisions.end() ? at : flow.decisions.emplace(replayed.why, 0).first)->second;
    }
  }

  // Null: nothing was injected. The first one is put into words, no other.
  void differ(LiveFlow& flow, const Left* recorded, const Left* replayed, const Segment* segment = nullptr)
  {
    if (!flow.unclaimed.empty()) return;
    ++flow.differing;
    if (flow.first) return;
    flow.first = Difference { .packet = number_,
                              .time_ns = time_ns_,
                              .segment = segment == nullptr ? "" : wire::describe(*segment),
                              .before = recorded == nullptr ? "nothing injected" : recorded->text(),
                              .after = replayed == nullptr ? "nothing injected" : replayed->text(),
                              .leaves = true };
  }

  LiveFlow* known(std::uint64_t id)
  {
    const auto at = by_id_.find(id);
    return at == by_id_.end() ? nullptr : &result_.flows[at->second];
  }

  void leave_out(std::uint64_t id, const std::string& why, bool from_the_start = false)
  {
    LiveFlow* flow = known(id);
    if (flow == nullptr || !flow->unclaimed.empty()) return;
    flow->unclaimed = why;
    flow->unclaimed_from = from_the_start ? 0 : number_;
  }

  std::uint64_t faults() const
  {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < chain_->module_count(); ++i)
      all += chain_->stats(i).faults;
    return all;
  }

  static constexpr const char* too_long = "a module took too long and was taken out: that hangs on the machine's speed";

  std::filesystem::path file_;
  const NamedModules& make_;
  std::vector<std::shared_ptr<Module>> modules_ {}; // outlive the chain
  DamageLog damage_ {};
  std::optional<chain::Chain> chain_ {};
  LiveReplay result_ {};
  std::unordered_map<std::uint64_t, std::size_t> by_id_ {}; // of the chain's flows to result_.flows
  std::deque<Pending> pending_ {};
  std::deque<input::Request> requests_ {};
  std::deque<input::RestAnswer> answers_ {};
  CellDenied denied_ = CellDenied::no;    // beside the next answer
  std::optional<Duration> path_known_ {}; // likewise
  bool fault_ = false;
  std::vector<std::byte> bytes_ {}; // of the packet at hand
  Tick now_ {};
  std::uint64_t number_ = 0;
  std::int64_t time_ns_ = 0;
};

} // namespace

bool LiveReplay::same() const
{
  return (!whole || (requests_differing == 0 && unmatched == 0))
         && std::all_of(flows.begin(), flows.end(), [](const LiveFlow& flow) { return flow.differing == 0; });
}

std::uint64_t LiveReplay::compared() const
{
  std::uint64_t all = requests;
  for (const LiveFlow& flow : flows)
    all += flow.decided + flow.injected;
  return all;
}

bool has_chain_inputs(const std::filesystem::path& file)
{
  trace::Reader reader { file, true };
  try
  {
    for (trace::Recorded one; reader.next(one);)
    {
      if (!one.input.empty()) return true;
      if (!reader.heading()) return false; // of another program: that is known without reading all of it
    }
  }
  catch (const trace::BadFile&)
  {
    // Whoever replays it says so.
  }
  return false;
}

LiveReplay replay_live(const std::filesystem::path& file, const NamedModules& make)
{
  trace::Reader reader { file, true };
  LivePlayer player { file, make };
  std::optional<std::uint64_t> last_id;
  try
  {
    for (Packet packet; reader.next(packet.before);)
    {
      const trace::Recorded& one = packet.before;
      // The recorder was overwritten faster than `tandem trace capture` looked: the chain's state is not known any
      // more.
      if (one.packet_id && last_id && *one.packet_id > *last_id + 1)
        throw trace::BadFile { file,
                               {},
                               std::to_string(*one.packet_id - *last_id - 1) + " packets are missing before packet "
                                   + std::to_string(one.number) };
      if (one.packet_id) last_id = one.packet_id;
      if (!one.input.empty())
      {
        player.take(one);
        continue;
      }
      packet.edited = one.decision && one.decision->part == trace::Part::before;
      if (packet.edited && (!reader.next(packet.after) || !packet.after.same_frame))
        throw trace::BadFile { file, {}, "an edited packet without what became of it" };
      player.take(packet);
    }
  }
  catch (const trace::BadFile& bad)
  {
    if (player.result().packets == 0) throw;
    player.result().fault = bad.what();
  }
  player.result().heading = reader.heading();
  return std::move(player.result());
}

} // namespace tandem::trace_tool
