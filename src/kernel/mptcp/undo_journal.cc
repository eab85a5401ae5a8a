#include "src/kernel/mptcp/undo_journal.h"

#include "src/kernel/fd.h"
#include "src/kernel/rules/rules.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace tandem::kernel
{

using nlohmann::json;

namespace
{

constexpr int version = 1;
constexpr std::size_t most_entries = 64; // the kernel holds 8 endpoints
constexpr std::size_t longest = 64 * 1024;

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

std::string because(const std::string& what, const std::string& path)
{
  return what + " " + path + ": " + std::strerror(errno);
}

} // namespace

std::string render_journal(const UndoJournal& journal, const JournalPlace& place)
{
  json text { { "version", version },
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
    if (number(in, "version", 0, 1'000'000) != version) return { .fault = "it is of another version of Tandem" };
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

JournalPlace journal_place()
{
  JournalPlace place {};
  std::ifstream { "/proc/sys/kernel/random/boot_id" } >> place.boot;
  struct stat info
  {
  };
  if (stat("/proc/self/ns/net", &info) == 0) place.space = info.st_ino;
  return place;
}

std::string write_journal(const std::string& path, const UndoJournal& journal)
{
  if (path.empty()) return {};
  if (journal.empty()) return unlink(path.c_str()) == 0 || errno == ENOENT ? "" : because("remove", path);
  const std::string text = render_journal(journal, journal_place()), fresh = path + ".new";
  unlink(fresh.c_str()); // of a run killed here
  Fd file { open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) };
  if (!file) return because("write", fresh);
  for (std::size_t done = 0; done < text.size();)
  {
    const ssize_t n = write(file.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return because("write", fresh);
    done += static_cast<std::size_t>(n);
  }
  return rename(fresh.c_str(), path.c_str()) == 0 ? "" : because("replace", path);
}

ReadJournal read_journal(const std::string& path)
{
  if (path.empty()) return {};
  Fd file { open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) };
  if (!file) return { .fault = errno == ENOENT ? "" : std::strerror(errno) };
  struct stat info
  {
  };
  if (fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) return { .fault = "not a regular file" };
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return { .fault = "others than the daemon's user can write it" };
  std::string text(longest + 1, '\0');
  std::size_t length = 0;
  for (ssize_t n = 0; length < text.size(); length += static_cast<std::size_t>(n))
    if (n = read(file.get(), text.data() + length, text.size() - length); n <= 0) break;
  if (length > longest) return { .fault = "too long" };
  text.resize(length);
  return parse_journal(text, journal_place());
}

} // namespace tandem::kernel
