// The command line of `tandem trace replay`.
#pragma once

#include <iosfwd>

namespace CLI
{
class App;
}

namespace tandem::trace_tool
{

// Adds the subcommand replay; see attach() in command.h. A module or a setting that is not there is exit code 2.
void attach_replay(CLI::App& trace, std::ostream& out, std::ostream& err, int& exit_code);

} // namespace tandem::trace_tool
