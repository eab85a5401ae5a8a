// The settings there are: what each may be, and where its value goes. Modules' knobs are their own.
#pragma once

#include "src/daemon/config.h"
#include "src/daemon/config_value.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::daemon
{

struct Setting
{
  std::string_view key;               // "links.wifi"
  bool (*put)(Config&, const Value&); // false: not what is needed, and the configuration is as it was
  std::string_view needed;            // "a number of flows from 16 to 1048576 is needed"
  bool for_tests = false;             // turned by tests and benches alone: docs/testing.md, not the manual
};

// A setting of an earlier release. A file that still has it is read as before, with a warning.
struct RetiredSetting
{
  std::string_view key;
  std::string_view now; // behind the key: "is a constant now: 256 bytes"
};

std::span<const Setting> settings();
const Setting* find_setting(std::string_view key); // null: no such setting
const RetiredSetting* find_retired_setting(std::string_view key);
Complaint warning(const RetiredSetting& setting, Source where);
// For errors, and for whoever asks who says so: where the value that was put last is written.
void remember_where(Config& config, std::string_view key, const Source& where);

// The names behind `section` ("links.", "" for whole keys) that the manual has.
std::vector<std::string_view> known_settings(std::string_view section);
// "did you mean X?" when one is near, else all there are.
std::string suggestion(std::string_view name, std::span<const std::string_view> known);

} // namespace tandem::daemon
