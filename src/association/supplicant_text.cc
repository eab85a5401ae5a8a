#include "src/association/supplicant.h"

#include <algorithm>
#include <charconv>

namespace tandem::association
{
namespace
{

// Hands out what is before the separator, and cuts it off.
std::string_view cut(std::string_view& text, char separator)
{
  const std::size_t at = text.find(separator);
  const std::string_view first = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view {} : text.substr(at + 1);
  return first;
}

} // namespace

std::string unescaped(std::string_view text)
{
  std::string out {};
  for (std::size_t i = 0; i < text.size(); ++i)
  {
    if (text[i] != '\\' || i + 1 == text.size())
    {
      out += text[i];
      continue;
    }
    switch (const char next = text[++i])
    {
    case 'n':
      out += '\n';
      break;
    case 'r':
      out += '\r';
      break;
    case 't':
      out += '\t';
      break;
    case 'e':
      out += '\033';
      break;
    case 'x':
    {
      unsigned byte = 0;
      const std::string_view digits = text.substr(i + 1, 2);
      const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
      if (fault == std::errc {} && end == digits.data() + 2)
      {
        out += static_cast<char>(byte);
        i += 2;
      }
      break;
    }
    default:
      out += next; // a backslash or a quotation mark
    }
  }
  return out;
}

std::vector<KnownNetwork> parse_networks(std::string_view answer)
{
  std::vector<KnownNetwork> all {};
  cut(answer, '\n'); // the heading
  while (!answer.empty())
  {
    std::string_view line = cut(answer, '\n');
    const std::string_view number = cut(line, '\t'), name = cut(line, '\t');
    const std::string_view ap = cut(line, '\t');
    KnownNetwork one { .ssid = unescaped(name),
                       .disabled = line.find("[DISABLED]") != std::string_view::npos,
                       .one_ap = ap != "any" && !ap.empty() };
    const auto [end, fault] = std::from_chars(number.data(), number.data() + number.size(), one.id);
    if (fault == std::errc {} && end == number.data() + number.size() && !one.ssid.empty()) all.push_back(one);
  }
  return all;
}

std::set<std::string> names_to_join(const std::vector<KnownNetwork>& all, const std::set<std::string>& excluded)
{
  std::set<std::string> names {};
  for (const KnownNetwork& one : all)
    if (!one.disabled && !one.one_ap && !excluded.contains(one.ssid)) names.insert(one.ssid);
  return names;
}

const KnownNetwork* network_to_join(const std::vector<KnownNetwork>& all, const std::string& ssid)
{
  const auto found =
      std::find_if(all.begin(), all.end(),
                   [&](const KnownNetwork& one) { return !one.disabled && !one.one_ap && one.ssid == ssid; });
  return found == all.end() ? nullptr : &*found;
}

int last_network(std::string_view answer)
{
  int last = -1;
  cut(answer, '\n'); // the heading
  while (!answer.empty())
  {
    std::string_view line = cut(answer, '\n');
    const std::string_view number = cut(line, '\t');
    int id = 0;
    const auto [end, fault] = std::from_chars(number.data(), number.data() + number.size(), id);
    if (fault == std::errc {} && end == number.data() + number.size()) last = id;
  }
  return last;
}

std::string value_of(std::string_view answer, std::string_view key)
{
  while (!answer.empty())
  {
    std::string_view line = cut(answer, '\n');
    if (cut(line, '=') == key) return std::string { line };
  }
  return {};
}

bool lists(std::string_view answer, unsigned frequency)
{
  answer = cut(answer, '\n');
  const std::string wanted = std::to_string(frequency);
  while (!answer.empty())
    if (cut(answer, ' ') == wanted) return true;
  return false;
}

bool lists(std::string_view answer, const Mac& ap)
{
  answer = cut(answer, '\n');
  while (!answer.empty())
  {
    std::string_view mask = cut(answer, ' ');
    const auto one = feeder::parse_mac(cut(mask, '/'));
    const auto bits = mask.empty() ? Mac { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } : feeder::parse_mac(mask);
    if (!one || !bits) continue;
    bool same = true;
    for (std::size_t i = 0; i < ap.size(); ++i)
      same = same && ((ap[i] ^ (*one)[i]) & (*bits)[i]) == 0;
    if (same) return true;
  }
  return false;
}

} // namespace tandem::association
