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
#elif ALIEN == 5
namespace
{
class Odd final : public tandem::Module
{
public:
  std::string_view name() const override { return "My-Module"; }
  std::string_view summary() const override { return {}; }
  std::string_view manual() const override { return {}; }
  std::span<const tandem::Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }
  tandem::Interest interest() const override { return {}; }
  std::size_t flow_state_size() const override { return 0; }
  void flow_begin(std::byte*, const tandem::FlowView&) override {}
  void flow_end(std::byte*) noexcept override {}
  tandem::Plan decide(const tandem::Event&, const tandem::FlowView&, std::byte*) override { return {}; }
  void describe(const tandem::FlowView&, const std::byte*, tandem::Facts&) const override {}
};
} // namespace
TANDEM_MODULE(Odd);
#else
extern "C" __attribute__((visibility("default"))) int nothing_of_use();
extern "C" int nothing_of_use()
{
  return 0;
}
#endif
