#include "src/daemon/kept_json.h"

#include <utility>

namespace tandem::daemon
{

using nlohmann::json;

std::string Envelope::closed(json all) const
{
  return json { { key, version }, { body, std::move(all) } }.dump(2, ' ', true, json::error_handler_t::replace) + '\n';
}

std::string Envelope::open(const std::string& text, json& into) const
{
  json whole = json::parse(text, nullptr, false);
  if (whole.is_discarded()) return std::string { "is torn, or no file of " } + content;
  if (!whole.is_object() || !whole.contains(key)) return std::string { "is no file of " } + content;
  if (whole[key] != version)
    return "is of version " + whole[key].dump() + "; this Tandem reads version " + std::to_string(version);
  if (whole.size() != 2 || !whole.contains(body) || whole[body].type() != type)
    return std::string { "has no \"" } + body + "\", or something beside them";
  into = std::move(whole[body]);
  return {};
}

} // namespace tandem::daemon
