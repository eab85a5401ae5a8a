#include "src/flow/acceptability.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace tandem::flow
{
namespace
{

// The numbers of a segment relative to what this host expects, wherever in the sequence space that is.
bool allowed(Seq rcv_nxt, Seq snd_nxt, std::int64_t seq, std::uint32_t length, std::int64_t ack,
             std::uint32_t receive = 200'000, std::uint32_t send = 100'000)
{
  Segment s {};
  s.direction = Direction::ingress;
  s.flags = tcp_flag::ack;
  s.seq = rcv_nxt + static_cast<std::uint32_t>(seq);
  s.ack = snd_nxt + static_cast<std::uint32_t>(ack);
  s.payload_length = length;
  return in_windows(s, { .rcv_nxt = rcv_nxt, .receive = receive, .snd_nxt = snd_nxt, .send = send });
}

TEST(Acceptability, TheEdgesOfTheWindows)
{
  const Seq rcv { 1000 }, snd { 5000 };
  EXPECT_TRUE(allowed(rcv, snd, 400'000, 1448, 0));
  EXPECT_FALSE(allowed(rcv, snd, 400'001, 1448, 0));
  EXPECT_TRUE(allowed(rcv, snd, -201'448, 1448, 0));
  EXPECT_FALSE(allowed(rcv, snd, -201'449, 1448, 0));
  EXPECT_TRUE(allowed(rcv, snd, 0, 0, 100'000));
  EXPECT_FALSE(allowed(rcv, snd, 0, 0, 100'001));
  EXPECT_TRUE(allowed(rcv, snd, 0, 0, -200'000));
  EXPECT_FALSE(allowed(rcv, snd, 0, 0, -200'001));
}

TEST(Acceptability, AWindowIsNeverTakenToBeSmallerThanThatOfASyn)
{
  EXPECT_TRUE(allowed({ 1000 }, { 5000 }, 60'000, 1448, 60'000, 0, 0));
}

TEST(Acceptability, AResetIsJudgedByItsSequenceNumber)
{
  Segment reset {};
  reset.flags = tcp_flag::rst | tcp_flag::ack;
  reset.seq = { 1000 };
  reset.ack = { 3'000'000'000u };
  const Windows windows { .rcv_nxt = { 1000 }, .receive = 200'000, .snd_nxt = { 5000 }, .send = 100'000 };
  EXPECT_TRUE(in_windows(reset, windows));
  reset.seq = { 3'000'000'000u };
  EXPECT_FALSE(in_windows(reset, windows));
}

// What a peer can truly send is always acceptable, wherever the numbers wrap; what is drawn at random hardly ever.
TEST(Acceptability, HoldsAroundTheSequenceSpace)
{
  std::mt19937 random { 12 };
  const auto below = [&](std::uint32_t limit) { return static_cast<std::int64_t>(random() % limit); };
  int guessed = 0;
  constexpr int rounds = 100'000;
  for (int i = 0; i < rounds; ++i)
  {
    const Seq rcv { static_cast<std::uint32_t>(random()) }, snd { static_cast<std::uint32_t>(random()) };
    const std::uint32_t receive = 65'536u << (random() % 13), send = 65'536u << (random() % 13);
    const auto length = static_cast<std::uint32_t>(below(65'536));
    ASSERT_TRUE(allowed(rcv, snd, below(receive), length, -below(send), receive, send)) << "new";
    ASSERT_TRUE(allowed(rcv, snd, -below(receive), length, -below(send), receive, send)) << "again";
    ASSERT_TRUE(allowed(rcv, snd, 0, length, below(send), receive, send)) << "of data that was not seen";
    guessed +=
        allowed(rcv, snd, static_cast<std::uint32_t>(random()), 1448, static_cast<std::uint32_t>(random())) ? 1 : 0;
  }
  // Three windows of 200 kB by three of 100 kB, of 2^64.
  EXPECT_LE(guessed, 1);
}

} // namespace
} // namespace tandem::flow
