#include "src/daemon/layout.h"

#include <initializer_list>
#include <system_error>

namespace tandem
{
namespace
{

std::filesystem::path first_directory(std::initializer_list<std::filesystem::path> candidates)
{
  std::error_code fault;
  for (const auto& candidate : candidates)
    if (std::filesystem::is_directory(candidate, fault)) return std::filesystem::weakly_canonical(candidate, fault);
  return "/usr/lib/tandem";
}

} // namespace

std::filesystem::path program_directory()
{
  std::error_code fault;
  return std::filesystem::read_symlink("/proc/self/exe", fault).parent_path();
}

std::filesystem::path default_module_dir()
{
  const std::filesystem::path beside = program_directory() / "..";
  return first_directory({ beside / "lib/tandem", beside / TANDEM_LIBDIR / "tandem" });
}

std::filesystem::path module_directory(const std::filesystem::path& configured)
{
  return configured.empty() ? default_module_dir() : configured;
}

std::filesystem::path tool_dir()
{
  const std::filesystem::path here = program_directory();
  std::error_code fault;
  // A file only the source tree has, so that an unrelated ../../tools beside an installation is not taken.
  const std::filesystem::path source = here / "../..";
  if (std::filesystem::exists(source / "cmake/TandemBuild.cmake", fault)) return first_directory({ source / "tools" });
  const std::filesystem::path from_build { TANDEM_SOURCE_TOOLS };
  if (std::filesystem::exists(here / "../CMakeCache.txt", fault)) return first_directory({ from_build });
  return first_directory({ here / "../lib/tandem" });
}

std::filesystem::path default_config_file()
{
  return "/etc/tandem/tandem.toml";
}

} // namespace tandem
