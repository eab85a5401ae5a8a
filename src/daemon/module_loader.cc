#include "src/daemon/module_loader.h"

#include "src/control/literal.h"
#include "src/daemon/config_value.h"
#include "src/daemon/library.h"

#include <dlfcn.h>

#include <algorithm>

namespace tandem::daemon
{

std::string load_module(const std::filesystem::path& file, LoadedModules& into)
{
  std::string problem {};
  void* handle = open_library(file, problem);
  if (handle == nullptr) return problem;
  std::shared_ptr<void> library { handle, [](void* h) { dlclose(h); } };
  const auto* entry = static_cast<const ModuleEntry*>(dlsym(handle, "tandem_module"));
  if (entry == nullptr) return file.string() + ": is no Tandem module (no symbol tandem_module)";
  if (entry->abi_version != module_abi_version)
    return file.string() + ": built for module ABI " + std::to_string(entry->abi_version) + ", this is "
           + std::to_string(module_abi_version) + "; rebuild it";
  if (entry->segment_size != sizeof(Segment) || entry->plan_size != sizeof(Plan)
      || entry->flow_size != sizeof(FlowView))
    return file.string() + ": built against other headers of the same ABI number; rebuild it";
  if (entry->create == nullptr || entry->destroy == nullptr)
    return file.string() + ": has no create or destroy function";
  try
  {
    const auto fresh = [library, entry] {
      return std::shared_ptr<Module> { entry->create(), [library, entry](Module* m) { entry->destroy(m); } };
    };
    std::shared_ptr<Module> module = fresh();
    if (!module) return file.string() + ": returned no module";
    if (!is_module_name(module->name()))
      return file.string()
             + ": its module's name is not of at most 32 lower-case letters, digits and _, beginning with a "
               "letter: no setting could name it";
    const auto same = [&](const LoadedModule& other) { return other.module->name() == module->name(); };
    if (std::any_of(into.modules.begin(), into.modules.end(), same))
      return file.string() + ": a module named " + std::string { module->name() } + " is already loaded";
    if (module->flow_state_size() > largest_flow_state)
      return file.string() + ": wants " + std::to_string(module->flow_state_size()) + " bytes per flow, at most "
             + std::to_string(largest_flow_state) + " are allowed";
    into.modules.push_back({ std::move(library), std::move(module), file.string(), fresh });
  }
  catch (const std::exception& error)
  {
    return file.string() + ": failed to start: " + error.what();
  }
  catch (...)
  {
    return file.string() + ": failed to start";
  }
  return {};
}

LoadedModules load_modules(const std::filesystem::path& directory)
{
  LoadedModules loaded {};
  std::error_code error {};
  if (!std::filesystem::is_directory(directory, error))
  {
    loaded.problems.push_back(directory.string() + ": no such directory, so there are no modules");
    return loaded;
  }
  if (std::string problem = insecure(directory); !problem.empty())
  {
    loaded.problems.push_back(std::move(problem));
    return loaded;
  }
  std::vector<std::filesystem::path> files {};
  for (const auto& entry : std::filesystem::directory_iterator { directory, error })
    if (entry.path().extension() == ".so") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files)
  {
    std::string problem = insecure(file);
    if (problem.empty()) problem = load_module(file, loaded);
    if (!problem.empty()) loaded.problems.push_back(std::move(problem));
  }
  return loaded;
}

std::string no_such_knob(const Module& module, std::string_view knob)
{
  for (const RetiredKnob& retired : module.retired_knobs())
    if (retired.name == knob) return std::string { knob } + " " + std::string { retired.now } + "; leave it out";
  std::string known {};
  for (const Knob& each : module.knobs())
    known += (known.empty() ? "" : ", ") + std::string { each.name };
  return "no such knob; " + std::string { module.name() } + " has: " + known;
}

