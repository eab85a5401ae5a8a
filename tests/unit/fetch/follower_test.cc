#include "src/fetch/follower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace tandem::fetch
{
namespace
{

using Bytes = std::vector<std::byte>;

Bytes bytes(std::string_view text)
{
  const auto all = std::as_bytes(std::span { text.data(), text.size() });
  return { all.begin(), all.end() };
}

// A connection whose packets are shown one by one. Sequence numbers begin close to where they wrap.
struct Connection : ::testing::Test
{
  static constexpr Seq client { 0xffff'fff0 };
  static constexpr Seq server { 0xffff'ff00 };
  static constexpr std::string_view get = "GET /file HTTP/1.1\r\nHost: x\r\n\r\n";

  void open()
  {
    show({ .direction = Direction::egress, .seq = client, .flags = tcp_flag::syn });
    show({ .direction = Direction::ingress, .seq = server, .ack = client + 1, .flags = tcp_flag::syn | tcp_flag::ack });
  }
  void show(Segment segment, const Bytes& payload = {})
  {
    segment.payload_length = static_cast<std::uint32_t>(payload.size());
    follower.see(segment, payload);
  }
  void ask(std::string_view request)
  {
    show({ .direction = Direction::egress, .seq = client + 1 + sent, .flags = tcp_flag::ack }, bytes(request));
    sent += static_cast<std::uint32_t>(request.size());
  }
  // `count` bytes of the server's stream from `at` on.
  void arrive(std::uint64_t at, std::size_t count)
  {
    const auto first = stream.begin() + static_cast<std::ptrdiff_t>(at);
    show({ .direction = Direction::ingress,
           .seq = seq(at),
           .ack = client + 1 + sent,
           .flags = tcp_flag::ack,
           .window = 77 },
         Bytes(first, first + static_cast<std::ptrdiff_t>(count)));
  }
  Seq seq(std::uint64_t at) const { return server + 1 + static_cast<std::uint32_t>(at); }
  void acknowledge(std::uint64_t at)
  {
    show({ .direction = Direction::egress, .seq = client + 1 + sent, .ack = seq(at), .flags = tcp_flag::ack });
  }
  // An answer behind what the stream has; returns the position of its body.
  std::uint64_t answer(std::size_t length, std::string_view more = "ETag: \"t\"\r\n")
  {
    const Bytes head =
        bytes("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(length) + "\r\n" + std::string { more } + "\r\n");
    stream.insert(stream.end(), head.begin(), head.end());
    const std::uint64_t body = stream.size();
    for (std::size_t i = 0; i < length; ++i)
      stream.push_back(static_cast<std::byte>(random()));
    return body;
  }
  // A download with `hole` left out; `piece` bytes a packet.
  void download(std::uint64_t from, std::uint64_t to, Piece hole, std::size_t piece = 1000)
  {
    for (std::uint64_t at = from; at < to;)
    {
      std::uint64_t end = std::min<std::uint64_t>(at + piece, to);
      if (at < hole.from) end = std::min(end, hole.from);
      if (at < hole.from || at >= hole.to)
        arrive(at, static_cast<std::size_t>(end - at));
      else
        end = hole.to;
      at = end;
    }
  }
  std::optional<Request> request(Piece wanted) { return follower.request(seq(wanted.from), seq(wanted.to), why); }
  // What the piece is in truth; with `answer_at`, the answer's place in the stream.
  Bytes truth(const Request& r, std::uint64_t answer_at = 0) const
  {
    return { stream.begin() + static_cast<std::ptrdiff_t>(answer_at + r.piece.from),
             stream.begin() + static_cast<std::ptrdiff_t>(answer_at + r.piece.to) };
  }

  Follower follower { {}, 7 };
  Bytes stream {};
  std::uint32_t sent = 0;
  std::string_view why {};
  std::mt19937_64 random { 3 };
};

TEST_F(Connection, AHoleIsAskedForWithWhatIsOnBothSides)
{
  open();
  ask(get);
  const std::uint64_t body = answer(200'000);
  download(0, 100'000, { 50'000, 52'000 });
  EXPECT_EQ(follower.content(), Content::http);
  ASSERT_TRUE(follower.download());
  EXPECT_EQ(follower.download()->flow, 7u);
  EXPECT_EQ(follower.download()->length, 200'000u);
  EXPECT_EQ(follower.download()->validator, "\"t\"");
  EXPECT_EQ(follower.download()->head.size(), body);
  EXPECT_EQ(follower.download()->answer, server + 1);
  EXPECT_EQ(follower.download()->request, bytes(get));
  EXPECT_EQ(follower.server_ack(), client + 1 + sent);
  EXPECT_EQ(follower.server_window(), 77);

  const auto wanted = request({ 50'000, 52'000 });
  ASSERT_TRUE(wanted) << why;
  EXPECT_EQ(wanted->piece, (Piece { 50'000 - 64, 52'000 + 64 }));
  EXPECT_EQ(wanted->offset, 64u);
  EXPECT_EQ(wanted->known.size(), 2u);
  Bytes fetched = truth(*wanted);
  EXPECT_TRUE(equal(*wanted, fetched));
  for (const std::size_t at : { std::size_t { 0 }, std::size_t { 63 }, fetched.size() - 64, fetched.size() - 1 })
  {
    Bytes other = fetched;
    other[at] ^= std::byte { 1 };
    EXPECT_FALSE(equal(*wanted, other)) << at;
  }
  fetched.pop_back();
  EXPECT_FALSE(equal(*wanted, fetched));
}

TEST_F(Connection, APartOfAHoleIsComparedAtTheHolesEdges)
{
  open();
  ask(get);
  answer(200'000);
  download(0, 100'000, { 50'000, 60'000 });
  const auto wanted = request({ 53'000, 54'000 });
  ASSERT_TRUE(wanted) << why;
  EXPECT_EQ(wanted->piece, (Piece { 49'936, 60'064 }));
  EXPECT_EQ(wanted->offset, 3064u);
  EXPECT_TRUE(equal(*wanted, truth(*wanted)));
}

TEST_F(Connection, TheServersOwnRetransmissionMovesTheEdges)
{
  open();
  ask(get);
  answer(200'000);
  download(0, 100'000, { 50'000, 60'000 });
  arrive(50'000, 20); // a short one: its edge reaches back before the hole
  arrive(59'990, 10);
  auto wanted = request({ 50'000, 60'000 });
  ASSERT_TRUE(wanted) << why;
  EXPECT_EQ(wanted->piece, (Piece { 50'020 - 64, 59'990 + 64 }));
  EXPECT_TRUE(equal(*wanted, truth(*wanted)));
  arrive(55'000, 1000); // in the middle
  ASSERT_EQ(follower.holes().size(), 2u);
  wanted = request({ 50'020, 59'990 });
  ASSERT_TRUE(wanted) << why;
  EXPECT_EQ(wanted->known.size(), 4u);
  EXPECT_TRUE(equal(*wanted, truth(*wanted)));
  arrive(50'000, 5500);
  arrive(55'900, 10'000);
  EXPECT_TRUE(follower.holes().empty());
  EXPECT_FALSE(request({ 50'020, 59'990 }));
  EXPECT_EQ(why, "it has arrived meanwhile");
}

TEST_F(Connection, ShortSegmentsBehindAHoleMakeOneEdge)
{
  open();
  ask(get);
  answer(200'000);
  download(0, 50'000, {});
  arrive(51'000, 10);
  arrive(51'010, 10);
  arrive(51'020, 1000);
  const auto wanted = request({ 50'000, 51'000 });
  ASSERT_TRUE(wanted) << why;
  EXPECT_EQ(wanted->piece.to, 51'064u);
  EXPECT_TRUE(equal(*wanted, truth(*wanted)));
}

// Behind the last byte that was seen nothing shows whether what is fetched is right.
TEST_F(Connection, WhatReachesBehindAllThatWasSeenIsNotFetched)
{
  open();
  ask(get);
  answer(200'000);
  download(0, 100'000, { 50'000, 52'000 });
  EXPECT_FALSE(request({ 50'000, 100'001 }));
  EXPECT_EQ(why, "no bytes to compare with on one side");
  EXPECT_TRUE(request({ 50'000, 100'000 })) << why;
}

TEST_F(Connection, WithoutBytesToCompareNothingIsFetched)
{
  open();
  ask(get);
  const std::uint64_t body = answer(100'000);
  download(0, body, {}); // the head alone
  arrive(body + 1000, 1000);
  EXPECT_FALSE(request({ body, body + 1000 })) << "before the hole there is only the head";
  EXPECT_EQ(why, "no bytes to compare with on one side");
  arrive(body, 10);
  const auto wanted = request({ body + 10, body + 1000 });
  ASSERT_TRUE(wanted) << why;
  EXPECT_EQ(wanted->piece.from, body) << "all that there is of the body";
  EXPECT_FALSE(request({ body - 1, body + 100 }));
  EXPECT_EQ(why, "not within the answer's body");
  EXPECT_FALSE(request({ body + 99'000, body + 100'001 }));
  EXPECT_EQ(why, "not within the answer's body");
  EXPECT_FALSE(request({ body + 1000, body + 1000 }));
}

TEST_F(Connection, TooLargeAHoleIsLeftToTheServer)
{
  open();
  ask(get);
  answer(1'000'000);
  download(0, 900'000, { 100'000, 500'000 });
  EXPECT_FALSE(request({ 100'000, 101'000 }));
  EXPECT_EQ(why, "the hole is too large");
}

TEST_F(Connection, WhatIsAcknowledgedIsNoHoleWhateverWasNotSeen)
{
  open();
  ask(get);
  answer(200'000);
  download(0, 100'000, { 50'000, 52'000 });
  acknowledge(51'000);
  EXPECT_EQ(follower.holes().size(), 1u);
  acknowledge(100'000);
  EXPECT_TRUE(follower.holes().empty());
  download(102'000, 150'000, {});
  EXPECT_EQ(follower.holes().size(), 1u);
}

TEST_F(Connection, ALostHeadIsReadWhenItComesAgain)
{
  open();
  ask(get);
  answer(200'000);
  download(1000, 20'000, {});
  EXPECT_EQ(follower.content(), Content::unknown);
  arrive(0, 1000);
  EXPECT_EQ(follower.content(), Content::http);
  EXPECT_TRUE(follower.holes().empty());
}

TEST_F(Connection, AHeadInPiecesIsReadAndOneWithAHoleIsNot)
{
  open();
  ask(get);
  answer(200'000);
  for (std::uint64_t at = 0; at < 100; at += 7)
    arrive(at, 7);
  EXPECT_EQ(follower.content(), Content::http);

  follower = Follower { {}, 8 };
  stream.clear();
  sent = 0;
  open();
  ask(get);
  answer(200'000);
  arrive(0, 10);
  arrive(20, 1000);
  arrive(10, 10);
  EXPECT_EQ(follower.content(), Content::refused);
  EXPECT_EQ(follower.why(), "a part of the answer's head was lost");
}

TEST_F(Connection, ExchangesFollowOneAnother)
{
  open();
  ask(get);
  answer(200'000);
  download(0, stream.size(), {});
  for (int round = 0; round < 3; ++round)
  {
    const std::uint64_t at = stream.size();
    ask(get);
    EXPECT_EQ(follower.content(), Content::unknown);
    const std::uint64_t body = answer(100'000);
    download(at, at + 50'000, { at + 20'000, at + 21'000 });
    ASSERT_EQ(follower.content(), Content::http) << follower.why();
    EXPECT_EQ(follower.download()->answer, seq(at));
    const auto wanted = request({ at + 20'000, at + 21'000 });
    ASSERT_TRUE(wanted) << why;
    EXPECT_EQ(wanted->piece.from, 20'000u - 64);
    EXPECT_TRUE(equal(*wanted, truth(*wanted, at)));
    EXPECT_GT(body, at);
    arrive(at + 20'000, 1000);
    download(at + 50'000, stream.size(), {});
  }
}

TEST_F(Connection, AnAnswerThatIsNotFetchedDoesNotEndTheConnection)
{
  open();
  ask(get);
  answer(1000);
  arrive(0, stream.size());
  EXPECT_EQ(follower.content(), Content::refused);
  EXPECT_EQ(follower.why(), "the answer is short");
  EXPECT_FALSE(follower.over());
  ask(get);
  EXPECT_EQ(follower.content(), Content::unknown);
  const std::uint64_t at = stream.size();
  answer(100'000);
  arrive(at, 2000);
  EXPECT_EQ(follower.content(), Content::http);
}

TEST_F(Connection, DoubtEndsTheMatter)
{
  struct Case
  {
    std::string_view why;
    std::function<void()> act;
  };
  const auto begun = [&]
  {
    open();
    ask(get);
  };
  const auto started = [&]
  {
    begun();
    answer(200'000);
    download(0, 20'000, {});
  };
  const std::vector<Case> cases {
    { "the connection's beginning was not seen", [&] { ask(get); } },
    { "not a GET of plaintext HTTP", [&] { open(), ask("\x16\x03\x01"); } },
    { "not a GET of plaintext HTTP", [&] { open(), ask("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"); } },
    { "a request with a body, or two at once", [&] { open(), ask(std::string { get } + std::string { get }); } },
    { "a request before the last one was answered", [&] { begun(), ask(get); } },
    { "a request before the last one was answered", [&] { started(), ask(get); } },
    { "the request is too long", [&] { open(), ask("GET /" + std::string(17'000, 'x')); } },
    { "a part of a request was not seen", [&] { open(), sent += 5, ask(get); } },
    { "the server speaks unasked", [&] { open(), answer(5), arrive(0, 20); } },
    { "a transfer coding",
      [&] { begun(), stream = bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), arrive(0, 47); } },
    { "the answer's head is too long",
      [&] { begun(), stream.assign(20'000, std::byte { 'a' }), download(0, 20'000, {}); } },
    { "more than Content-Length", [&] { started(), stream.resize(300'000), download(20'000, 250'000, {}); } },
    { "a reset on the connection",
      [&] { started(), show({ .direction = Direction::ingress, .seq = seq(1), .flags = tcp_flag::rst }); } },
    { "MPTCP", [&]
      { show({ .direction = Direction::egress, .seq = client, .flags = tcp_flag::syn, .options = option::mptcp }); } },
    { "data on the SYN (TCP Fast Open)",
      [&] { show({ .direction = Direction::egress, .seq = client, .flags = tcp_flag::syn }, bytes("GET")); } },
    { "a packet was copied in part",
      [&]
      {
        started();
        follower.see(
            { .direction = Direction::ingress, .seq = seq(20'000), .flags = tcp_flag::ack, .payload_length = 9 },
            bytes("four"));
      } },
  };
  for (const Case& one : cases)
  {
    follower = Follower { {}, 9 };
    stream.clear();
    sent = 0;
    one.act();
    EXPECT_TRUE(follower.over()) << one.why;
    EXPECT_EQ(follower.content(), Content::refused) << one.why;
    EXPECT_EQ(follower.why(), one.why);
    EXPECT_FALSE(follower.download());
    EXPECT_FALSE(request({ 10'000, 11'000 }));
  }
}

TEST_F(Connection, ADamagedDownloadIsNotTouchedAgain)
{
  open();
  ask(get);
  answer(200'000);
  download(0, 100'000, { 50'000, 52'000 });
  follower.refuse("the bytes differ");
  EXPECT_FALSE(request({ 50'000, 52'000 }));
  EXPECT_EQ(why, "the bytes differ");
  download(100'000, 150'000, {});
  EXPECT_EQ(follower.content(), Content::refused);
}

// Whatever order, loss, overlap and repetition: what is fetched for any hole fits what arrived, and holes are exactly
// what is missing.
TEST_F(Connection, AnyArrivalIsBookedRight)
{
  for (int round = 0; round < 60; ++round)
  {
    follower = Follower { {}, 9 };
    stream.clear();
    sent = 0;
    open();
    ask(get);
    const std::uint64_t body = answer(70'000);
    arrive(0, static_cast<std::size_t>(body) + 100);
    std::vector<bool> held(stream.size());
    std::fill_n(held.begin(), body + 100, true);
    std::uint64_t top = body + 100;
    for (int packet = 0; packet < 60; ++packet)
    {
      const std::uint64_t at =
          random() % 3 == 0 ? random() % top : std::min<std::uint64_t>(top + random() % 900, stream.size() - 1);
      const std::size_t count =
          static_cast<std::size_t>(std::min<std::uint64_t>(1 + random() % 1500, stream.size() - at));
      arrive(at, count);
      std::fill_n(held.begin() + static_cast<std::ptrdiff_t>(at), count, true);
      top = std::max<std::uint64_t>(top, at + count);
      std::uint64_t missing = 0;
      for (const Hole& hole : follower.holes())
      {
        missing += hole.to - hole.from;
        const auto wanted = request({ hole.from, hole.to });
        ASSERT_TRUE(wanted) << why;
        ASSERT_TRUE(equal(*wanted, truth(*wanted)));
        for (const Request::Known& known : wanted->known)
          for (std::uint64_t i = 0; i < known.edge.size(); ++i)
            ASSERT_TRUE(held[static_cast<std::size_t>(known.at + i)]) << "compared with what never arrived";
      }
      ASSERT_EQ(missing, static_cast<std::uint64_t>(
                             std::count(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(top), false)));
    }
  }
}

TEST_F(Connection, AnyPacketsAreSurvived)
{
  for (int round = 0; round < 2000; ++round)
  {
    follower = Follower { {}, 9 };
    stream.clear();
    sent = 0;
    open();
    if (random() % 8 != 0) ask(get);
    answer(70'000);
    for (int packet = 0; packet < 30; ++packet)
    {
      Bytes payload(random() % 400);
      for (std::byte& b : payload)
        b = static_cast<std::byte>(random());
      if (random() % 2 == 0) arrive(random() % 60'000, random() % 3000);
      Segment segment {
        .direction = random() % 2 == 0 ? Direction::ingress : Direction::egress,
        .seq = { static_cast<std::uint32_t>(random() % 4 == 0 ? random() : seq(random() % 60'000).raw) },
        .ack = { static_cast<std::uint32_t>(random() % 4 == 0 ? random() : seq(random() % 60'000).raw) },
        .flags = static_cast<std::uint16_t>(random() % 16 == 0 ? random() % 32 : tcp_flag::ack)
      };
      if (segment.direction == Direction::egress && random() % 8 != 0) payload.clear();
      show(segment, payload);
      const Seq from = seq(random() % 60'000);
      follower.request(from, from + static_cast<std::uint32_t>(random() % 5000), why);
    }
  }
}

} // namespace
} // namespace tandem::fetch
