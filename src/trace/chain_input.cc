#include "src/trace/chain_input.h"

#include <bit>
#include <concepts>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace tandem::trace
{
namespace
{

// Both directions walk the same fields by the same functions, so that they cannot drift apart.
class Encoder
{
public:
  static constexpr bool reads = false;
  explicit Encoder(std::span<std::byte> out) : out_ { out } {}

  template <std::unsigned_integral Number>
  void number(Number value)
  {
    if (!room(sizeof value)) return;
    for (std::size_t i = 0; i < sizeof value; ++i)
      out_[used_++] = static_cast<std::byte>(value >> (8 * i));
  }
  void bytes(std::span<const std::byte> from)
  {
    if (!room(from.size()) || from.empty()) return;
    std::memcpy(out_.data() + used_, from.data(), from.size());
    used_ += from.size();
  }
  std::size_t used() const { return fits_ ? used_ : 0; }

private:
  bool room(std::size_t size) { return fits_ = fits_ && out_.size() - used_ >= size; }

  std::span<std::byte> out_;
  std::size_t used_ = 0;
  bool fits_ = true;
};

class Decoder
{
public:
  static constexpr bool reads = true;
  explicit Decoder(std::span<const std::byte> in) : in_ { in } {}

  template <std::unsigned_integral Number>
  void number(Number& value)
  {
    value = 0;
    const auto from = take(sizeof value);
    for (std::size_t i = 0; i < from.size(); ++i)
      value = static_cast<Number>(value | static_cast<Number>(std::to_integer<Number>(from[i]) << (8 * i)));
  }
  std::span<const std::byte> take(std::size_t size)
  {
    ok_ = ok_ && in_.size() >= size;
    if (!ok_) return {};
    const auto taken = in_.first(size);
    in_ = in_.subspan(size);
    return taken;
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && in_.empty(); }
  void fail() { ok_ = false; }

private:
  std::span<const std::byte> in_;
  bool ok_ = true;
};

// The field as the coder's direction wants it: constant when it is written.
template <class Coder, class Value>
using Of = std::conditional_t<Coder::reads, Value&, const Value&>;

template <class Coder, std::unsigned_integral Number>
void field(Coder& coder, Number& value)
{
  coder.number(value);
}

template <class Coder, std::unsigned_integral Number>
void field(Coder& coder, const Number& value)
{
  coder.number(value);
}

// Through an unsigned number of the same meaning.
template <class Wire, class Coder, class Value, class To, class From>
void through(Coder& coder, Value& value, To to, From from)
{
  if constexpr (Coder::reads)
  {
    Wire wire {};
    coder.number(wire);
    value = from(wire);
  }
  else
    coder.number(static_cast<Wire>(to(value)));
}

template <class Coder>
void flag(Coder& coder, Of<Coder, bool> value)
{
  through<std::uint8_t>(
      coder, value, [](bool v) { return v ? 1 : 0; }, [](std::uint8_t v) { return v != 0; });
}

template <class Coder>
void real(Coder& coder, Of<Coder, double> value)
{
  through<std::uint64_t>(
      coder, value, [](double v) { return std::bit_cast<std::uint64_t>(v); },
      [](std::uint64_t v) { return std::bit_cast<double>(v); });
}

template <class Coder>
void real(Coder& coder, Of<Coder, float> value)
{
  through<std::uint32_t>(
      coder, value, [](float v) { return std::bit_cast<std::uint32_t>(v); },
      [](std::uint32_t v) { return std::bit_cast<float>(v); });
}

template <class Coder>
void span_of(Coder& coder, Of<Coder, Duration> value)
{
  through<std::uint64_t>(
      coder, value, [](Duration v) { return v.count(); },
      [](std::uint64_t v) { return Duration { static_cast<Duration::rep>(v) }; });
}

template <class Coder>
void time(Coder& coder, Of<Coder, Tick> value)
{
  through<std::uint64_t>(
      coder, value, [](Tick v) { return v.time_since_epoch().count(); },
      [](std::uint64_t v) { return Tick { Duration { static_cast<Duration::rep>(v) } }; });
}

template <class Coder, class Word>
requires std::is_enum_v<std::remove_const_t<Word>>
void word(Coder& coder, Word& value)
{
  through<std::uint8_t>(
      coder, value, [](Word v) { return v; }, [](std::uint8_t v) { return static_cast<std::remove_const_t<Word>>(v); });
}

template <class Coder>
void link(Coder& coder, Of<Coder, Link> value)
{
  word(coder, value);
  if constexpr (Coder::reads)
    if (static_cast<std::size_t>(value) >= link_count) coder.fail(), value = Link::other;
}

template <class Coder>
void text(Coder& coder, Of<Coder, std::string> value)
{
  if constexpr (Coder::reads)
  {
    std::uint8_t size = 0;
    coder.number(size);
    const auto from = coder.take(size);
    value.assign(reinterpret_cast<const char*>(from.data()), from.size());
  }
  else
  {
    const std::string_view kept = std::string_view { value }.substr(0, 255);
    coder.number(static_cast<std::uint8_t>(kept.size()));
    coder.bytes(std::as_bytes(std::span { kept.data(), kept.size() }));
  }
}

template <class Coder, class Items, class Each>
void list(Coder& coder, Items& items, Each each)
{
  if constexpr (Coder::reads)
  {
    std::uint16_t size = 0;
    coder.number(size);
    for (std::uint16_t i = 0; i < size && coder.ok(); ++i)
      each(items.emplace_back());
  }
  else
  {
    coder.number(static_cast<std::uint16_t>(items.size()));
    for (const auto& item : items)
      each(item);
  }
}

template <class Coder, class Optional, class Each>
void maybe(Coder& coder, Optional& value, Each each)
{
  bool there = value.has_value();
  flag(coder, there);
  if constexpr (Coder::reads)
  {
    value.reset();
    if (there) value.emplace();
  }
  if (there) each(*value);
}

template <class Coder>
void address(Coder& coder, Of<Coder, Address> value)
{
  flag(coder, value.v6);
  for (auto& byte : value.bytes)
    field(coder, byte);
}

template <class Coder>
void flow(Coder& coder, Of<Coder, FlowKey> value)
{
  address(coder, value.local);
  address(coder, value.remote);
  field(coder, value.local_port);
  field(coder, value.remote_port);
}

template <class Coder>
void radio(Coder& coder, Of<Coder, std::optional<RadioState>> value)
{
  // What follows. Without the later two it is what releases wrote that knew of none, and theirs are read still.
  constexpr std::uint8_t known = 1, candidate = 2, received = 4;
  std::uint8_t holds = 0;
  if (value) holds = known;
  if (value && value->candidate) holds |= candidate;
  if (value && value->received) holds |= received;
  field(coder, holds);
  if constexpr (Coder::reads)
  {
    value.reset();
    if ((holds & known) != 0)
      value.emplace();
    else if (holds != 0)
      coder.fail();
    if (holds > (known | candidate | received)) coder.fail();
    if (value && (holds & candidate) != 0) value->candidate.emplace();
    if (value && (holds & received) != 0) value->received.emplace();
  }
  if (!value) return;
  auto& state = *value;
  maybe(coder, state.packet_time, [&coder](auto& one) { span_of(coder, one); });
  for (auto* each : { &state.delivery, &state.signal, &state.busy })
    maybe(coder, *each, [&coder](auto& one) { real(coder, one); });
  real(coder, state.confidence);
  field(coder, state.frequency);
  if (state.candidate) real(coder, *state.candidate);
  if (state.received) real(coder, *state.received);
}

// In one byte, the one that was `at_risk` alone in releases up to 0.1: theirs are read still.
template <class Coder>
void risk_and_frames(Coder& coder, Of<Coder, LinkState> state)
{
  constexpr std::uint8_t at_risk = 1, known = 2, keeps = 4;
  std::uint8_t holds = 0;
  if (state.at_risk) holds |= at_risk;
  if (state.keeps_frames) holds |= known;
  if (state.keeps_frames.value_or(false)) holds |= keeps;
  field(coder, holds);
  if constexpr (Coder::reads)
  {
    state.at_risk = (holds & at_risk) != 0;
    state.keeps_frames.reset();
    if ((holds & known) != 0) state.keeps_frames = (holds & keeps) != 0;
  }
}

template <class Coder>
void link_states(Coder& coder, Of<Coder, LinkStates> states)
{
  for (auto& state : states)
  {
    for (auto* each : { &state.present, &state.up, &state.route, &state.route_v6 })
      flag(coder, *each);
    risk_and_frames(coder, state);
    time(coder, state.changed);
    field(coder, state.mtu);
    radio(coder, state.radio);
    field(coder, state.bytes_out);
    field(coder, state.bytes_left);
    real(coder, state.delivery_rate);
  }
}

template <class Coder>
void knobs(Coder& coder, Of<Coder, std::vector<KnobIs>> all)
{
  list(coder, all,
       [&coder](auto& one)
       {
         text(coder, one.module);
         text(coder, one.knob);
         real(coder, one.value);
       });
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::State> one)
{
  flag(coder, one.first);
  field(coder, one.seed);
  field(coder, one.capacity);
  span_of(coder, one.idle);
  field(coder, one.cell_budget);
  field(coder, one.cell_bytes);
  list(coder, one.modules,
       [&coder](auto& module)
       {
         text(coder, module.first);
         flag(coder, module.second);
       });
  knobs(coder, one.knobs);
  link_states(coder, one.links);
  for (auto& told : one.radio_told)
    radio(coder, told);
  for (auto& rate : one.rates)
  {
    time(coder, rate.begin);
    field(coder, rate.bytes);
    real(coder, rate.rate);
  }
}

template <class Coder>
void fields(Coder&, Of<Coder, input::Advanced>)
{
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::Links> one)
{
  link_states(coder, one.states);
  list(coder, one.owners,
       [&coder](auto& owner)
       {
         address(coder, owner.first);
         link(coder, owner.second);
       });
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::Radio> one)
{
  link(coder, one.link);
  radio(coder, one.state);
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::Damage> one)
{
  flag(coder, one.listening);
  flag(coder, one.whole);
  field(coder, one.count);
  list(coder, one.places,
       [&coder](auto& place)
       {
         field(coder, place.first);
         time(coder, place.second);
       });
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::Switched> one)
{
  field(coder, one.slot);
  flag(coder, one.on);
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::Knobs> one)
{
  knobs(coder, one.all);
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::RestAnswer> one)
{
  field(coder, one.modules);
  flag(coder, one.watched);
  flag(coder, one.cell_path_failed);
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::Rests> one)
{
  flow(coder, one.flow);
  fields(coder, one.rest);
}

template <class Coder>
void fields(Coder&, Of<Coder, input::CarriedOut>)
{
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::PathFailed> one)
{
  flow(coder, one.flow);
  flag(coder, one.failed);
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::QueueBypassed> one)
{
  flag(coder, one.bypassed);
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::NotSent> one)
{
  flow(coder, one.flow);
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::Spent> one)
{
  field(coder, one.bytes);
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::Fetches> one)
{
  flow(coder, one.flow);
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::Request> one)
{
  field(coder, one.slot);
  word(coder, one.request.kind);
  link(coder, one.request.link);
  real(coder, one.request.value);
}

template <class Coder>
void fields(Coder&, Of<Coder, input::ModuleFault>)
{
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::CellDenial> one)
{
  word(coder, one.why);
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::CellLimit> one)
{
  field(coder, one.bytes);
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::PathKnown> one)
{
  flow(coder, one.flow);
  maybe(coder, one.added_delay, [&coder](auto& delay) { span_of(coder, delay); });
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::PathAnswer> one)
{
  span_of(coder, one.added_delay);
}

template <class Coder>
void fields(Coder& coder, Of<Coder, input::Unanswered> one)
{
  flow(coder, one.flow);
  flag(coder, one.opening);
  field(coder, one.doubled);
  field(coder, one.acked);
  field(coder, one.unacked);
}

template <std::size_t kind = 0>
std::optional<ChainInput> decode_as(std::size_t wanted, Decoder& decoder)
{
  if constexpr (kind < std::variant_size_v<ChainInput>)
  {
    if (kind != wanted) return decode_as<kind + 1>(wanted, decoder);
    ChainInput one { std::in_place_index<kind> };
    fields(decoder, std::get<kind>(one));
    if (!decoder.done()) return {};
    return one;
  }
  return {};
}

} // namespace

std::size_t encode(const ChainInput& one, std::span<std::byte> out)
{
  Encoder encoder { out };
  encoder.number(static_cast<std::uint8_t>(one.index()));
  std::visit([&encoder](const auto& each) { fields(encoder, each); }, one);
  return encoder.used();
}

std::optional<ChainInput> decode(std::span<const std::byte> bytes)
{
  Decoder decoder { bytes };
  std::uint8_t kind = 0;
  decoder.number(kind);
  return decode_as(kind, decoder);
}

} // namespace tandem::trace
