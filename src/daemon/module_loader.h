// Loads modules from a directory that only root can write.
#pragma once

#include "src/daemon/config.h"

#include <tandem/module.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::daemon
{

// A module and the library its code lives in; the library is closed after the module is destroyed.
struct LoadedModule
{
  std::shared_ptr<void> library {};
  std::shared_ptr<Module> module {};
  std::string file;
  // Another instance, with every knob at its default.
  std::function<std::shared_ptr<Module>()> fresh {};
};

struct LoadedModules
{
  std::vector<LoadedModule> modules {};
  std::vector<std::string> problems {}; // one sentence for each file that was refused, and why
};

// Loads every *.so of `directory` that the ABI fits. Never throws for a bad file: it is refused with a sentence, and
// Tandem runs with the rest. Refused are also files and directories that anyone but root may write, since their code
// runs with network privileges.
LoadedModules load_modules(const std::filesystem::path& directory);

// Loads one library, whoever may write it: for a developer's own runs of a module, never for the daemon. Empty, or the
// sentence that says why it was refused.
std::string load_module(const std::filesystem::path& file, LoadedModules& into);

// How a knob's value is shown: "0.25s" for "250ms". Of an empty text the built-in one. What the module does not take is
// shown as it is.
std::string shown_knob(const LoadedModules& loaded, std::string_view module, std::string_view knob,
                       const std::string& value);

// Checks module and knob names and values of a configuration against the modules that are loaded.
KnobCheck knob_check(const LoadedModules& loaded);

// What is wrong with a configuration's modules and knobs: each by itself, then those of a module together
// (Module::complaint). What is harmless goes to `warnings`.
std::vector<Complaint> check_modules(const Config& config, const LoadedModules& loaded,
                                     std::vector<Complaint>* warnings = nullptr);

// Why the module has no such knob, as a sentence: what became of one that an earlier version had, else which there are.
std::string no_such_knob(const Module& module, std::string_view knob);

} // namespace tandem::daemon
