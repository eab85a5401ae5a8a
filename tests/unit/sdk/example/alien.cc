// Modules that the loader must refuse, one for each value of ALIEN.
#include <tandem/module.h>

#if ALIEN == 1
extern "C" __attribute__((visibility("default"))) const tandem::ModuleEntry tandem_module;
extern "C" const tandem::ModuleEntry tandem_module { .abi_version = tandem::module_abi_version + 1 };
#elif ALIEN == 2
extern "C" __attribute__((visibility("default"))) const tandem::ModuleEntry tandem_module;
extern "C" const tandem::ModuleEntry tandem_module { .flow_size = sizeof(tandem::FlowView) + 8 };
#elif ALIEN == 3
extern "C" __attribute__((visibility("default"))) const tandem::ModuleEntry tandem_module;
extern "C" const tandem::ModuleEntry tandem_module { .create = []() -> tandem::Module* { throw 1; },
                                                     .destroy = [](tandem::Module*) noexcept {} };
#else
extern "C" __attribute__((visibility("default"))) int nothing_of_use();
extern "C" int nothing_of_use()
{
  return 0;
}
#endif
