// The fetch thread: watches plaintext downloads by a tap, gets missing bytes of them, compares, and hands them out.
#pragma once

#include "src/fetch/fetcher.h"
#include "src/fetch/follower.h"
#include "src/kernel/marks.h"

#include <tandem/module.h>

#include <boost/asio/io_context.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace tandem::fetch
{

// What a flow carries has changed.
struct News
{
  FlowKey key {};
  Content content = Content::unknown;
  std::string_view why {};
};

// What the packet thread asks for.
struct Job
{
  std::uint64_t flow = 0; // FlowView::id, for the answer
  std::uint8_t slot = 0;  // likewise
  FlowKey key {};
  Fetch fetch {};
};

// And its answer, one for each job.
struct Answer
{
  Job job {};
  FetchResult result {};
  std::uint64_t cell_bytes = 0;
  std::vector<std::byte> bytes {}; // of [from, to) when ok
  Seq server_ack {};               // what the server said last
  std::uint16_t server_window = 0;
};

// What went over the cellular link for no piece in particular.
struct Cost
{
  std::uint64_t cell_bytes = 0;
};

using Message = std::variant<News, Answer, Cost>;

struct ServiceOptions
{
  std::string wifi {}; // interface that is watched
  int wifi_index = 0;
  std::vector<Address> wifi_addresses {}; // flows of others are none of ours
  std::string cell {};                    // interface by which bytes are fetched
  std::vector<Address> cell_addresses {};
  kernel::Marks marks {};
  std::vector<std::uint16_t> ports {};  // of plaintext HTTP servers
  std::size_t connections = 256;        // followed at a time
  std::size_t pieces = 16;              // under way at a time
  std::uint64_t piece_bytes = 262144;   // of one, at most
  std::uint64_t total_bytes = 4u << 20; // of all that are under way

  bool operator==(const ServiceOptions&) const = default;
};

struct ServiceStats
{
  std::uint64_t connections = 0; // followed so far
  std::uint64_t downloads = 0;   // found on them
  std::uint64_t tap_drops = 0;
  std::uint64_t asked = 0;
  std::uint64_t fetched = 0;
  std::uint64_t differed = 0; // fetched, and not what had arrived
  std::uint64_t bytes = 0;    // fetched and right
};

class Service
{
public:
  // Makes the way to fetch for one of FetchHow; called on the fetch thread, once each when first wanted.
  using Maker = std::function<std::unique_ptr<Fetcher>(FetchHow, boost::asio::io_context&)>;
  // Whether a connection to one of the ports is to be looked into; called on the fetch thread.
  using Follows = std::function<bool(const FlowKey&)>;
  // Takes a message over to another thread; false: there is no room now, it will be offered again.
  using Deliver = std::function<bool(Message)>;

  // Starts the thread. Throws when the interface cannot be tapped.
  Service(ServiceOptions options, Maker maker, Follows follows, Deliver deliver);
  // Ends it: nothing is delivered any more. Never waits for the network.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // From any thread. An Answer follows, while the service lives.
  void ask(const Job& job);
  // From any thread. The budget is spent: no way to fetch keeps up with a download any more, what was open is closed.
  void stop_keeping_up();
  const ServiceOptions& options() const;
  ServiceStats stats() const; // from any thread

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace tandem::fetch
