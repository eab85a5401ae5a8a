// Turns a failed system call into a sentence. For start-up only: the packet path returns values.
#pragma once

#include <string_view>

namespace tandem::kernel
{

// Returns rc when it is not negative. Else throws std::system_error from errno, reading "<what>: <reason>".
// `what` names the attempt in the imperative: check("bind nfqueue 84", rc).
long check(std::string_view what, long rc);

// The same for calls that return the error as a positive or negative errno rather than setting it.
void check_code(std::string_view what, int code);

[[noreturn]] void fail(std::string_view what, int code);

} // namespace tandem::kernel
