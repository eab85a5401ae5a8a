#include "src/daemon/exclusions_file.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <utility>

namespace tandem::daemon
{

using nlohmann::json;

namespace
{

constexpr std::string_view file_name = "exclusions";
constexpr const char* version_key = "tandem-exclusions";
constexpr int version = 1;

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
  return json { { version_key, version }, { "exclusions", std::move(list) } }.dump(2, ' ', true,
                                                                                   json::error_handler_t::replace)
         + '\n';
}

std::string read_exclusions(const std::string& text, SavedExclusions& into)
{
  const json whole = json::parse(text, nullptr, false);
  if (whole.is_discarded()) return "is torn, or no file of exclusions";
  if (!whole.is_object() || !whole.contains(version_key)) return "is no file of exclusions";
  if (whole[version_key] != version)
    return "is of version " + whole[version_key].dump() + "; this Tandem reads version " + std::to_string(version);
  if (whole.size() != 2 || !whole.contains("exclusions") || !whole["exclusions"].is_array())
    return "has no \"exclusions\", or something beside them";
  SavedExclusions read {};
  for (const json& one : whole["exclusions"])
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

ExclusionsFile::ExclusionsFile(const std::filesystem::path& directory)
    : path_ { directory / file_name }, kept_ { directory,
                                               file_name,
                                               { .forgotten = "no exclusion can be saved",
                                                 .anew = "Tandem runs without saved exclusions",
                                                 .unsaved = "the exclusions are not saved" } }
{
}

SavedExclusions ExclusionsFile::load()
{
  SavedExclusions all {};
  static_cast<void>(
      kept_.load(longest_exclusions_text, [&](const std::string& text) { return read_exclusions(text, all); }));
  return all;
}

bool ExclusionsFile::save(const SavedExclusions& all)
{
  return kept_.save(exclusions_text(all));
}

} // namespace tandem::daemon
