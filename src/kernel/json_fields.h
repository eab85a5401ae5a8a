// JSON of structs, field by field: for what the daemon and the keeper send each other.
#pragma once

#include "src/kernel/marks.h"

#include <nlohmann/json.hpp>

// Defines to_json() and from_json() of `Type` in this file, for a header that declares them with json_fwd.hpp alone.
// nlohmann's own macro makes them inline: right for types of which no header speaks.
#define TANDEM_JSON_FIELDS(Type, ...)                                                                                  \
  void to_json(nlohmann::json& nlohmann_json_j, const Type& nlohmann_json_t)                                           \
  {                                                                                                                    \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__))                                           \
  }                                                                                                                    \
  void from_json(const nlohmann::json& nlohmann_json_j, Type& nlohmann_json_t)                                         \
  {                                                                                                                    \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM, __VA_ARGS__))                                         \
  }

namespace tandem::kernel
{

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MarkBits, value, mask)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Marks, by_cell, injected, release)

} // namespace tandem::kernel
