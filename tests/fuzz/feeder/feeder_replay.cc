// Any bytes as a recording: each line is a record or a fault in words, and a record survives being written again.
#include "src/feeder/recording/escape.h"
#include "src/feeder/recording/record.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

using namespace tandem;
using tandem::fuzz::check;

namespace
{

void again(const feeder::RecordedReport& recorded)
{
  const auto back = feeder::from_json(feeder::to_line(feeder::to_json(recorded.source, recorded.report)));
  check(back.record.has_value(), "what was written can be read");
  const auto* same = std::get_if<feeder::RecordedReport>(&*back.record);
  check(same != nullptr, "a report stays a report");
  check(same->source == recorded.source, "the source stays");
  check(same->report.at == recorded.report.at, "the time stays");
  check(same->report.what == recorded.report.what, "what was said stays");
}

template <class Other>
void again(const Other& other)
{
  const auto back = feeder::from_json(feeder::to_line(feeder::to_json(other)));
  check(back.record.has_value() && std::get_if<Other>(&*back.record) != nullptr, "what was written can be read");
  check(std::get<Other>(*back.record) == other, "headers and notes stay");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  const std::string_view text { reinterpret_cast<const char*>(data), size };
  check(feeder::unescaped(feeder::escaped(text)) == text, "any bytes survive as text");
  for (std::size_t at = 0; at < text.size();)
  {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const auto read = feeder::from_json(text.substr(at, end - at));
    at = end + 1;
    check(read.record.has_value() == read.fault.empty(), "a record or a fault");
    if (read.record)
      std::visit([](const auto& record) { again(record); }, *read.record);
    else
      check(feeder::escaped(read.fault).size() < 1000 && nlohmann::json(read.fault).dump().size() > 2,
            "a fault can be shown: short, and valid UTF-8");
  }
  return 0;
}
