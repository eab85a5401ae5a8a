// Any bytes as a recording: the reader ends with packets or a fault that has a place, and what it says of the original
// of an edited packet holds.
#include "src/trace/original.h"
#include "src/trace/reader.h"
#include "tests/fuzz/check.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

using namespace tandem;
using tandem::fuzz::check;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  const int file = memfd_create("recording", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size))
  {
    close(file);
    return 0;
  }
  try
  {
    trace::Reader reader { "/proc/self/fd/" + std::to_string(file) };
    std::uint64_t last = 0;
    while (const auto packet = reader.next())
    {
      check(packet->number == last + 1 || (packet->same_frame && packet->number == last), "frames are counted");
      check(!packet->original, "originals are told as packets");
      last = packet->number;
    }
  }
  catch (const trace::BadFile& bad)
  {
    check(std::string { bad.what() }.find(": ") != std::string::npos, "a fault says what it is");
  }
  close(file);

  // The same bytes as a comment about themselves.
  const std::span<const std::byte> bytes = std::as_bytes(std::span { data, size });
  const std::string text { reinterpret_cast<const char*>(data), size };
  if (const auto original = trace::original_from(text, bytes)) check(original->bytes.size() == size, "sizes stay");
  return 0;
}
