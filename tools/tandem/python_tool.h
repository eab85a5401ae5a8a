// The parts that are Python programs with command lines of their own: the lab, the benches, the paired evaluation.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace tandem::cli
{

// Commands that are Python programs, with a line of help.
inline constexpr std::array python_tools {
  std::pair { "ab", "what a module gains here: pairs of blocks with and without it (see tandem ab --help)" },
  std::pair { "dashboard", "live charts, flows and module switches in the browser (see tandem dashboard --help)" },
  std::pair { "relay", "files of two tunnels to a relay of yours, for what is behind a NAT (see tandem relay --help)" },
  std::pair { "lab", "emulated Wi-Fi and cellular air (see tandem lab --help)" },
  std::pair { "bench", "reproduce the published figures (see tandem bench --help)" },
  std::pair { "sim", "virtual-time simulator and its sweeps (see tandem sim --help)" },
};

// Actions of `tandem trace` that are.
inline constexpr std::array python_trace_actions {
  std::pair { "plot", "a flow's course as a page that zooms, or as PNG" },
  std::pair { "diff", "what differs between two recordings, flow by flow" },
  std::pair { "capture", "what the daemon records from now on, of some flows and modules if wanted" },
  std::pair { "bundle", "what a bug report needs, without secrets" },
  std::pair { "anonymise", "a copy with other addresses and without payload" },
  std::pair { "wireshark", "Tandem's fields and colours for Wireshark, and its live interface" },
};

// How many words are this program's own: all, or up to the name of a Python program. What follows that is passed on
// word by word, also "--", which CLI11 would take for itself.
int own_words(int argc, char** argv);

// Becomes TOOL/TOOL.py with these arguments, behind `action` when there is one. Throws Failure when it is not
// installed.
[[noreturn]] void become_python(const std::string& tool, const std::vector<std::string>& arguments,
                                const std::string& action = {});

} // namespace tandem::cli
