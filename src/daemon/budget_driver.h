// Keeps the cellular budget of days and months: counts what the chain spends, tells it what may still be spent, and
// keeps that over restarts. On the packet thread.
#pragma once

#include "src/chain/chain.h"
#include "src/daemon/budget_book.h"
#include "src/daemon/budget_file.h"
#include "src/daemon/config.h"

#include <tandem/units.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::daemon
{

class BudgetDriver
{
public:
  // Reads what was spent where it is kept, and limits the chain. What `config` says may change; what was not kept is
  // from its first limit of a day or a month on.
  BudgetDriver(const Config::Budget& config, bool kept, chain::Chain& chain);
  // What was spent is saved.
  ~BudgetDriver();
  BudgetDriver(const BudgetDriver&) = delete;
  BudgetDriver& operator=(const BudgetDriver&) = delete;

  // Counts on. True when the chain's limit is another one now.
  bool look(Tick now);
  // Nothing happens for a while: what is not saved yet is posted.
  void rest();

  // {today: {by: {NAME: BYTES}, used_bytes, limit_bytes, left_bytes}, month: likewise, since_start: likewise,
  // left_bytes, kept}; a limit that there is none of is null.
  nlohmann::json json() const;

private:
  void begin_to_keep(); // waits for the disk, once
  void count();
  void save(bool open);
  std::optional<std::uint64_t> left() const;

  const Config::Budget& config_;
  chain::Chain& chain_;
  BudgetBook book_ {};
  std::optional<BudgetSaver> saver_ {}; // nothing until there is a limit: nobody asks before
  std::vector<std::uint64_t> counted_;  // of each module
  std::uint64_t counted_all_ = 0;
  std::uint64_t unsaved_ = 0; // bytes
  Tick saved_ {};
};

} // namespace tandem::daemon
