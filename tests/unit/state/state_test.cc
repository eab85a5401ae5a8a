// What a flow costs in memory: the state that each module keeps for it, and all of them together.
#include "modules/ecn/ecn.h"
#include "modules/freeze/freeze.h"
#include "modules/mirror/mirror.h"
#include "modules/offload/offload.h"
#include "modules/rate/rate.h"

#include <gtest/gtest.h>

#include <iostream>

namespace tandem
{
namespace
{

// Whoever needs more raises the bound here, and says in the commit what it buys.
TEST(FlowState, OfEveryModuleStaysWithinItsBound)
{
  ecn::Ecn ecn {};
  freeze::Freeze freeze {};
  mirror::Mirror mirror {};
  offload::Offload offload {};
  rate::RatePolicy rate {};
  std::size_t all = 0;
  for (const auto& [module, most] : std::initializer_list<std::pair<const Module*, std::size_t>> {
           { &freeze, 168 }, { &mirror, 448 }, { &offload, 288 }, { &ecn, 24 }, { &rate, 232 } })
  {
    std::cout << module->name() << ": " << module->flow_state_size() << " bytes\n";
    EXPECT_LE(module->flow_state_size(), most) << module->name();
    all += module->flow_state_size();
  }
  std::cout << "together: " << all << " bytes\n";
  EXPECT_LE(all, 1160u);
}

} // namespace
} // namespace tandem
