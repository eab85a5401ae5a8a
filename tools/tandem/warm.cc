// What the linker takes for all of this program, so it stands first: the other units here are compiled cold, and where
// several units instantiate the same template the first one is kept. Without this, replaying recordings calls strings
// that nobody has optimised (a tenth of its instructions).
#include <cstddef>
#include <string>
#include <vector>

template class std::basic_string<char>;
template class std::vector<std::byte>;
