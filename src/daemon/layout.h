// Where Tandem's parts are, found from the running program: the same binaries work in the build tree, installed, and
// moved elsewhere.
#pragma once

#include <filesystem>

namespace tandem
{

// Of the running program, symbolic links resolved. Empty when /proc is not there.
std::filesystem::path program_directory();

// Where modules (*.so) are: ../lib/tandem beside the program's directory as in the build tree, ../LIBDIR/tandem as
// installed; /usr/lib/tandem when there is neither.
std::filesystem::path default_module_dir();
// The configured one (daemon.module_dir), or that when it is empty.
std::filesystem::path module_directory(const std::filesystem::path& configured);

// Where the parts in Python are (lab/lab.py, bench/bench.py): the source tree's tools/ when the program runs from
// BUILD/bin, else ../lib/tandem, else /usr/lib/tandem.
std::filesystem::path tool_dir();

// Configuration read when none is named: /etc/tandem/tandem.toml.
std::filesystem::path default_config_file();

} // namespace tandem
