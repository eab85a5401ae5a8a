// `tandem trace print|explain` for the command line.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace CLI
{
class App;
}

namespace tandem::trace_tool
{

// Adds the subcommands print and explain to `trace`, which must outlive the parse. When the user has chosen one,
// parsing runs it, writes to `out` and `err`, and sets `exit_code`: 0; 1 when `out` cannot be written; 2 for a file
// that cannot be read. A usage fault is CLI::ParseError, as with every other option of the command line.
void attach(CLI::App& trace, std::ostream& out, std::ostream& err, int& exit_code);

// The same as a program of its own; `arguments` begin behind the program's name: {"print", "trace.pcapng"}.
int trace_main(std::vector<std::string> arguments, std::ostream& out, std::ostream& err);

} // namespace tandem::trace_tool
