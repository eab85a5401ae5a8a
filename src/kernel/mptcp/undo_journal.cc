#include "src/kernel/mptcp/undo_journal.h"

#include "src/kernel/rules/rules.h"

#include <nlohmann/json.hpp>

#include <stdexcept>

namespace tandem::kernel
{

using nlohmann::json;

namespace
{

constexpr int journal_version = 1;
constexpr std::size_t most_entries = 64; // the kernel holds 8 endpoints

json out(const MptcpLimits& limits)
{
  return { { "subflows", limits.subflows }, { "add_addr", limits.add_addr } };
}

std::int64_t number(const json& in, const char* field, std::int64_t least, std::int64_t most)
{
  const json& value = in.at(field);
  if (!value.is_number_integer()) throw std::invalid_argument { std::string { field } + " is no whole number" };
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most))
    throw std::invalid_argument { std::string { field } + " is too large" };
  const auto n = value.get<std::int64_t>();
  if (n < least || n > most)
    throw std::invalid_argument { std::string { field } + " is not within " + std::to_string(least) + " to "
                                  + std::to_string(most) };
  return n;
}

MptcpLimits limits_in(const json& in)
{
  return { .subflows = static_cast<std::uint32_t>(number(in, "subflows", 0, most_mptcp_subflows)),
           .add_addr = static_cast<std::uint32_t>(number(in, "add_addr", 0, most_mptcp_subflows)) };
}

const json& list(const json& in, const char* field)
{
  const json& value = in.at(field);
  if (!value.is_array() || value.size() > most_entries)
    throw std::invalid_argument { std::string { field } + " is no list of at most " + std::to_string(most_entries) };
  return value;
}

std::string address_in(const json& in)
{
  std::string address = in.at("address").get<std::string>();
  check_address("address", address);
  return address;
}

} // namespace

std::string render_journal(const UndoJournal& journal, const JournalPlace& place)
{
  json text { { "version", journal_version },
              { "boot", place.boot },
              { "space", place.space },
              { "own", json::array() },
              { "flags", json::array() } };
  for (const auto& own : journal.own)
    text["own"].push_back({ { "address", own.address }, { "ifindex", own.ifindex }, { "id", own.id } });
  for (const auto& flag : journal.flags)
    text["flags"].push_back(
        { { "address", flag.address }, { "id", flag.id }, { "before", flag.before }, { "set", flag.set } });
  if (journal.limit) text["limit"] = { { "before", out(journal.limit->before) }, { "set", out(journal.limit->set) } };
  return text.dump(1) + "\n";
}

ReadJournal parse_journal(std::string_view text, const JournalPlace& here)
{
  try
  {
    const json in = json::parse(text);
    if (number(in, "version", 0, 1'000'000) != journal_version)
      return { .fault = "it is of another version of Tandem" };
    const JournalPlace place { .boot = in.at("boot").get<std::string>(), .space = in.at("space").get<std::uint64_t>() };
    if (place != here) return {};
    ReadJournal read {};
    for (const json& one : list(in, "own"))
      read.journal.own.push_back({ .address = address_in(one),
                                   .ifindex = static_cast<int>(number(one, "ifindex", 0, 0x7fff'ffff)),
                                   .id = static_cast<std::uint8_t>(number(one, "id", 0, 255)) });
    for (const json& one : list(in, "flags"))
      read.journal.flags.push_back({ .address = address_in(one),
                                     .id = static_cast<std::uint8_t>(number(one, "id", 1, 255)),
                                     .before = one.at("before").get<bool>(),
                                     .set = one.at("set").get<bool>() });
    if (in.contains("limit"))
      read.journal.limit = UndoJournal::Limit { .before = limits_in(in.at("limit").at("before")),
                                                .set = limits_in(in.at("limit").at("set")) };
    return read;
  }
  catch (const std::exception& e)
  {
    return { .fault = e.what() };
  }
}

std::string write_journal(const std::string& path, const UndoJournal& journal)
{
  return write_note(path, journal.empty() ? "" : render_journal(journal, journal_place()));
}

ReadJournal read_journal(const std::string& path)
{
  const Note note = read_note(path);
  if (!note.fault.empty() || note.text.empty()) return { .fault = note.fault };
  return parse_journal(note.text, journal_place());
}

} // namespace tandem::kernel
