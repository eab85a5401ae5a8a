// Entries and files for the tests of src/trace.
#pragma once

#include "src/trace/pcapng_writer.h"
#include "src/trace/reader.h"
#include "src/trace/recorder.h"
#include "tests/unit/wire/packets.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace tandem::trace::test
{

using wire::test::Packet;
using namespace tandem::literals;

constexpr Tick tick(Duration since_start)
{
  return Tick { since_start };
}

inline Packet ack(std::uint32_t number, std::uint32_t ts_value = 10)
{
  return wire::test::made({ .key = wire::test::key_v4,
                            .seq = { 1 },
                            .ack = { number },
                            .window = 500,
                            .timestamps = Timestamps { { ts_value }, { 20 } } });
}

// A file in the temporary directory that goes with the object.
class TemporaryFile
{
public:
  explicit TemporaryFile(const std::string& content, const std::string& suffix = ".pcapng")
  {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path()
            / ("tandem-trace-" + std::to_string(getpid()) + "-" + std::to_string(++count) + suffix);
    std::ofstream { path_, std::ios::binary } << content;
  }
  ~TemporaryFile()
  {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

inline Heading heading()
{
  return { .version = "0.1.0",
           .commit = "0123abc",
           .command = "tandemd --wifi wlan0 --cell wwan0",
           .kernel = "Linux 6.18.0",
           .knobs = "offload.threshold=20",
           .seed = 42,
           .wifi_device = "wlan0",
           .cell_device = "wwan0" };
}

constexpr Duration realtime_offset { 1'700'000'000'000'000'000 };

// One entry of each disposition.
struct Sample
{
  Packet passed = ack(1000);
  Packet before = ack(2000, 10);
  Packet after = ack(2000, 11);
  Packet dropped = ack(3000);
  Packet injected = ack(4000);
  Packet fault = wire::test::hex("4500001400000000");

  std::vector<Entry> entries() const
  {
    return { { .at = tick(1ms), .disposition = Disposition::passed, .before = passed },
             { .at = tick(2ms),
               .link = Link::wifi,
               .after_link = Link::cell,
               .disposition = Disposition::edited,
               .before = before,
               .after = after,
               .why = "offload: tagged" },
             { .at = tick(3ms), .disposition = Disposition::dropped, .before = dropped, .why = "offload: thinned" },
             { .at = tick(4ms),
               .link = Link::cell,
               .disposition = Disposition::injected,
               .after = injected,
               .why = "freeze: resume ACK" },
             { .at = tick(5ms),
               .direction = Direction::ingress,
               .disposition = Disposition::fault,
               .before = fault,
               .before_length = 20,
               .why = "truncated_ip" } };
  }

  std::string file() const
  {
    Recorder recorder { {} };
    for (const Entry& entry : entries())
      recorder.add(entry);
    std::ostringstream out;
    write_pcapng(out, recorder, heading(), realtime_offset);
    return out.str();
  }
};

inline std::vector<Recorded> read_all(const std::filesystem::path& file)
{
  Reader reader { file };
  std::vector<Recorded> packets;
  while (auto packet = reader.next())
    packets.push_back(std::move(*packet));
  return packets;
}

} // namespace tandem::trace::test
