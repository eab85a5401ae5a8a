// The packet path allocates nothing: every call to operator new of this binary is counted.
#include "src/trace/recorder.h"
#include "src/wire/build.h"
#include "src/wire/edit.h"
#include "src/wire/parse.h"
#include "tests/unit/wire/packets.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>

namespace
{

std::size_t allocations = 0;

}

// Not inlined: the compiler would see malloc and free apart from each other and warn of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size)
{
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc {};
}

[[gnu::noinline]] void operator delete(void* memory) noexcept
{
  std::free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept
{
  std::free(memory);
}

namespace tandem
{
namespace
{

TEST(Allocation, NoneOnThePacketPath)
{
  using wire::test::Packet;
  trace::Recorder recorder { { .bytes = 20000 } };
  const std::vector<Packet> packets = wire::test::captured();
  Packet copy(2000);
  Packet made(2000);
  std::uint64_t done = 0;
  const std::size_t before = allocations;
  for (int round = 0; round < 200; ++round)
    for (const Packet& packet : packets)
    {
      const Segment segment = wire::parse(packet, Direction::egress).segment;
      std::copy(packet.begin(), packet.end(), copy.begin());
      const std::span edited { std::span { copy }.first(packet.size()) };
      done +=
          wire::edit(edited, segment, { .window = std::uint16_t { 9 }, .ecn = Ecn::ce }, wire::ChecksumState::complete)
          == wire::EditFault::none;
      done += wire::build_ack(made, { .key = segment.key, .timestamps = segment.timestamps });
      done += wire::build_unreachable(made, { .key = segment.key });
      recorder.add({ .at = Tick { Duration { round } },
                     .disposition = trace::Disposition::edited,
                     .before = packet,
                     .after = edited,
                     .why = "allocation test: a reason longer than any small string holds" });
    }
  EXPECT_EQ(allocations, before);
  EXPECT_GT(done, 0u);
  EXPECT_GT(recorder.counters().overwritten, 0u);

  // The counter counts.
  auto one = std::make_unique<std::uint64_t>(done);
  EXPECT_EQ(allocations, before + 1);
  EXPECT_EQ(*one, done);
}

} // namespace
} // namespace tandem
