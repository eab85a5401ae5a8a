// Links, modules and flows on one screen, second by second. Pure; tolerant of missing members.
#pragma once

#include "tools/tandem/table.h"

#include <nlohmann/json.hpp>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tandem::cli
{

class TopView
{
public:
  static constexpr std::size_t kept = 40; // seconds of goodput that are drawn

  // Takes the answers of GET /v1/status and /v1/flows in, `seconds` after those before, and shows them with what
  // changed since: lines of at most `columns` columns, at most `rows` of them.
  std::string show(const nlohmann::json& status, const nlohmann::json& flows, double seconds, std::size_t rows,
                   std::size_t columns, const Style& style);
  // The modules by the numbers that the screen gives them, from 1.
  const std::vector<std::string>& modules() const { return modules_; }
  // Whether a module was on when it was last shown.
  bool enabled(const std::string& module) const;

private:
  std::string links_text(const nlohmann::json& links, double seconds, const Style& style);
  std::string modules_text(const nlohmann::json& modules, double seconds, const Style& style);
  std::string flows_text(const nlohmann::json& flows, const Style& style);

  std::vector<std::string> modules_ {};
  std::map<std::string, bool> enabled_ {};
  std::map<std::string, double> before_ {}; // counters, by what they count
  std::deque<std::optional<double>> goodput_ {};
};

// A line cut to so many columns; what colours it stays whole.
std::string cut(const std::string& line, std::size_t columns);

} // namespace tandem::cli
