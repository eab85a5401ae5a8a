#include "src/daemon/version.h"

namespace tandem
{

const std::string_view version = TANDEM_VERSION;

} // namespace tandem
