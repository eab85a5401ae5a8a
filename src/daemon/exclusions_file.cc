#include "src/daemon/exclusions_file.h"

#include "src/daemon/kept_json.h"

#include <optional>
#include <utility>

namespace tandem::daemon
{

using nlohmann::json;

namespace
{

constexpr Envelope exclusions_envelope {
  .key = "tandem-exclusions", .version = 1, .body = "exclusions", .type = json::value_t::array, .content = "exclusions"
};

std::optional<Exclusion> exclusion_of(const json& one)
{
  if (!one.is_object() || one.size() != 3 || !one.contains("kind") || !one["kind"].is_string() || !one.contains("what")
      || !one["what"].is_string() || !one.contains("at_s") || !one["at_s"].is_number_integer())
    return {};
  const auto kind = exclusion_kind(one["kind"].get_ref<const std::string&>());
  return kind ? parse_exclusion(*kind, one["what"].get_ref<const std::string&>()) : std::nullopt;
}

} // namespace

std::string exclusions_text(const SavedExclusions& all)
{
  json list = json::array();
  for (const auto& [one, at_s] : all)
    list.push_back({ { "kind", name(one.kind) }, { "what", one.what }, { "at_s", at_s } });
  return exclusions_envelope.closed(std::move(list));
}

std::string read_exclusions(const std::string& text, SavedExclusions& into)
{
  json list {};
  if (std::string wrong = exclusions_envelope.open(text, list); !wrong.empty()) return wrong;
  SavedExclusions read {};
  for (const json& one : list)
  {
    const auto exclusion = exclusion_of(one);
    if (!exclusion)
      return "exclusion " + std::to_string(read.size() + 1) + ": \"kind\", \"what\" and \"at_s\" are needed";
    read[*exclusion] = one["at_s"];
  }
  if (read.size() > most_exclusions) return "has more than " + std::to_string(most_exclusions) + " exclusions";
  into.merge(read);
  return {};
}

} // namespace tandem::daemon
