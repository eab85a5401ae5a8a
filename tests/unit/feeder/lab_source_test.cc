#include "src/feeder/sources/lab_source.h"
#include "tests/unit/feeder/capture.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace tandem::feeder
{
namespace
{

using namespace tandem::literals;

std::vector<std::byte> file_header(std::uint32_t magic = 0xa1b23c4d, std::uint32_t link = 127)
{
  return Capture {}.u32(magic).u16(2).u16(4).u32(0).u32(0).u32(65535).u32(link).bytes;
}

std::vector<std::byte> packed(const std::vector<std::byte>& frame, std::uint32_t seconds, std::uint32_t fraction)
{
  return Capture {}
      .u32(seconds)
      .u32(fraction)
      .u32(static_cast<std::uint32_t>(frame.size()))
      .u32(static_cast<std::uint32_t>(frame.size()))
      .add(frame)
      .bytes;
}

void feed(PcapStream& stream, std::span<const std::byte> bytes)
{
  const auto room = stream.room();
  ASSERT_GE(room.size(), bytes.size());
  std::copy(bytes.begin(), bytes.end(), room.begin());
  stream.commit(bytes.size());
}

TEST(PcapStream, gives_whole_records_whatever_pieces_they_come_in)
{
  const auto frame = record({});
  for (std::size_t piece : { 1u, 7u, 16u, 1000u })
  {
    auto stream = std::make_unique<PcapStream>();
    Capture all {};
    all.add(file_header());
    for (std::uint32_t i = 0; i < 5; ++i)
      all.add(packed(frame, 10, i));
    std::uint32_t seen = 0;
    for (std::size_t at = 0; at < all.bytes.size(); at += piece)
    {
      feed(*stream, std::span { all.bytes }.subspan(at, std::min(piece, all.bytes.size() - at)));
      while (const auto one = stream->next())
      {
        EXPECT_EQ(one->time_ns, 10'000'000'000 + seen++);
        EXPECT_TRUE(std::equal(one->bytes.begin(), one->bytes.end(), frame.begin(), frame.end()));
      }
    }
    EXPECT_EQ(seen, 5u) << piece;
  }
}

TEST(PcapStream, reads_microseconds_too)
{
  auto stream = std::make_unique<PcapStream>();
  feed(*stream, file_header(0xa1b2c3d4));
  feed(*stream, packed(record({}), 1, 5));
  EXPECT_EQ(stream->next()->time_ns, 1'000'005'000);
}

TEST(PcapStream, refuses_what_it_is_not)
{
  for (const auto& head : { file_header(0x12345678), file_header(0xa1b23c4d, 1) })
  {
    auto stream = std::make_unique<PcapStream>();
    feed(*stream, head);
    EXPECT_FALSE(stream->next());
    EXPECT_TRUE(stream->broken());
  }
  auto stream = std::make_unique<PcapStream>();
  feed(*stream, file_header());
  feed(*stream, Capture {}.u32(0).u32(0).u32(1u << 30).u32(1u << 30).bytes);
  EXPECT_FALSE(stream->next());
  EXPECT_TRUE(stream->broken());
}

// A made-up emulator.
class Server
{
public:
  explicit Server(const std::string& path)
  {
    sockaddr_un address {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::unlink(path.c_str());
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 4), 0);
  }
  ~Server()
  {
    ::close(listener_);
    hang_up();
  }
  void accept() { client_ = ::accept(listener_, nullptr, nullptr); }
  void send(const std::vector<std::byte>& bytes)
  {
    EXPECT_EQ(::send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void hang_up()
  {
    if (client_ >= 0) ::close(client_);
    client_ = -1;
  }

private:
  int listener_ = -1;
  int client_ = -1;
};

class Lab : public testing::Test
{
protected:
  std::string directory = std::filesystem::temp_directory_path() / ("tandem-feeder-" + std::to_string(::getpid()));
  std::string path = directory + "/frames.sock";
  std::vector<Report> events {};

  void SetUp() override { std::filesystem::create_directories(directory); }
  void TearDown() override { std::filesystem::remove_all(directory); }
};

TEST_F(Lab, a_source_that_is_not_there_can_come_later)
{
  LabSource source { path };
  EXPECT_EQ(source.fd(), -1);
  EXPECT_FALSE(source.receive(Tick { 1s }, events));
  Server server { path };
  EXPECT_TRUE(source.reopen({}));
  EXPECT_TRUE(source.receive(Tick { 1s }, events)) << "nothing has come yet, and nobody waits for it";
  EXPECT_TRUE(events.empty());
}

TEST_F(Lab, times_are_those_of_the_capture_on_our_clock)
{
  Server server { path };
  LabSource source { path };
  server.accept();
  server.send(file_header());
  const auto frame = record({ .control = down, .signal = -61 });
  server.send(packed(frame, 1000, 0));
  EXPECT_TRUE(source.receive(Tick { 5s }, events));
  // Two frames 30 and 40 ms later, read together at last.
  server.send(packed(frame, 1000, 30'000'000));
  server.send(packed(frame, 1000, 40'000'000));
  EXPECT_TRUE(source.receive(Tick { 5s + 100ms }, events));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].at, Tick { 5s });
  EXPECT_EQ(events[1].at, Tick { 5s + 30ms });
  EXPECT_EQ(events[2].at, Tick { 5s + 40ms });
  EXPECT_EQ(std::get<Frame>(events[2].what).signal, -61);
}

TEST_F(Lab, a_source_that_ends_says_so_and_comes_back)
{
  auto server = std::make_unique<Server>(path);
  LabSource source { path };
  server->accept();
  server->send(file_header());
  server->hang_up();
  EXPECT_TRUE(source.receive(Tick { 1s }, events)) << "what came before is taken in first";
  EXPECT_FALSE(source.receive(Tick { 1s }, events));
  EXPECT_EQ(source.fd(), -1);
  EXPECT_TRUE(source.reopen({}));
}

TEST_F(Lab, rubbish_ends_the_source_and_is_counted)
{
  Server server { path };
  LabSource source { path };
  server.accept();
  server.send(std::vector<std::byte>(100, std::byte { 0x5a }));
  EXPECT_FALSE(source.receive(Tick { 1s }, events));
  EXPECT_EQ(source.skipped(), 1u);
}

TEST_F(Lab, a_record_that_is_no_frame_is_skipped)
{
  Server server { path };
  LabSource source { path };
  server.accept();
  server.send(file_header());
  server.send(packed(std::vector<std::byte>(12, std::byte { 9 }), 1, 1));
  server.send(packed(record({ .control = down }), 1, 2));
  EXPECT_TRUE(source.receive(Tick { 1s }, events));
  EXPECT_EQ(events.size(), 1u);
  EXPECT_EQ(source.skipped(), 1u);
}

} // namespace
} // namespace tandem::feeder
