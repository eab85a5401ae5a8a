// What the enabled modules of a chain want to see, together.
#pragma once

#include "src/chain/chain.h"

#include <tandem/admission.h>

namespace tandem::chain
{

inline Wanted wanted(Chain& chain)
{
  Wanted all {};
  for (std::size_t i = 0; i < chain.module_count(); ++i)
    if (chain.enabled(i)) all.add(chain.module(i).interest());
  return all;
}

} // namespace tandem::chain
