// A module that can work in several ways, ours and published ones. Each way is a type of its own with its own knobs and
// flow state, so that none asks which one was chosen.
#pragma once

#include <tandem/knob_table.h>
#include <tandem/module.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

namespace tandem
{

// A strategy is a class with
//
//   struct State;                           of one flow
//   struct Knobs;                           doubles
//   static constexpr std::string_view name; the value of the knob `strategy`
//   static constexpr std::string_view help; half a sentence for the manual
//   static constexpr std::array<KnobRow<Knobs>, n> rows;
//   static constexpr std::array<KnobRow<Knobs>, n> test_rows; optional: Module::test_knobs()
//   Knobs knobs;
//   Plan decide(const Event& event, const FlowView& flow, State& state);
//   void describe(const FlowView& flow, const State& state, Facts& facts) const;
//
// The first one is the default. A knob that several of them have is one knob to the user, and set in each.
//
// When another strategy is chosen while flows run, a flow's next event goes to the old one as
// EventKind::switched_off, so that it undoes what it holds; then the new one begins with a fresh State.
template <class... Strategies>
class StrategyModule : public Module
{
public:
  using State = std::variant<typename Strategies::State...>;
  static_assert(sizeof(State) <= largest_flow_state, "per-flow state of a module is at most largest_flow_state bytes");
  static_assert(alignof(State) <= alignof(std::max_align_t));

  std::span<const Knob> knobs() const final { return { table().all.data(), table().count }; }
  std::span<const Knob> test_knobs() const final { return { table().for_tests.data(), table().test_count }; }
  void set(std::string_view knob, double value) final
  {
    if (knob == "strategy") chosen_ = std::min(static_cast<std::size_t>(value), sizeof...(Strategies) - 1);
    std::apply([&](auto&... one) { (set_knob(one.knobs, one.rows, knob, value), ...); }, strategies_);
    std::apply([&](auto&... one) { (set_knob(one.knobs, test_rows(one), knob, value), ...); }, strategies_);
  }
  double get(std::string_view knob) const final
  {
    if (knob == "strategy") return static_cast<double>(chosen_);
    double value = 0;
    const auto look = [&](const auto& one)
    {
      for (const auto& row : one.rows)
        if (row.knob.name == knob) value = one.knobs.*row.field;
      for (const auto& row : test_rows(one))
        if (row.knob.name == knob) value = one.knobs.*row.field;
    };
    std::apply([&](const auto&... one) { (look(one), ...); }, strategies_);
    return value;
  }

  std::size_t flow_state_size() const final { return sizeof(State); }
  void flow_begin(std::byte* bytes, const FlowView&) final { begin(*new (bytes) State {}); }
  void flow_end(std::byte* bytes) noexcept final { state_of(bytes).~State(); }
  Plan decide(const Event& event, const FlowView& flow, std::byte* bytes) final
  {
    State& state = state_of(bytes);
    if (state.index() != chosen_)
    {
      Event over = event;
      over.kind = EventKind::switched_off;
      over.segment = nullptr;
      over.queued = false;
      Plan plan = ask(over, flow, state);
      begin(state);
      if (plan.inject.empty() && plan.request.empty()) plan = ask(event, flow, state);
      if (!plan.reserve) plan.reserve = TsReservation {}; // the old one's TSvals
      return plan;
    }
    return ask(event, flow, state);
  }
  void describe(const FlowView& flow, const std::byte* bytes, Facts& facts) const final
  {
    const State& state = state_of(bytes);
    each(
        [&](auto i)
        {
          if (state.index() == i) std::get<i>(strategies_).describe(flow, *std::get_if<i>(&state), facts);
        });
  }

  static const State& state_of(const std::byte* bytes) { return *std::launder(reinterpret_cast<const State*>(bytes)); }
  static State& state_of(std::byte* bytes) { return *std::launder(reinterpret_cast<State*>(bytes)); }

protected:
  std::size_t chosen() const { return chosen_; }

private:
  template <class Strategy>
  static constexpr auto test_rows(const Strategy&)
  {
    if constexpr (requires { Strategy::test_rows; })
      return Strategy::test_rows;
    else
      return std::array<KnobRow<typename Strategy::Knobs>, 0> {};
  }
  template <class Strategy>
  static constexpr std::size_t test_row_count = decltype(test_rows(std::declval<const Strategy&>())) {}.size();

  struct Table
  {
    static constexpr std::array<std::string_view, sizeof...(Strategies)> names { Strategies::name... };
    std::array<Knob, 1 + (Strategies::rows.size() + ...)> all {};
    std::size_t count = 1;
    std::array<Knob, (test_row_count<Strategies> + ...)> for_tests {};
    std::size_t test_count = 0;
    std::string help;

    Table()
    {
      ((help +=
        (help.empty() ? "" : "; ") + std::string { Strategies::name } + ": " + std::string { Strategies::help }),
       ...);
      all[0] = { .name = "strategy",
                 .type = KnobType::choice,
                 .maximum = static_cast<double>(names.size() - 1),
                 .help = help,
                 .choices = names };
      (add<Strategies>(Strategies::rows, all, count), ...);
      (add<Strategies>(test_rows(Strategies {}), for_tests, test_count), ...);
    }
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    template <class Strategy>
    static void add(const auto& rows, auto& knobs, std::size_t& known)
    {
      const typename Strategy::Knobs initial {};
      for (const auto& row : rows)
      {
        const auto same = [&](const Knob& knob) { return knob.name == row.knob.name; };
        if (std::any_of(knobs.begin(), knobs.begin() + static_cast<std::ptrdiff_t>(known), same)) continue;
        knobs[known] = row.knob;
        knobs[known++].initial = initial.*row.field;
      }
    }
  };
  static const Table& table()
  {
    static const Table one {};
    return one;
  }

  template <class Do>
  static void each(const Do& what)
  {
    [&]<std::size_t... i>(std::index_sequence<i...>)
    {
      (what(std::integral_constant<std::size_t, i> {}), ...);
    }
    (std::index_sequence_for<Strategies...> {});
  }
  void begin(State& state) const
  {
    each(
        [&](auto i)
        {
          if (chosen_ == i) state.template emplace<i>();
        });
  }
  Plan ask(const Event& event, const FlowView& flow, State& state)
  {
    Plan plan {};
    each(
        [&](auto i)
        {
          if (state.index() == i) plan = std::get<i>(strategies_).decide(event, flow, *std::get_if<i>(&state));
        });
    return plan;
  }

  std::tuple<Strategies...> strategies_ {};
  std::size_t chosen_ = 0;
};

} // namespace tandem
