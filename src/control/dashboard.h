// The page behind GET /: what `tandem status` and `tandem flows` show, refreshed every second.
#pragma once

#include <string_view>

namespace tandem::control
{

// One self-contained HTML document; it loads nothing but /v1/status and /v1/flows.
extern const std::string_view dashboard_page;

} // namespace tandem::control
