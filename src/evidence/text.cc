#include "src/evidence/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

namespace tandem::evidence
{

namespace
{

constexpr std::string_view magic = "tandem-evidence";
constexpr std::size_t longest_name = 64, longest_what = 300;
constexpr std::int64_t most_delay = 10'000'000; // µs; a module may find any, and what is longer is written as this

// Names of modules, joined by +. A module from elsewhere may have another name, which would not be read again.
bool is_written(std::string_view what)
{
  return !what.empty() && what.size() <= longest_what
         && what.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_+") == std::string_view::npos;
}

// FNV-1a, 64 bits: against tearing, not against malice; nobody but the daemon may write the file.
std::uint64_t checksum(std::string_view text)
{
  std::uint64_t sum = 0xcbf29ce484222325ull;
  for (const char c : text)
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return sum;
}

std::string hex(std::string_view bytes)
{
  if (bytes.empty()) return "-";
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes)
  {
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

template <class Number>
std::string number(Number value)
{
  std::array<char, 32> buffer {};
  return { buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr };
}

std::string prefix_text(const Prefix& prefix)
{
  const std::string_view bytes { reinterpret_cast<const char*>(prefix.bytes.data()), prefix.bits / 8u };
  return number(unsigned { prefix.bits }) + ' ' + hex(bytes);
}

void put(std::string& out, const std::string& what, const Tally& tally)
{
  const Sums& sums = tally.gains.sums();
  out += "tally " + what + ' ' + number(static_cast<unsigned>(tally.standing)) + ' '
         + number(unsigned { tally.failures }) + ' ' + number(tally.until) + ' ' + number(tally.used) + ' '
         + number(sums.count);
  for (const double sum : { sums.weights, sums.differences, sums.squares, sums.cross, sums.squared_weights })
    out += ' ' + number(sum);
  out += '\n';
}

void put(std::string& out, const Place& place, const KnownPath& path)
{
  const auto delay = std::chrono::duration_cast<std::chrono::microseconds>(path.added_delay).count();
  out += "known " + number(path.validated) + ' ' + number(std::clamp(delay, -most_delay, most_delay)) + ' '
         + hex(place.cell) + ' ' + prefix_text(place.prefix) + ' ' + prefix_text(path.source) + '\n';
}

void put(std::string& out, const std::string& access_point, const KeptFrames& note)
{
  out += "frames " + number(note.used) + ' ' + number(unsigned { note.kept }) + ' ' + number(unsigned { note.missed })
         + ' ' + hex(access_point) + '\n';
}

// Whether comparisons can have made these sums, which are divided by each other later.
bool possible(const Sums& sums)
{
  constexpr double rounding = 1 + 1e-6;
  const double most = Sequence::most * rounding;
  if (sums.count == 0) return sums == Sums {};
  return sums.weights > 0 && sums.squared_weights > 0 && std::abs(sums.differences) <= most * sums.weights
         && std::abs(sums.cross) <= most * sums.squared_weights && sums.squares <= most * most * sums.squared_weights;
}

// The words of one line, taken one after the other; a fault stays.
class Words
{
public:
  explicit Words(std::string_view line) : rest_ { line } {}

  std::string_view word()
  {
    if (rest_.empty()) good_ = false;
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view one = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    good_ = good_ && !one.empty();
    return one;
  }
  template <class Number>
  Number integer(Number least, Number most)
  {
    Number value = least;
    take(value);
    good_ = good_ && value >= least && value <= most;
    return good_ ? value : least;
  }
  double real(double least, double most)
  {
    double value = least;
    take(value);
    good_ = good_ && std::isfinite(value) && value >= least && value <= most;
    return good_ ? value : least;
  }
  std::string bytes(std::size_t longest)
  {
    const std::string_view text = word();
    std::string out;
    if (text == "-") return out;
    good_ = good_ && text.size() % 2 == 0 && text.size() <= 2 * longest;
    for (std::size_t i = 0; good_ && i < text.size(); i += 2)
    {
      unsigned value = 0;
      const auto end = std::from_chars(text.data() + i, text.data() + i + 2, value, 16).ptr;
      good_ = end == text.data() + i + 2;
      out += static_cast<char>(value);
    }
    return good_ ? out : std::string {};
  }
  std::string names()
  {
    const std::string_view text = word();
    good_ = good_ && is_written(text);
    return good_ ? std::string { text } : std::string {};
  }
  bool done() const { return good_ && rest_.empty(); }

private:
  template <class Number>
  void take(Number& value)
  {
    const std::string_view text = word();
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    good_ = good_ && fault == std::errc {} && end == text.data() + text.size();
  }

  std::string_view rest_;
  bool good_ = true;
};

// Reads the lines behind the first one.
class Reader
{
public:
  Reader(const Limits& limits, WallTime now) : memory { limits }, now_ { now } {}

  Memory memory;

  bool line(std::string_view text)
  {
    Words words { text };
    const std::string_view kind = words.word();
    if (kind == "network") return network(words);
    if (kind == "record") return record(words);
    if (kind == "tally") return tally(words);
    if (kind == "known") return known(words);
    if (kind == "frames") return frames(words);
    if (kind == "path") return path(words);
    return false;
  }

private:
  // A clock that was set back since: nothing was used in the future.
  WallTime used(Words& words) const
  {
    constexpr WallTime most = WallTime { 1 } << 40;
    return std::min(words.integer<WallTime>(0, most), now_);
  }
  WallTime until(Words& words, WallTime longest) const
  {
    constexpr WallTime most = WallTime { 1 } << 40;
    return std::min(words.integer<WallTime>(0, most), now_ + longest);
  }
  Prefix prefix(Words& words)
  {
    Prefix out { .bits = words.integer<std::uint8_t>(0, 48) };
    const std::string bytes = words.bytes(out.bytes.size());
    valid_ = valid_ && (out.bits == 0 || out.bits == 24 || out.bits == 48) && bytes.size() == out.bits / 8u;
    std::copy_n(bytes.begin(), std::min(bytes.size(), out.bytes.size()), out.bytes.begin());
    return out;
  }
  bool network(Words& words)
  {
    Network one { .id = ++network_ };
    one.used = used(words);
    one.signs.ssid = words.bytes(longest_name);
    one.signs.gateway = words.bytes(longest_name);
    one.signs.unique = words.integer<unsigned>(0, 1) == 1;
    inside_record_ = false;
    return words.done() && memory.restore(one);
  }
  bool record(Words& words)
  {
    place_.network = network_;
    const WallTime when = used(words);
    place_.cell = words.bytes(longest_name);
    place_.prefix = prefix(words);
    inside_record_ = words.done() && valid_ && memory.restore(place_, when);
    return inside_record_;
  }
  bool tally(Words& words)
  {
    const std::string what = words.names();
    Tally one {};
    one.standing = static_cast<Standing>(words.integer<unsigned>(0, 2));
    one.failures = words.integer<std::uint8_t>(0, 16);
    one.until = until(words, Tally::longest_rest);
    one.used = used(words);
    Sums sums {};
    sums.count = words.integer<std::uint32_t>(0, Tally::longest * 16);
    constexpr double most = 1e9;
    sums.weights = words.real(0, most);
    sums.differences = words.real(-most, most);
    sums.squares = words.real(0, most);
    sums.cross = words.real(-most, most);
    sums.squared_weights = words.real(0, most);
    one.gains = Sequence { sums };
    valid_ = valid_ && possible(sums);
    return words.done() && valid_ && inside_record_ && memory.restore(place_, what, one);
  }
  // By the network above it. Its time stays as it was written: what was validated in the future is not known.
  bool known(Words& words)
  {
    constexpr WallTime most_time = WallTime { 1 } << 40;
    Place place { .network = network_ };
    KnownPath path {};
    path.validated = words.integer<WallTime>(0, most_time);
    path.added_delay = std::chrono::microseconds { words.integer<std::int64_t>(-most_delay, most_delay) };
    place.cell = words.bytes(longest_name);
    place.prefix = prefix(words);
    path.source = prefix(words);
    inside_record_ = false;
    if (!words.done() || !valid_ || place.cell.empty()) return false;
    return !path.counts(now_) || memory.restore(place, path);
  }
  // Of the network above it.
  bool frames(Words& words)
  {
    constexpr WallTime most_time = WallTime { 1 } << 40;
    KeptFrames note {};
    note.used = words.integer<WallTime>(0, most_time);
    note.kept = words.integer<std::uint8_t>(0, KeptFrames::most + 1);
    note.missed = words.integer<std::uint8_t>(0, KeptFrames::most);
    const std::string access_point = words.bytes(longest_name);
    inside_record_ = false;
    if (!words.done() || access_point.empty()) return false;
    return !note.counts(now_) || memory.restore({ network_, access_point }, note);
  }
  bool path(Words& words)
  {
    PathNote note {};
    note.failures = words.integer<std::uint8_t>(0, 16);
    note.until = until(words, PathNote::longest_rest);
    note.used = used(words);
    const std::string cell = words.bytes(longest_name);
    const Prefix where = prefix(words);
    if (!words.done() || !valid_) return false;
    // Of no cellular link that was known: once written, and nobody's.
    return cell.empty() || memory.restore(Memory::PathKey { cell, where }, note);
  }

  WallTime now_;
  std::uint32_t network_ = 0;
  Place place_ {};
  bool inside_record_ = false;
  bool valid_ = true;
};

} // namespace

std::string to_text(const Memory& memory)
{
  std::string body;
  for (const Network& network : memory.networks())
  {
    body += "network " + number(network.used) + ' ' + hex(network.signs.ssid) + ' ' + hex(network.signs.gateway)
            + (network.signs.unique ? " 1\n" : " 0\n");
    for (auto at = memory.records().lower_bound({ network.id, {}, {} });
         at != memory.records().end() && at->first.network == network.id; ++at)
    {
      body +=
          "record " + number(at->second.used) + ' ' + hex(at->first.cell) + ' ' + prefix_text(at->first.prefix) + '\n';
      for (const auto& [what, tally] : at->second.tallies)
        if (is_written(what)) put(body, what, tally);
    }
    for (auto at = memory.known_paths().lower_bound({ network.id, {}, {} });
         at != memory.known_paths().end() && at->first.network == network.id; ++at)
      put(body, at->first, at->second);
    for (auto at = memory.access_points().lower_bound({ network.id, {} });
         at != memory.access_points().end() && at->first.first == network.id; ++at)
      put(body, at->first.second, at->second);
  }
  for (const auto& [key, note] : memory.paths())
    body += "path " + number(unsigned { note.failures }) + ' ' + number(note.until) + ' ' + number(note.used) + ' '
            + hex(key.first) + ' ' + prefix_text(key.second) + '\n';
  std::array<char, 80> first {};
  std::snprintf(first.data(), first.size(), "%.*s %u %zu %016llx\n", static_cast<int>(magic.size()), magic.data(),
                text_version, body.size(), static_cast<unsigned long long>(checksum(body)));
  return first.data() + body;
}

std::string from_text(std::string_view text, WallTime now, Memory& memory)
{
  const std::size_t head = text.substr(0, 100).find('\n');
  Words words { text.substr(0, std::min(head, text.size())) };
  if (words.word() != magic || head == std::string_view::npos) return "no memory of Tandem";
  const auto version = words.integer<unsigned>(0, 1'000'000);
  if (version < oldest_text_version || version > text_version)
    return "of another version (" + number(version) + ", this is " + number(text_version) + ")";
  const auto length = words.integer<std::size_t>(0, longest_text);
  const std::string_view sum = words.word();
  const std::string_view body = text.substr(head + 1);
  std::array<char, 20> expected {};
  std::snprintf(expected.data(), expected.size(), "%016llx", static_cast<unsigned long long>(checksum(body)));
  if (!words.done() || length != body.size() || sum != expected.data()) return "torn: length or checksum is wrong";

  Reader reader { memory.limits(), now };
  std::size_t number_of_line = 1;
  for (std::string_view rest = body; !rest.empty();)
  {
    ++number_of_line;
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (!reader.line(rest.substr(0, end))) return "line " + number(number_of_line) + " is not understood";
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  memory = std::move(reader.memory);
  return {};
}

} // namespace tandem::evidence
