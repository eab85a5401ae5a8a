// Backend::metrics() as the text that Prometheus scrapes.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace tandem::control
{

// Text exposition format 0.0.4: HELP and TYPE once per name, samples of one name together, labels escaped. Entries
// without a valid name or a finite number are left out: one bad entry must not cost the whole scrape.
std::string prometheus_text(const nlohmann::json& metrics);

} // namespace tandem::control
