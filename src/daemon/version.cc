#include "src/daemon/version.h"

#include <commit.h> // written by cmake/commit.cmake

namespace tandem
{

const std::string_view release = TANDEM_VERSION;
const std::string_view commit = TANDEM_COMMIT;
const std::string_view version = sizeof TANDEM_COMMIT > 1 ? TANDEM_VERSION " (" TANDEM_COMMIT ")" : TANDEM_VERSION;

} // namespace tandem
