#include "src/daemon/config.h"

#include "src/control/literal.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace
{

using namespace tandem;

void quantities(std::string_view text)
{
  if (const auto duration = parse_duration(text))
  {
    fuzz::check(*duration >= Duration {}, "a duration is not negative");
    format_duration(*duration);
  }
  if (const auto bytes = parse_bytes(text)) format_bytes(*bytes);
  if (const auto rate = parse_rate(text)) fuzz::check(rate->bits_per_second >= 0, "a rate is not negative");

  const Knob knob { .name = "k", .type = KnobType::duration, .unit = "s", .minimum = 0.001, .maximum = 10, .help = "" };
  const auto value = parse_knob(knob, text);
  if (const auto* number = std::get_if<double>(&value))
    fuzz::check(*number >= knob.minimum && *number <= knob.maximum, "a knob's value is in its range");
}

void sensible(const daemon::Config& config)
{
  const auto is_name = [](const std::string& name) { return !name.empty() && name.size() <= 15; };
  fuzz::check(is_name(config.links.wifi) && is_name(config.links.cell), "interface names have 1 to 15 characters");
  fuzz::check(config.daemon.socket.is_absolute(), "the socket's path is absolute");
  fuzz::check(config.daemon.flow_idle >= std::chrono::seconds { 1 }, "flows live a second at least");
  fuzz::check(config.recorder.bytes <= (1u << 30), "the recorder is bounded");
  for (const auto& module : config.modules)
    fuzz::check(module.name.find_first_of("/.") == std::string::npos, "a module's name is no path");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  const std::string_view text { reinterpret_cast<const char*>(data), size };
  const auto result = daemon::parse_config(text, "fuzz.toml",
                                           [](const daemon::KnobSetting& setting) -> std::optional<std::string>
                                           {
                                             if (setting.module.size() % 2 == 1) return "no such module";
                                             return {};
                                           });
  for (const daemon::Complaint& complaint : result.complaints)
  {
    const std::string said = complaint.text();
    fuzz::check(said.starts_with("fuzz.toml"), "a complaint names the file");
    fuzz::check(!complaint.what.empty(), "a complaint has words");
    fuzz::check(std::none_of(said.begin(), said.end(),
                             [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }),
                "a complaint is one line without control characters");
  }
  sensible(result.config); // what was refused left the default, so this holds with complaints too
  if (result.complaints.empty()) fuzz::check(daemon::conflicts(result.config).empty(), "a good file has no conflicts");

  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t equals = std::min(line.find('='), line.size());
  daemon::Config config;
  daemon::override_setting(config, line.substr(0, equals),
                           equals < line.size() ? line.substr(equals + 1) : std::string_view {});
  sensible(config);
  quantities(line);
  return 0;
}
