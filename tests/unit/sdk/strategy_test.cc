// A module with two strategies, as modules/offload has.
#include "src/daemon/module_loader.h"

#include <tandem/strategy.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace tandem
{
namespace
{

using testing::ElementsAre;

struct Held
{
  static constexpr std::string_view name = "held";
  static constexpr std::string_view help = "withholds every ACK";
  struct Knobs
  {
    double most = 3;
    double shared = 5;
    double timeout = 7;
  };
  static constexpr std::array<KnobRow<Knobs>, 2> rows { {
      { { .name = "most", .maximum = 9, .help = "ACKs" }, &Knobs::most },
      { { .name = "shared", .maximum = 9, .help = "of both" }, &Knobs::shared },
  } };
  static constexpr std::array<KnobRow<Knobs>, 1> test_rows { {
      { { .name = "timeout", .maximum = 9, .help = "for tests" }, &Knobs::timeout },
  } };
  struct State
  {
    std::size_t held = 0;
  };
  Knobs knobs {};
  std::array<InjectedSegment, 1> injected {};

  Plan decide(const Event& event, const FlowView&, State& state)
  {
    if (event.kind == EventKind::switched_off)
    {
      EXPECT_EQ(event.segment, nullptr);
      EXPECT_FALSE(event.queued);
      return state.held > 0 ? Plan { .inject = injected, .why = "held: flush" } : Plan {};
    }
    ++state.held;
    return { .verdict = Verdict::drop, .why = "held: one more" };
  }
  void describe(const FlowView&, const State& state, Facts& facts) const
  {
    facts.add("held", static_cast<double>(state.held));
  }
};

struct Open
{
  static constexpr std::string_view name = "open";
  static constexpr std::string_view help = "as published: passes everything";
  struct Knobs
  {
    double shared = 5;
  };
  static constexpr std::array<KnobRow<Knobs>, 1> rows { {
      { { .name = "shared", .maximum = 9, .help = "of both" }, &Knobs::shared },
  } };
  struct State
  {
  };
  Knobs knobs {};
  Plan decide(const Event&, const FlowView&, State&) { return { .why = "open: passed" }; }
  void describe(const FlowView&, const State&, Facts& facts) const { facts.add("shared", knobs.shared); }
};

class Both final : public StrategyModule<Held, Open>
{
public:
  std::string_view name() const override { return "both"; }
  std::string_view summary() const override { return ""; }
  std::string_view manual() const override { return ""; }
  Interest interest() const override { return {}; }
  std::span<const RetiredKnob> retired_knobs() const override
  {
    static constexpr std::array<RetiredKnob, 2> retired { { { .name = "timeout", .now = "is a constant now: 7" },
                                                            { .name = "least", .now = "is a constant now: 1 ms" } } };
    return retired;
  }
};

struct StrategyTest : ::testing::Test
{
  struct Lines final : Facts
  {
    void add(std::string_view key, std::string_view) override { all.emplace_back(key); }
    void add(std::string_view key, double value, std::string_view) override
    {
      all.push_back(std::string { key } + " " + std::to_string(static_cast<int>(value)));
    }
    std::vector<std::string> all {};
  };

  StrategyTest() { module.flow_begin(bytes.data(), flow); }
  ~StrategyTest() override { module.flow_end(bytes.data()); }
  Plan show()
  {
    const Event event { .kind = EventKind::segment, .segment = &segment, .queued = true };
    return module.decide(event, flow, bytes.data());
  }
  std::vector<std::string> facts()
  {
    Lines lines;
    module.describe(flow, bytes.data(), lines);
    return lines.all;
  }

  Both module {};
  Segment segment {};
  FlowView flow {};
  alignas(std::max_align_t) std::array<std::byte, sizeof(Both::State)> bytes {};
};

TEST_F(StrategyTest, TheFirstOneIsTheDefault)
{
  EXPECT_EQ(module.get("strategy"), 0);
  EXPECT_EQ(show().why, "held: one more");
  EXPECT_THAT(facts(), ElementsAre("held 1"));
}

TEST_F(StrategyTest, EveryKnobIsListedOnceWithTheDefaultOfItsStrategy)
{
  std::vector<std::string_view> names;
  for (const Knob& knob : module.knobs())
    names.push_back(knob.name);
  EXPECT_THAT(names, ElementsAre("strategy", "most", "shared"));
  EXPECT_EQ(module.knobs()[0].help, "held: withholds every ACK; open: as published: passes everything");
  EXPECT_THAT(module.knobs()[0].choices, ElementsAre("held", "open"));
  EXPECT_EQ(module.knobs()[1].initial, 3);
  EXPECT_EQ(module.get("most"), 3);
}

TEST_F(StrategyTest, AKnobOfSeveralIsSetInEach)
{
  module.set("shared", 8);
  EXPECT_EQ(module.get("shared"), 8);
  module.set("strategy", 1);
  show();
  EXPECT_THAT(facts(), ElementsAre("shared 8"));
}

TEST_F(StrategyTest, AConstantThatOnlyTestsSetIsNotListed)
{
  ASSERT_EQ(module.test_knobs().size(), 1u);
  EXPECT_EQ(module.test_knobs()[0].name, "timeout");
  EXPECT_EQ(module.test_knobs()[0].initial, 7);
  EXPECT_EQ(module.get("timeout"), 7);
  module.set("timeout", 2);
  EXPECT_EQ(module.get("timeout"), 2);
}

TEST(RetiredKnob, AConfigurationIsToldWhatBecameOfIt)
{
  daemon::LoadedModules loaded {};
  loaded.modules.push_back({ .module = std::make_shared<Both>(), .file = "" });
  const daemon::KnobCheck check = daemon::knob_check(loaded);
  const auto answer = [&](const std::string& knob)
  { return check({ .module = "both", .knob = knob, .text = "3" }).value_or("fine").text; };
  EXPECT_EQ(answer("most"), "fine");
  EXPECT_EQ(answer("least"), "least is a constant now: 1 ms; leave it out");
  EXPECT_EQ(answer("timeout"), "timeout is a constant now: 7; leave it out") << "that tests may set it is no matter";
  EXPECT_EQ(answer("worst"), "no such knob; both has: strategy, most, shared");
}

// Two knobs that are fine by themselves.
class Ordered final : public FlowModule<int>
{
public:
  std::string_view name() const override { return "ordered"; }
  std::string_view summary() const override { return ""; }
  std::string_view manual() const override { return ""; }
  std::span<const Knob> knobs() const override { return all; }
  void set(std::string_view knob, double value) override { (knob == "low" ? low : high) = value; }
  double get(std::string_view knob) const override { return knob == "low" ? low : high; }
  std::string complaint() const override { return low > high ? "low is above high" : ""; }
  Interest interest() const override { return {}; }
  Plan decide(const Event&, const FlowView&, int&) override { return {}; }
  void describe(const FlowView&, const int&, Facts&) const override {}

private:
  static constexpr std::array<Knob, 2> all { { { .name = "low", .maximum = 9, .initial = 1, .help = "" },
                                               { .name = "high", .maximum = 9, .initial = 5, .help = "" } } };
  double low = 1, high = 5;
};

TEST(KnobsTogether, AConfigurationIsRefusedAtTheLineThatMakesThemWrong)
{
  daemon::LoadedModules loaded {};
  loaded.modules.push_back(
      { .module = std::make_shared<Ordered>(), .file = "", .fresh = [] { return std::make_shared<Ordered>(); } });
  const auto complaints = [&](const std::string& text)
  {
    const daemon::ConfigResult result = daemon::parse_config(text, "t.toml", daemon::knob_check(loaded));
    EXPECT_TRUE(result.complaints.empty());
    std::string all;
    for (const daemon::Complaint& one : daemon::check_modules(result.config, loaded))
      all += one.text();
    return all;
  };
  EXPECT_EQ(complaints("[modules.ordered]\nlow = 2\nhigh = 3\n"), "");
  EXPECT_EQ(complaints("[modules.ordered]\nlow = 7\nhigh = 8\n"), "") << "whatever the defaults are";
  EXPECT_EQ(complaints("[modules.ordered]\nlow = 4\nhigh = 3\n"), "t.toml:3: modules.ordered: low is above high");
  EXPECT_EQ(complaints("[modules.ordered]\nlow = 6\n"), "t.toml:2: modules.ordered: low is above high");
  EXPECT_EQ(loaded.modules[0].module->get("low"), 1) << "the module in use is not touched";
}

TEST_F(StrategyTest, AnotherStrategyTakesAFlowOverWhenTheOldOneHasUndoneWhatItHolds)
{
  show();
  module.set("strategy", 1);
  const Plan undo = show();
  EXPECT_EQ(undo.why, "held: flush");
  EXPECT_EQ(undo.verdict, Verdict::pass) << "the packet at hand is neither one's to drop";
  EXPECT_EQ(show().why, "open: passed");
  module.set("strategy", 0);
  EXPECT_EQ(show().why, "held: one more") << "nothing to undo: the event is the new one's";
  EXPECT_THAT(facts(), ElementsAre("held 1")) << "what was known before is forgotten";
}

TEST_F(StrategyTest, WhatTheOldOneReservedIsGivenBack)
{
  module.set("strategy", 1);
  const Plan plan = show();
  EXPECT_EQ(plan.why, "open: passed");
  ASSERT_TRUE(plan.reserve);
  EXPECT_EQ(plan.reserve->what, TsReservation::What::none);
  EXPECT_FALSE(show().reserve) << "once";
}

TEST_F(StrategyTest, AFlowThatBeginsBelongsToTheChosenOne)
{
  module.set("strategy", 1);
  alignas(std::max_align_t) std::array<std::byte, sizeof(Both::State)> other {};
  module.flow_begin(other.data(), flow);
  EXPECT_EQ(Both::state_of(other.data()).index(), 1u);
  module.flow_end(other.data());
}

} // namespace
} // namespace tandem
