// What enters the chain besides packets, as the flight recorder keeps it: with the packets it repeats every decision.
//
// What follows from an input (segments made by it, answers it drew) stands before it in a recording, as it does for a
// packet: a packet's entry tells what became of it, and that is known last.
#pragma once

#include "src/chain/link_rate.h"
#include "src/chain/unanswered.h"

#include <tandem/link.h>
#include <tandem/module.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tandem::trace
{

// One setting of a module, test settings included.
struct KnobIs
{
  std::string module {};
  std::string knob {};
  double value = 0;

  bool operator==(const KnobIs&) const = default;
};

namespace input
{

// All that the chain knows apart from flows. A replay begins at one of these.
struct State
{
  bool first = false; // the daemon's very first: there were no flows before it
  std::uint64_t seed = 0;
  std::uint64_t capacity = 0; // of the flow table
  Duration idle {};           // until a flow is forgotten
  std::uint64_t cell_budget = 0;
  std::uint64_t cell_bytes = 0;                         // spent of it
  std::vector<std::pair<std::string, bool>> modules {}; // in the chain's order; whether switched on
  std::vector<KnobIs> knobs {};
  LinkStates links {};
  std::array<std::optional<RadioState>, link_count> radio_told {};
  std::array<chain::LinkRate::Memory, link_count> rates {};
};
// Time went on: Chain::advance().
struct Advanced
{
};
// Chain::links(). `owners`: what it was told of local addresses.
struct Links
{
  LinkStates states {};
  std::vector<std::pair<Address, Link>> owners {};
};
// Chain::radio().
struct Radio
{
  Link link = Link::wifi;
  std::optional<RadioState> state {};
};
// The log of damaged frames changed: these places of its ring.
struct Damage
{
  bool listening = false;
  bool whole = false; // all other places are empty; else they are as before
  std::uint64_t count = 0;
  std::vector<std::pair<std::uint8_t, Tick>> places {};
};
// Chain::enable().
struct Switched
{
  std::uint8_t slot = 0;
  bool on = false;
};
struct Knobs
{
  std::vector<KnobIs> all {};
};
// What the chain was answered when it asked which modules rest on a flow.
struct RestAnswer
{
  std::uint8_t modules = 0;
  bool watched = false;
  bool cell_path_failed = false;
};
// Chain::rest(). What follows from it is carried out with the next CarriedOut.
struct Rests
{
  FlowKey flow {};
  RestAnswer rest {};
};
struct CarriedOut
{
};
// FlowView::cell_path_failed.
struct PathFailed
{
  FlowKey flow {};
  bool failed = false;
};
// The queue went out of the way, or came back.
struct QueueBypassed
{
  bool bypassed = false;
};
// A segment that the chain made could not be sent.
struct NotSent
{
  FlowKey flow {};
};
// Chain::spent().
struct Spent
{
  std::uint64_t bytes = 0;
};
// Bytes of this flow may be fetched a second time from now on; what is fetched is not recorded.
struct Fetches
{
  FlowKey flow {};
};
// A module asked something of a link.
struct Request
{
  std::uint8_t slot = 0;
  LinkRequest request {};
};
// What the chain was answered beside the next RestAnswer, or without one: nothing of the flow may go by cellular.
struct CellDenial
{
  CellDenied why = CellDenied::no;
};
// FlowView::cell_path_known of a flow under way.
struct PathKnown
{
  FlowKey flow {};
  std::optional<Duration> added_delay {};
};
// What the chain was answered beside the next RestAnswer: the delay that FlowView::cell_path_known begins with.
struct PathAnswer
{
  Duration added_delay {};
};
// Chain::limit_cell().
struct CellLimit
{
  std::uint64_t bytes = 0;
};
// Chain::unanswered().
using chain::Unanswered;
// A module failed, or took too long, and was taken out of the flow at hand.
struct ModuleFault
{
};

} // namespace input

using ChainInput =
    std::variant<input::State, input::Advanced, input::Links, input::Radio, input::Damage, input::Switched,
                 input::Knobs, input::RestAnswer, input::Rests, input::CarriedOut, input::PathFailed,
                 input::QueueBypassed, input::NotSent, input::Spent, input::Fetches, input::Request, input::ModuleFault,
                 input::CellDenial, input::CellLimit, input::PathKnown, input::PathAnswer, input::Unanswered>;

// No input is longer than this when encoded: what does not fit is not encoded.
constexpr std::size_t longest_input = 8192;

// Little-endian, the kind first. Returns what was used of `out`; 0: it does not fit. Allocates nothing.
std::size_t encode(const ChainInput& one, std::span<std::byte> out);

// Nothing when the bytes are none that encode() writes: damaged, or of a later release.
std::optional<ChainInput> decode(std::span<const std::byte> bytes);

} // namespace tandem::trace
