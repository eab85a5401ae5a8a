// Opens shared libraries whose code is to run with the daemon's privileges.
#pragma once

#include <filesystem>
#include <string>

namespace tandem::daemon
{

// Empty when only root can write the file or directory, else a sentence.
std::string insecure(const std::filesystem::path& path);

// Empty when only root can write the file and it is a whole library, as far as can be told without loading it; else a
// sentence.
std::string library_problem(const std::filesystem::path& file);

// Loads the library, whoever can write it. Null: then `problem` is a sentence.
void* open_library(const std::filesystem::path& file, std::string& problem);

} // namespace tandem::daemon
