#include "src/evidence/cell_name.h"

namespace tandem::evidence
{

const std::string& CellName::of(const CellSeen& now)
{
  // A modem that searches, or a ModemManager that restarts, says nothing for a while: a link by this interface is the
  // last known operator's until another one is told.
  const bool other_operator = !now.operator_code.empty() && now.operator_code != last_.operator_code;
  if (now.interface == last_.interface && !other_operator) return name_;
  last_ = now;
  name_ = now.interface;
  if (!name_.empty() && !now.operator_code.empty()) name_ += ' ' + now.operator_code;
  return name_;
}

bool means(std::string_view meant, std::string_view cell)
{
  return !meant.empty() && (meant == cell || meant == cell.substr(0, cell.find(' ')));
}

} // namespace tandem::evidence
