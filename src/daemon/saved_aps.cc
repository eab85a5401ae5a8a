#include "src/daemon/saved_aps.h"

#include "src/daemon/kept_json.h"

#include <tandem/link.h>

namespace tandem::daemon
{

using nlohmann::json;

namespace
{

constexpr Envelope aps_envelope { .key = "tandem-access-points",
                                  .version = 1,
                                  .body = "access_points",
                                  .type = json::value_t::object,
                                  .content = "access points" };

} // namespace

std::string saved_aps_text(const SavedAps& saved)
{
  json body = json::object();
  if (saved.keep != 0) body = { { "keep", saved.keep }, { "at_s", saved.at_s } };
  if (saved.keep != 0 && saved.several_channels) body["several_channels"] = true; // an older version knows of none
  return aps_envelope.closed(std::move(body));
}

std::string read_saved_aps(const std::string& text, SavedAps& into)
{
  json body {};
  if (std::string wrong = aps_envelope.open(text, body); !wrong.empty()) return wrong;
  if (body.empty())
  {
    into = {};
    return {};
  }
  const bool tells = body.contains("several_channels");
  if (tells && !body["several_channels"].is_boolean()) return "\"several_channels\": true or false is needed";
  if (body.size() != (tells ? 3 : 2) || !body.contains("keep") || !body["keep"].is_number_unsigned()
      || !body.contains("at_s") || !body["at_s"].is_number_integer())
    return "whole numbers \"keep\" and \"at_s\" are needed";
  const auto keep = body["keep"].get<std::uint64_t>();
  if (keep < 2 || keep > most_wifi) return "keep = " + std::to_string(keep) + ": 2 to " + std::to_string(most_wifi);
  into = { static_cast<std::size_t>(keep), body["at_s"], tells && body["several_channels"].get<bool>() };
  return {};
}

} // namespace tandem::daemon
