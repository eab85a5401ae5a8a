// What a cellular link is called in what was learnt: behind one interface there may be another operator tomorrow.
#pragma once

#include <string>
#include <string_view>

namespace tandem::evidence
{

struct CellSeen
{
  std::string interface {
  };                            // that has the role; empty: none
  std::string operator_code {}; // of the modem behind it, digits; empty: nobody says so now
};

// Of a Place. What older versions wrote has the interface alone. That stays readable and counts where no operator is
// known (USB tethering, no ModemManager); where one is, nobody knows whose it was: it is not handed on, and what is not
// used is the first to be forgotten for want of room.
class CellName
{
public:
  // "wwan0 26201", or "wwan0" while no operator is known; no interface has a blank in its name.
  const std::string& of(const CellSeen& now);

private:
  CellSeen last_ {};
  std::string name_ {};
};

// Whether a cellular link is what somebody means: by its name, or by its interface whatever the operator.
bool means(std::string_view meant, std::string_view cell);

} // namespace tandem::evidence
