#include "src/daemon/fetch_loader.h"

#include "src/daemon/library.h"

#include <dlfcn.h>

namespace tandem::daemon
{

std::filesystem::path fetch_library(const std::filesystem::path& module_directory)
{
  return module_directory / "services" / "fetch.so";
}

std::string fetch_problem(const std::filesystem::path& module_directory)
{
  const std::filesystem::path file = fetch_library(module_directory);
  std::error_code fault {};
  if (!std::filesystem::exists(file, fault)) return file.string() + ": is not installed";
  for (const auto& directory : { module_directory, file.parent_path() })
    if (std::string problem = insecure(directory); !problem.empty()) return problem;
  return library_problem(file);
}

const fetch::ServiceEntry* load_fetch(const std::filesystem::path& module_directory, std::string& problem)
{
  const std::filesystem::path file = fetch_library(module_directory);
  if (problem = fetch_problem(module_directory); !problem.empty()) return nullptr;
  void* handle = open_library(file, problem);
  if (handle == nullptr) return nullptr;
  const fetch::ServiceEntry expected {};
  const auto* entry = static_cast<const fetch::ServiceEntry*>(dlsym(handle, "tandem_fetch"));
  if (entry == nullptr)
    problem = file.string() + ": is no fetch service (no symbol tandem_fetch)";
  else if (entry->abi_version != expected.abi_version)
    problem = file.string() + ": built for service ABI " + std::to_string(entry->abi_version) + ", this is "
              + std::to_string(expected.abi_version) + "; install the one of this version";
  else if (entry->options_size != expected.options_size || entry->job_size != expected.job_size
           || entry->message_size != expected.message_size || entry->create == nullptr)
    problem = file.string() + ": built against other headers of the same ABI number; install the one of this version";
  if (problem.empty()) return entry;
  dlclose(handle);
  return nullptr;
}

} // namespace tandem::daemon
