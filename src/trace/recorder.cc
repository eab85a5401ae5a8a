#include "src/trace/recorder.h"

#include "src/trace/chain_input.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace tandem::trace
{
namespace
{

// The head of an entry in memory. Of a packet the bytes before, the bytes after and the reason follow it; of an input
// its bytes alone.
struct Slot
{
  Tick at {};
  Duration received {};   // before `at`; only when asked
  std::uint32_t size = 0; // of the whole entry, a multiple of the alignment
  std::uint32_t before_length = 0;
  std::uint32_t after_length = 0;
  std::uint32_t seen = 0;
  std::uint16_t before_kept = 0;
  std::uint16_t after_kept = 0;
  std::uint16_t why_length = 0;
  std::uint8_t flags = 0;
  Direction direction = Direction::egress;
  Link link = Link::wifi;
  Link after_link = Link::wifi;
  Disposition disposition = Disposition::passed;
};

constexpr std::uint8_t is_input = 1, is_asked = 2, has_received = 4, checksum_not_ready = 8;

constexpr std::size_t align(std::size_t size)
{
  return (size + alignof(Slot) - 1) & ~(alignof(Slot) - 1);
}

std::size_t largest_entry(std::uint32_t snap)
{
  return align(sizeof(Slot) + 2 * std::size_t { snap } + longest_why);
}

Slot slot_at(std::span<const std::byte> memory, std::size_t at)
{
  Slot slot;
  std::memcpy(&slot, memory.data() + at, sizeof slot);
  return slot;
}

std::optional<Asked> asked(const Slot& slot)
{
  if ((slot.flags & is_asked) == 0) return {};
  return Asked { .at = slot.at,
                 .received = (slot.flags & has_received) != 0 ? slot.at - slot.received : Tick {},
                 .seen = slot.seen,
                 .checksum_not_ready = (slot.flags & checksum_not_ready) != 0 };
}

std::uint32_t length_of(std::span<const std::byte> bytes, std::uint32_t stated)
{
  return stated != 0 ? stated : static_cast<std::uint32_t>(bytes.size());
}

} // namespace

Recorder::Recorder(const Limits& limits) : limits_ { limits }
{
  if (limits.keep <= Duration::zero())
    throw std::invalid_argument { "flight recorder: it must keep more than 0 seconds" };
  if (limits.snap == 0 || limits.snap > 65535)
    throw std::invalid_argument { "flight recorder: 1 to 65535 bytes of a packet can be kept, not "
                                  + std::to_string(limits.snap) };
  if (limits.bytes < largest_entry(limits.snap))
    throw std::invalid_argument { "flight recorder: " + std::to_string(limits.bytes)
                                  + " bytes hold no packet; at least " + std::to_string(largest_entry(limits.snap))
                                  + " are needed" };
  memory_.resize(limits.bytes);
}

void Recorder::add(const Entry& entry) noexcept
{
  if (!entry.input.empty())
  {
    add_input(entry.at, entry.input);
    return;
  }
  expire(entry.at);
  const auto before = entry.before.first(std::min<std::size_t>(entry.before.size(), limits_.snap));
  const auto after = entry.after.first(std::min<std::size_t>(entry.after.size(), limits_.snap));
  const auto why = entry.why.substr(0, longest_why);
  const std::size_t size = align(sizeof(Slot) + before.size() + after.size() + why.size());
  const std::size_t at = place(size);

  Slot slot { .at = entry.at,
              .size = static_cast<std::uint32_t>(size),
              .before_length = length_of(entry.before, entry.before_length),
              .after_length = length_of(entry.after, entry.after_length),
              .before_kept = static_cast<std::uint16_t>(before.size()),
              .after_kept = static_cast<std::uint16_t>(after.size()),
              .why_length = static_cast<std::uint16_t>(why.size()),
              .direction = entry.direction,
              .link = entry.link,
              .after_link = entry.disposition == Disposition::edited ? entry.after_link : entry.link,
              .disposition = entry.disposition };
  if (entry.asked)
  {
    slot.flags = is_asked;
    slot.seen = entry.asked->seen;
    if (entry.asked->checksum_not_ready) slot.flags |= checksum_not_ready;
    if (entry.asked->received != Tick {})
    {
      slot.flags |= has_received;
      slot.received = entry.at - entry.asked->received;
    }
  }
  std::byte* to = memory_.data() + at;
  std::memcpy(to, &slot, sizeof slot);
  to = std::copy(before.begin(), before.end(), to + sizeof slot);
  to = std::copy(after.begin(), after.end(), to);
  std::transform(why.begin(), why.end(), to, [](char c) { return static_cast<std::byte>(c); });
  head_ = at + size;
  ++count_;
  ++counters_.recorded;
}

void Recorder::add_input(Tick at, std::span<const std::byte> input) noexcept
{
  const std::size_t size = align(sizeof(Slot) + input.size());
  if (input.empty() || input.size() > longest_input || size > memory_.size()) return;
  expire(at);
  const std::size_t to = place(size);
  const Slot slot { .at = at,
                    .size = static_cast<std::uint32_t>(size),
                    .before_kept = static_cast<std::uint16_t>(input.size()),
                    .flags = is_input };
  std::memcpy(memory_.data() + to, &slot, sizeof slot);
  std::copy(input.begin(), input.end(), memory_.data() + to + sizeof slot);
  head_ = to + size;
  ++count_;
}

void Recorder::expire(Tick now) noexcept
{
  while (count_ != 0 && now - slot_at(memory_, tail_).at > limits_.keep)
  {
    forget_oldest();
    ++counters_.expired;
  }
}

void Recorder::clear() noexcept
{
  while (count_ != 0)
    forget_oldest();
  head_ = tail_ = end_ = count_ = 0;
  wrapped_ = false;
}

void Recorder::visit(const std::function<void(const Entry&)>& visitor) const
{
  const std::span<const std::byte> memory { memory_ };
  std::size_t at = tail_;
  bool wrapped = wrapped_;
  for (std::size_t i = 0; i < count_; ++i)
  {
    const Slot slot = slot_at(memory, at);
    const auto body = memory.subspan(at + sizeof(Slot));
    const auto why = body.subspan(std::size_t { slot.before_kept } + slot.after_kept, slot.why_length);
    if ((slot.flags & is_input) != 0)
      visitor({ .at = slot.at, .input = body.first(slot.before_kept) });
    else
      visitor({ .at = slot.at,
                .direction = slot.direction,
                .link = slot.link,
                .after_link = slot.after_link,
                .disposition = slot.disposition,
                .before = body.first(slot.before_kept),
                .after = body.subspan(slot.before_kept, slot.after_kept),
                .before_length = slot.before_length,
                .after_length = slot.after_length,
                .why = { reinterpret_cast<const char*>(why.data()), why.size() },
                .asked = asked(slot) });
    at += slot.size;
    if (wrapped && at == end_)
    {
      at = 0;
      wrapped = false;
    }
  }
}

// Where an entry of `size` bytes goes; forgets the oldest ones that are in the way.
std::size_t Recorder::place(std::size_t size) noexcept
{
  for (;;)
  {
    if (count_ == 0) clear();
    if (!wrapped_ && memory_.size() - head_ >= size) return head_;
    if (!wrapped_)
    {
      end_ = head_;
      head_ = 0;
      wrapped_ = true;
    }
    if (tail_ - head_ >= size) return head_;
    forget_oldest();
    ++counters_.overwritten;
  }
}

void Recorder::forget_oldest() noexcept
{
  const Slot oldest = slot_at(memory_, tail_);
  if ((oldest.flags & is_input) == 0) ++forgotten_;
  ++entries_forgotten_;
  tail_ += oldest.size;
  --count_;
  if (wrapped_ && tail_ == end_)
  {
    tail_ = 0;
    wrapped_ = false;
  }
}

} // namespace tandem::trace
