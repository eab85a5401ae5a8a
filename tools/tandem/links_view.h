// What the sources of driver statistics know, as text: access points with what each packet costs there, the modem, and
// how the values went lately. Pure; tolerant of missing members, which are shown as absent.
#pragma once

#include "tools/tandem/table.h"

#include <nlohmann/json.hpp>

#include <deque>
#include <map>
#include <optional>
#include <string>

namespace tandem::cli
{

// A row of block characters, or of ASCII where these cannot be shown, the newest value on the right; absent values
// leave a gap. The scale is that of the values.
std::string sparkline(const std::deque<std::optional<double>>& values, const Style& style);

class LinksView
{
public:
  static constexpr std::size_t kept = 30; // values of a sparkline

  // Takes the answer of GET /v1/links in and shows it, with the past of what was taken in before.
  std::string show(const nlohmann::json& links, const Style& style);

private:
  using History = std::deque<std::optional<double>>;
  std::string show_wifi(const std::string& link, const nlohmann::json& wifi, const Style& style);
  std::string past(const std::string& key, std::optional<double> value, const Style& style);

  std::map<std::string, History> history_ {}; // by link, access point and value
};

} // namespace tandem::cli