std::string shown_knob(const LoadedModules& loaded, std::string_view module, std::string_view name,
                       const std::string& value)
{
  for (const LoadedModule& one : loaded.modules)
    for (const Knob& knob : one.module->knobs())
    {
      if (one.module->name() != module || knob.name != name) continue;
      if (value.empty()) return format_knob(knob, knob.initial);
      const auto parsed = parse_knob(knob, value);
      const double* number = std::get_if<double>(&parsed);
      return number != nullptr ? format_knob(knob, *number) : value;
    }
  return value;
}

namespace
{

// Why it is not among `known`: what was wrong with its file, or with all of them.
std::string not_loaded(const std::string& module, const std::string& known, const std::vector<std::string>& problems)
{
  for (const std::string& problem : problems)
    if (problem.find("/" + module + ".so: ") != std::string::npos) return "is not loaded; " + problem;
  if (known.empty() && !problems.empty()) return "is not loaded; " + problems.front();
  return "no such module is loaded" + (known.empty() ? std::string {} : "; loaded are: " + known);
}

} // namespace

KnobCheck knob_check(const LoadedModules& loaded)
{
  std::vector<std::shared_ptr<Module>> modules {};
  for (const LoadedModule& one : loaded.modules)
    modules.push_back(one.module);
  return [modules, problems = loaded.problems](const KnobSetting& setting) -> std::optional<KnobRemark>
  {
    const auto at =
        std::find_if(modules.begin(), modules.end(), [&](const auto& m) { return m->name() == setting.module; });
    if (at == modules.end())
    {
      std::string known {};
      for (const auto& m : modules)
        known += (known.empty() ? "" : ", ") + std::string { m->name() };
      return not_loaded(setting.module, known, problems);
    }
    if (setting.knob.empty()) return std::nullopt;
    const std::span<const Knob> knobs = (*at)->knobs();
    const auto knob = std::find_if(knobs.begin(), knobs.end(), [&](const Knob& k) { return k.name == setting.knob; });
    if (knob == knobs.end())
    {
      const auto retired = (*at)->retired_knobs();
      const bool harmless = std::any_of(retired.begin(), retired.end(),
                                        [&](const RetiredKnob& r) { return r.name == setting.knob && !r.refused; });
      return KnobRemark { no_such_knob(**at, setting.knob), harmless };
    }
    const auto value = parse_knob(*knob, setting.text);
    if (const auto* words = std::get_if<std::string>(&value)) return *words;
    return std::nullopt;
  };
}

namespace
{

// Knobs that are fine by themselves and do not fit together.
std::vector<Complaint> misfits(const Config& config, const LoadedModules& loaded)
{
  std::vector<Complaint> complaints;
  for (const LoadedModule& one : loaded.modules)
  {
    const std::shared_ptr<Module> module = one.fresh ? one.fresh() : nullptr;
    if (!module) continue;
    const Source* last = nullptr; // the setting that makes them wrong together
    for (const KnobSetting& setting : config.knobs)
      for (const Knob& knob : module->knobs())
        if (setting.module == module->name() && setting.knob == knob.name)
        {
          module->set(knob.name, std::get<double>(parse_knob(knob, setting.text)));
          // Knobs come in the order of their names; the command line is on top of the file, and has no lines.
          if (last == nullptr || setting.where.line == 0 || (last->line != 0 && setting.where.line > last->line))
            last = &setting.where;
        }
    if (last == nullptr) continue;
    if (const std::string what = module->complaint(); !what.empty())
      complaints.push_back({ *last, "modules." + std::string { module->name() } + ": " + what });
  }
  return complaints;
}

} // namespace

std::vector<Complaint> check_modules(const Config& config, const LoadedModules& loaded,
                                     std::vector<Complaint>* warnings)
{
  std::vector<Complaint> complaints = check_modules(config, knob_check(loaded), warnings);
  if (complaints.empty()) complaints = misfits(config, loaded);
  if (!complaints.empty()) return complaints;
  for (const Profile& profile : config.profiles)
    for (Complaint& one : misfits(with_profile(config, &profile), loaded))
    {
      one.what = "profile." + profile.name + "." + one.what;
      complaints.push_back(std::move(one));
    }
  return complaints;
}

} // namespace tandem::daemon
