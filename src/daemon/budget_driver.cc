#include "src/daemon/budget_driver.h"

#include "src/daemon/service.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

namespace tandem::daemon
{

namespace
{

constexpr Duration between_saves = std::chrono::seconds { 5 };
// While more is unsaved than a daemon that is killed is charged for.
constexpr Duration between_saves_in_haste = std::chrono::seconds { 1 };
constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

std::uint64_t left_of(std::uint64_t limit, std::uint64_t used)
{
  return limit - std::min(limit, used);
}

nlohmann::json period_json(const Spent& by, std::optional<std::uint64_t> limit)
{
  const std::uint64_t used = sum(by);
  nlohmann::json all {
    { "by", nlohmann::json::object() }, { "used_bytes", used }, { "limit_bytes", nullptr }, { "left_bytes", nullptr }
  };
  for (const auto& [name, bytes] : by)
    all["by"][name] = bytes;
  if (limit) all["limit_bytes"] = *limit, all["left_bytes"] = left_of(*limit, used);
  return all;
}

} // namespace

BudgetDriver::BudgetDriver(const Config::Budget& config, bool kept, chain::Chain& chain)
    : config_ { config }, chain_ { chain }, counted_(chain.module_count())
{
  book_.move(calendar_now());
  if (kept) begin_to_keep();
  look(Tick {});
}

void BudgetDriver::begin_to_keep()
{
  BudgetFile file { config_.directory };
  book_.add(file.load(calendar_now(), config_.cell_day.value_or(BudgetFile::uncounted)));
  std::string problem = file.problem();
  // Open from now on: whoever is killed has not told the last of what it spent.
  if (!file.save(book_.text(true)) && problem.empty()) problem = file.problem();
  if (!problem.empty()) log(Severity::warning, problem);
  saver_.emplace(std::move(file), [](const std::string& said) { log(Severity::warning, said); });
}

BudgetDriver::~BudgetDriver()
{
  count();
  save(false);
}

void BudgetDriver::count()
{
  book_.move(calendar_now());
  const std::uint64_t all = chain_.stats().cell_bytes;
  std::uint64_t by_modules = 0;
  for (std::size_t i = 0; i < chain_.module_count(); ++i)
  {
    const std::uint64_t bytes = chain_.stats(i).cell_bytes;
    // A segment that could not be edited is taken back.
    const std::uint64_t more = bytes - std::min(bytes, counted_[i]);
    if (more > 0) book_.spend(chain_.module(i).name(), more);
    by_modules += more;
    counted_[i] = std::max(bytes, counted_[i]);
  }
  const std::uint64_t more = all - std::min(all, counted_all_);
  // What nobody's decision is answerable for alone: what fetching costs beside the bytes that were asked for.
  if (more > by_modules) book_.spend("fetch", more - by_modules);
  counted_all_ = std::max(all, counted_all_);
  unsaved_ += more;
}

std::optional<std::uint64_t> BudgetDriver::left() const
{
  std::optional<std::uint64_t> least {};
  const auto take = [&least](std::optional<std::uint64_t> limit, std::uint64_t used)
  {
    if (!limit) return;
    least = std::min(least.value_or(no_limit), left_of(*limit, used));
  };
  take(config_.cell_day, sum(book_.today()));
  take(config_.cell_month, sum(book_.this_month()));
  take(config_.cell_bytes, chain_.stats().cell_bytes);
  return least;
}

bool BudgetDriver::look(Tick now)
{
  count();
  if (!saver_ && (config_.cell_day || config_.cell_month)) begin_to_keep();
  if (unsaved_ > 0 && now - saved_ >= (unsaved_ < BudgetFile::uncounted ? between_saves : between_saves_in_haste))
  {
    saved_ = now;
    save(true);
  }
  const auto rest = left();
  const std::uint64_t limit = rest ? chain_.stats().cell_bytes + *rest : no_limit;
  if (limit == chain_.options().cell_budget) return false;
  chain_.limit_cell(limit);
  return true;
}

void BudgetDriver::rest()
{
  count();
  if (unsaved_ > 0) save(true);
}

void BudgetDriver::save(bool open)
{
  if (saver_) saver_->post(book_.text(open));
  unsaved_ = 0;
}

nlohmann::json BudgetDriver::json() const
{
  Spent now {};
  std::uint64_t by_modules = 0;
  for (std::size_t i = 0; i < chain_.module_count(); ++i)
    if (const std::uint64_t bytes = chain_.stats(i).cell_bytes; bytes > 0)
    {
      now[std::string { chain_.module(i).name() }] = bytes;
      by_modules += bytes;
    }
  if (const std::uint64_t all = chain_.stats().cell_bytes; all > by_modules) now["fetch"] = all - by_modules;
  const auto rest = left();
  return { { "today", period_json(book_.today(), config_.cell_day) },
           { "month", period_json(book_.this_month(), config_.cell_month) },
           { "since_start", period_json(now, config_.cell_bytes) },
           { "left_bytes", rest ? nlohmann::json(*rest) : nlohmann::json(nullptr) },
           { "kept", saver_.has_value() } };
}

} // namespace tandem::daemon
