#include "src/daemon/fetch_store.h"

#include "src/chain/guard_fetch.h"

#include <algorithm>
#include <utility>

namespace tandem::daemon
{

namespace
{

using namespace std::chrono_literals;

FetchOutcome unanswered(const fetch::Job& job, std::string_view why, bool final)
{
  return { .flow = job.flow,
           .slot = job.slot,
           .result = { .how = job.fetch.how, .from = job.fetch.from, .to = job.fetch.to, .why = why, .final = final },
           .cell_bytes = chain::fetch_cost(job.fetch.from, job.fetch.to) };
}

} // namespace

bool FetchStore::ask(const fetch::Job& job)
{
  constexpr std::size_t most_asked = 256;
  if (asked_.size() >= most_asked) return false;
  asked_.push_back(job);
  return true;
}

std::optional<FetchOutcome> FetchStore::take(const fetch::Answer& answer)
{
  const auto same = [&](const fetch::Job& job)
  {
    return job.flow == answer.job.flow && job.slot == answer.job.slot && job.fetch.from == answer.job.fetch.from
           && job.fetch.to == answer.job.fetch.to;
  };
  const auto asked = std::find_if(asked_.begin(), asked_.end(), same);
  if (asked == asked_.end()) return {}; // given up
  asked_.erase(asked);
  FetchResult result = answer.result;
  if (result.ok && held_bytes_ + answer.bytes.size() > most_bytes_)
  {
    result.ok = false;
    result.why = "too much is held";
  }
  if (result.ok)
  {
    held_bytes_ += answer.bytes.size();
    held_.push_back(answer);
  }
  return FetchOutcome {
    .flow = answer.job.flow, .slot = answer.job.slot, .result = result, .cell_bytes = answer.cell_bytes
  };
}

const fetch::Answer* FetchStore::find(std::uint64_t flow, Seq from, std::uint32_t length) const
{
  const auto found = std::find_if(held_.begin(), held_.end(),
                                  [&](const fetch::Answer& answer)
                                  {
                                    return answer.job.flow == flow && from.at_or_after(answer.job.fetch.from)
                                           && (from + length).at_or_before(answer.job.fetch.to);
                                  });
  return found == held_.end() ? nullptr : &*found;
}

void FetchStore::forget_acknowledged(flow::Table& flows)
{
  std::erase_if(held_,
                [&](const fetch::Answer& answer)
                {
                  const flow::Flow* flow = flows.by_id(answer.job.flow);
                  if (flow != nullptr && answer.job.fetch.to.after(flow->view.rcv_nxt)) return false;
                  held_bytes_ -= answer.bytes.size();
                  return true;
                });
}

std::vector<FetchOutcome> FetchStore::give_up(Tick now)
{
  // The service itself gives up well before.
  constexpr Duration timeout = 30s;
  std::vector<FetchOutcome> all {};
  std::erase_if(asked_,
                [&](const fetch::Job& job)
                {
                  if (now <= job.fetch.deadline + timeout) return false;
                  all.push_back(unanswered(job, "no answer", false));
                  return true;
                });
  return all;
}

std::vector<FetchOutcome> FetchStore::clear(std::string_view why)
{
  held_.clear();
  held_bytes_ = 0;
  std::vector<FetchOutcome> all {};
  for (const fetch::Job& job : std::exchange(asked_, {}))
    all.push_back(unanswered(job, why, true));
  return all;
}

} // namespace tandem::daemon
