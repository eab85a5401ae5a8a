#include "src/daemon/module_settings.h"

#include "src/control/backend.h"
#include "src/control/literal.h"
#include "src/daemon/module_loader.h"

#include <tandem/module.h>

#include <variant>

namespace tandem::daemon
{

std::size_t slot_of(chain::Chain& chain, const std::string& module)
{
  std::string known {};
  for (std::size_t i = 0; i < chain.module_count(); ++i)
  {
    if (chain.module(i).name() == module) return i;
    known += (known.empty() ? "" : ", ") + std::string { chain.module(i).name() };
  }
  throw control::Refused { control::Refused::Kind::bad_request,
                           "no module \"" + module + "\" is loaded; "
                               + (known.empty() ? "none is" : "loaded are: " + known) };
}

void set_knob(chain::Chain& chain, const std::string& module, const std::string& knob, const std::string& value)
{
  Module& m = chain.module(slot_of(chain, module));
  for (const Knob& one : m.knobs())
  {
    if (one.name != knob) continue;
    const auto parsed = parse_knob(one, value);
    if (const auto* words = std::get_if<std::string>(&parsed))
      throw control::Refused { control::Refused::Kind::bad_request,
                               module + "." + knob + " = \"" + value + "\": " + *words };
    const double before = m.get(one.name);
    const bool was_fine = m.complaint().empty();
    m.set(one.name, std::get<double>(parsed));
    // What does not fit already may be mended a knob at a time.
    if (const std::string what = m.complaint(); !what.empty() && was_fine)
    {
      m.set(one.name, before);
      throw control::Refused { control::Refused::Kind::bad_request,
                               module + "." + knob + " = \"" + value + "\": " + what };
    }
    return;
  }
  throw control::Refused { control::Refused::Kind::bad_request, module + "." + knob + ": " + no_such_knob(m, knob) };
}

void take_knobs(chain::Chain& chain, const std::vector<KnobSetting>& knobs)
{
  for (const KnobSetting& setting : knobs)
    static_cast<void>(slot_of(chain, setting.module));
  for (std::size_t i = 0; i < chain.module_count(); ++i)
  {
    Module& module = chain.module(i);
    for (const Knob& knob : module.knobs())
    {
      double value = knob.initial;
      for (const KnobSetting& setting : knobs)
        if (setting.module == module.name() && setting.knob == knob.name)
          value = std::get<double>(parse_knob(knob, setting.text));
      if (module.get(knob.name) != value) module.set(knob.name, value);
    }
  }
}

std::string knobs_text(chain::Chain& chain)
{
  std::string text {};
  for (std::size_t i = 0; i < chain.module_count(); ++i)
    for (const Knob& knob : chain.module(i).knobs())
      if (const double value = chain.module(i).get(knob.name); value != knob.initial)
        text += (text.empty() ? "" : " ") + std::string { chain.module(i).name() } + "." + std::string { knob.name }
                + "=" + format_knob(knob, value);
  return text;
}

} // namespace tandem::daemon
