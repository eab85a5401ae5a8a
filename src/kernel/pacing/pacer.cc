#include "src/kernel/pacing/pacer.h"

#include "src/kernel/note_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <exception>
#include <set>
#include <stdexcept>
#include <utility>

namespace tandem::kernel
{

using nlohmann::json;

namespace
{

constexpr int note_version = 1;
constexpr std::size_t most_noted = 4 * most_paced;

} // namespace

std::string render_bound(const BoundSockets& bound)
{
  if (bound.empty()) return {};
  const JournalPlace place = journal_place();
  json text {
    { "version", note_version }, { "boot", place.boot }, { "space", place.space }, { "sockets", json::array() }
  };
  for (const auto& [cookie, one] : bound)
    text["sockets"].push_back({ cookie, one.before, one.set, one.was });
  return text.dump(1) + "\n";
}

BoundSockets parse_bound(const std::string& text)
{
  if (text.empty()) return {};
  const json in = json::parse(text);
  if (in.at("version") != note_version) throw std::invalid_argument { "it is of another version of Tandem" };
  const JournalPlace place { .boot = in.at("boot").get<std::string>(), .space = in.at("space").get<std::uint64_t>() };
  if (place != journal_place()) return {};
  const json& all = in.at("sockets");
  if (!all.is_array() || all.size() > most_noted) throw std::invalid_argument { "it names too many sockets" };
  BoundSockets bound {};
  for (const json& one : all)
    bound[one.at(0).get<std::uint64_t>()] = { .before = one.at(1).get<std::uint32_t>(),
                                              .set = one.at(2).get<std::uint32_t>(),
                                              .was = one.at(3).get<std::uint32_t>() };
  return bound;
}

Pacer::Pacer(std::string file, std::unique_ptr<SocketPacing> sockets)
    : file_ { std::move(file) }, sockets_ { std::move(sockets) }
{
  state_.why = sockets_->why();
  state_.how = sockets_->how();
  recover();
}

Pacer::~Pacer()
{
  plan_ = {};
  change();
}

void Pacer::clear(const std::string& file, const PacingProgram& program) noexcept
{
  try
  {
    const Pacer pacer { file, make_socket_pacing(program) };
  }
  catch (const std::exception&)
  {
    // Out of memory: the note stays for the next start.
  }
}

void Pacer::recover() noexcept
try
{
  state_.recovered = sockets_->recovered();
  const Note note = read_note(file_);
  if (!note.fault.empty()) throw std::runtime_error { note.fault };
  bound_ = parse_bound(note.text);
  if (bound_.empty())
  {
    if (!note.text.empty()) write_note(file_, "");
    return;
  }
  if (!state_.why.empty() || !sockets_->leaves_traces())
  {
    // The note stays: a start that may do it finds it.
    state_.recovered = "uploads are still paced by a killed run: "
                       + (state_.why.empty() ? "it had the right to use BPF, this one has not" : state_.why);
    bound_.clear();
    return;
  }
  const std::size_t left = bound_.size();
  change();
  state_.recovered = "the pace of " + std::to_string(left) + " uploads was still bounded by a killed run; put back";
}
catch (const std::exception& error)
{
  bound_.clear();
  state_.recovered = "cannot read " + file_ + ": " + error.what();
}

void Pacer::carry_out(const PacingPlan& plan)
{
  validate(plan);
  plan_ = plan;
  if (!state_.suspended) change();
}

void Pacer::suspend()
{
  const PacingPlan kept = std::exchange(plan_, {});
  change();
  plan_ = kept;
  state_.suspended = true;
}

void Pacer::resume()
{
  state_.suspended = false;
  change();
}

void Pacer::tidy()
try
{
  if (untidy()) sockets_->apply({});
}
catch (const std::exception& error)
{
  state_.last_error = error.what();
}

void Pacer::note(const BoundSockets& bound)
{
  if (!sockets_->leaves_traces()) return;
  if (const std::string fault = write_note(file_, render_bound(bound)); !fault.empty())
    throw std::runtime_error { fault }; // what could not be undone is not begun
}

// What the sockets that are wanted or bound have now.
std::vector<SocketPace> Pacer::read(const std::map<std::uint64_t, std::uint32_t>& wanted)
{
  std::set<std::uint64_t> cookies {};
  for (const auto& [cookie, rate] : wanted)
    if (!left_alone_.contains(cookie)) cookies.insert(cookie);
  for (const auto& [cookie, one] : bound_)
    cookies.insert(cookie);
  std::vector<SocketPace> all {};
  for (const std::uint64_t cookie : cookies)
    all.push_back({ .cookie = cookie });
  if (!all.empty()) sockets_->apply(all);
  return all;
}

// From what is there to what is planned: read, noted for the next start, and only then set, if nobody has set another
// value meanwhile.
void Pacer::change()
{
  if (!state_.why.empty()) return;
  std::erase_if(left_alone_, [this](const auto& one) { return !plan_.rates.contains(one.first); });
  if (plan_.rates.empty() && bound_.empty()) return tidy();
  try
  {
    state_.last_error.clear();
    std::vector<SocketPace> changes {};
    BoundSockets next {}, noted {};
    for (const SocketPace& now : read(plan_.rates))
    {
      const auto wanted = plan_.rates.find(now.cookie);
      const auto known = bound_.find(now.cookie);
      const bool ours = known != bound_.end() && (now.before == known->second.set || now.before == known->second.was);
      if (!now.found || (known != bound_.end() && !ours))
      {
        // What the application has set since is the application's.
        if (known != bound_.end()) ++(now.found ? state_.taken : state_.gone);
        left_alone_[now.cookie] = true;
        continue;
      }
      const std::uint32_t before = ours ? known->second.before : now.before;
      const bool bounds = wanted != plan_.rates.end() && wanted->second < before;
      if (!bounds && !ours)
      {
        ++state_.lower;
        left_alone_[now.cookie] = true;
        continue;
      }
      const std::uint32_t value = bounds ? wanted->second : before;
      noted[now.cookie] = { .before = before, .set = value, .was = now.before };
      if (bounds)
      {
        next[now.cookie] = { .before = before, .set = value, .was = value };
        state_.begun += ours ? 0 : 1;
      }
      else
        ++state_.restored;
      if (value != now.before) changes.push_back({ .cookie = now.cookie, .set = value, .only_if = now.before });
    }
    note(noted);
    bound_ = noted; // whichever of both values it finds is Tandem's, if this goes no further
    if (!changes.empty()) sockets_->apply(changes);
    for (const SocketPace& one : changes)
    {
      if (one.error.empty()) continue;
      state_.last_error = "an upload cannot be paced: " + one.error;
      const BoundSocket& kept = noted[one.cookie];
      if (kept.was != kept.before)
        next[one.cookie] = kept; // it still has a value of Tandem's
      else
        state_.begun -= next.erase(one.cookie);
    }
    bound_ = std::move(next);
    note(bound_);
  }
  catch (const std::exception& error)
  {
    state_.last_error = error.what();
  }
  state_.paced = bound_.size();
}

} // namespace tandem::kernel
