// Follows one plaintext HTTP/1.1 connection from copies of its packets: which download is on it, and where the holes
// are.
#pragma once

#include "src/fetch/fetcher.h"

#include <tandem/flow.h>
#include <tandem/segment.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tandem::fetch
{

// Up to 64 bytes next to a hole, to compare with.
class Edge
{
public:
  static constexpr std::size_t longest = 64;

  std::span<const std::byte> bytes() const { return { bytes_.data(), size_ }; }
  std::size_t size() const { return size_; }
  // Keeps the last ones of what it has and `more`.
  void extend_behind(std::span<const std::byte> more);
  // Keeps the first ones of what it has and `more`.
  void extend_before(std::span<const std::byte> more);
  void clear() { size_ = 0; }

private:
  std::array<std::byte, longest> bytes_ {};
  std::size_t size_ = 0;
};

// Bytes [from, to) of the server's stream, counted from its first, that did not arrive, and what arrived on both sides.
struct Hole
{
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  Edge before {}; // ends at `from`
  Edge after {};  // begins at `to`
};

// What to fetch for a range that is asked for, and what to compare it with. Positions are of the answer, as in Piece.
struct Request
{
  std::shared_ptr<const Download> download {};
  Piece piece {};
  struct Known
  {
    std::uint64_t at = 0;
    Edge edge {};
  };
  std::vector<Known> known {}; // on both sides of every hole in the piece
  std::uint64_t offset = 0;    // of the first byte that was asked for, within the piece
};

// Whether bytes fetched for the piece are the ones that arrived, wherever that can be seen.
bool equal(const Request& request, std::span<const std::byte> bytes);

// Pure: bytes in, verdicts out. Whatever is not certain is refused, with a literal reason, for as long as the
// connection lasts: copies may be missing, and a server may send anything.
class Follower
{
public:
  struct Limits
  {
    std::size_t head = 16384;       // bytes of a request or of an answer's head
    std::uint64_t shortest = 65536; // a body of fewer bytes is not worth it
    std::uint64_t piece = 262144;   // bytes of one piece, with what is compared
    std::size_t holes = 512;        // remembered at a time; the oldest go
  };

  // `id` names the downloads (Download::flow).
  Follower(const FlowKey& key, std::uint64_t id, Limits limits) : limits_ { limits }, key_ { key }, id_ { id } {}
  Follower(const FlowKey& key, std::uint64_t id) : Follower { key, id, Limits {} } {}

  // A copy of a packet of this connection; `payload` is whole, as far as the copy is.
  void see(const Segment& segment, std::span<const std::byte> payload);

  Content content() const { return content_; }
  std::string_view why() const { return why_; }
  // Nothing is looked at any more.
  bool over() const { return phase_ == Phase::refused || phase_ == Phase::closed; }
  bool closed() const { return phase_ == Phase::closed; }
  bool handshaking() const { return phase_ == Phase::handshake; }
  // The download that is on the way; null unless content() is http.
  std::shared_ptr<const Download> download() const { return content_ == Content::http ? download_ : nullptr; }

  // How far the download has come in order, from the answer's first byte.
  std::uint64_t progress() const;

  // What must be fetched for [from, to); `why` says why nothing can be.
  std::optional<Request> request(Seq from, Seq to, std::string_view& why) const;
  // Nothing may be fetched on this connection any more.
  void refuse(std::string_view why);

  const std::vector<Hole>& holes() const { return holes_; }
  // The newest header of the server: for segments in its name.
  Seq server_ack() const { return server_ack_; }
  std::uint16_t server_window() const { return server_window_; }

private:
  enum class Phase : std::uint8_t
  {
    handshake,
    request, // one may begin, or has begun
    head,    // of the answer
    body,
    refused,
    closed,
  };

  void leaving(const Segment& segment, std::span<const std::byte> payload);
  void arriving(const Segment& segment, std::span<const std::byte> payload);
  void read_request();
  void read_answer();
  void arrived(std::uint64_t from, std::span<const std::byte> bytes);
  void close_holes(std::uint64_t from, std::span<const std::byte> bytes);
  void forget_holes_before(std::uint64_t position);
  std::uint64_t position(Seq seq) const; // in the server's stream
  bool known(Seq seq) const;             // not further away than a window can be

  Limits limits_;
  FlowKey key_;
  std::uint64_t id_;
  Phase phase_ = Phase::handshake;
  Content content_ = Content::unknown;
  std::string_view why_ {};

  bool syn_ = false, syn_ack_ = false;
  Seq local_next_ {};   // in order from this host
  Seq remote_first_ {}; // first byte of the server's stream
  Seq server_ack_ {};
  std::uint16_t server_window_ = 0;

  std::vector<std::byte> request_ {}; // as far as it has left
  std::vector<std::byte> head_ {};    // of the answer, in order
  std::uint64_t answer_at_ = 0;       // position of the answer
  std::uint64_t body_end_ = 0;        // of its last byte's successor, once the head is known
  std::shared_ptr<const Download> download_ {};

  std::uint64_t top_ = 0; // behind the last byte that arrived
  Edge tail_ {};          // ends there
  std::vector<Hole> holes_ {};
};

} // namespace tandem::fetch
