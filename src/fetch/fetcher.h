// A way to get bytes of a plaintext HTTP/1.1 download a second time, over the cellular link. Two exist: by a Range
// request of its own, and by replaying the original request on a mirror connection.
//
// Everything here runs on the fetch thread (docs/decisions/0007): nothing waits, results come by a callback.
#pragma once

#include <tandem/segment.h>
#include <tandem/units.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::fetch
{

// One exchange on the original connection: a request, and the answer that is being downloaded.
struct Download
{
  std::uint64_t flow = 0;         // a number of its own for each connection, never used again
  FlowKey key {};                 // of the original connection
  std::vector<std::byte> request; // as the application sent it, head and nothing else (GET has no body)
  Seq answer {};                  // sequence number of the first byte of the answer ("HTTP/1.1 200 ...")
  std::vector<std::byte> head;    // the answer's head, up to and including the empty line
  std::uint64_t length = 0;       // bytes of the body (Content-Length)
  std::string validator;          // strong ETag with its quotes; empty when there is none
};

// Bytes [from, to) of the answer, counted from its first byte: the head is a part of it.
struct Piece
{
  std::uint64_t from = 0;
  std::uint64_t to = 0;

  std::uint64_t size() const { return to - from; }
  bool operator==(const Piece&) const = default;
};

struct Fetched
{
  bool ok = false;
  std::vector<std::byte> bytes {}; // exactly the piece that was asked for when `ok`
  std::string_view why {};         // literal: the reason when not
  Duration took {};                // from asking to having
  std::uint64_t cell_bytes = 0;    // that went over the cellular link for it, both ways, as far as known
  bool final = false;              // not ok, and it would be the same for every piece of this download
};

class Fetcher
{
public:
  using Done = std::function<void(Fetched)>;

  virtual ~Fetcher() = default;
  // Calls `done` once, later: with the piece, or with a reason. Several may be under way at once. Compares nothing: the
  // caller asks for some bytes on both sides that it has, and compares.
  virtual void fetch(std::shared_ptr<const Download> download, Piece wanted, Tick deadline, Done done) = 0;
  // Pieces of this download may be wanted soon: what takes a round trip may begin now.
  virtual void prepare(const std::shared_ptr<const Download>&) {}
  // The download has come so far, in order, counted from the answer's first byte: what is fetched next lies there or
  // behind. Only while pieces of it are asked for; called now and then.
  virtual void follow(const std::shared_ptr<const Download>&, std::uint64_t) {}
  // Bytes that went over the cellular link since the last call, and were booked with no piece.
  virtual std::uint64_t take_unbooked() { return 0; }
  // The download is over: connections that were kept for it are closed, what is under way fails.
  virtual void forget(std::uint64_t flow) = 0;
};

} // namespace tandem::fetch
