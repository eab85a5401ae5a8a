// Files that are whole or not there, whatever happens meanwhile.
#pragma once

#include <cstddef>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>

namespace tandem::daemon
{

// Writes it beside, under another name, for its owner alone (0600), and puts it in its place once it is on the disk.
// Throws std::runtime_error with a sentence; then what was there before is as it was.
void write_whole(const std::filesystem::path& file, std::string_view bytes);

// The bytes of a plain file of at most `longest` bytes; empty when there is none. Throws std::runtime_error.
std::string read_whole(const std::filesystem::path& file, std::size_t longest);

// "20261122-214500", local time: names of files that carry it are in the order of their age.
std::string file_stamp(std::time_t at);

} // namespace tandem::daemon
