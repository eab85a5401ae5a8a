// What the daemon and the fetch service say to each other (docs/decisions/0007). The service is a shared library of its
// own, fetch.so: loaded when a module first wants bytes a second time. The daemon sees this header and nothing else of
// src/fetch.
#pragma once

#include "src/kernel/marks.h"

#include <tandem/fetch.h>
#include <tandem/module.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tandem::fetch
{

// What a flow carries has changed.
struct Notification
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
  Seq server_ack {};               // what the server acknowledged last
  std::uint16_t server_window = 0;
};

// What went over the cellular link for no piece in particular.
struct Cost
{
  std::uint64_t cell_bytes = 0;
};

using Message = std::variant<Notification, Answer, Cost>;

struct ServiceOptions
{
  std::string wifi {}; // interface that is watched
  int wifi_index = 0;
  std::vector<Address> wifi_addresses {}; // flows of others are none of ours
  std::string cell {};                    // interface by which bytes are fetched
  std::vector<Address> cell_addresses {}; // that it leaves from; the first of each IP version is used
  kernel::Marks marks {};
  std::vector<std::uint16_t> ports {};  // of plaintext HTTP servers
  bool credentials = false;             // requests that may carry them are made again, too
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

// Whether a connection to one of the ports is to be looked into; called on the service's thread.
using Follows = std::function<bool(const FlowKey&)>;
// Takes a message over to another thread; false: there is no room now, it will be offered again.
using Deliver = std::function<bool(Message)>;

// Watches plaintext downloads, gets missing bytes of them, compares, and hands them out.
//
// Literals in its answers (`why`) are the library's own, and outlive the service: they are kept by counters, flows and
// the flight recorder. So the library stays loaded for as long as the process lives.
class Service
{
public:
  // Nothing is delivered any more. Never waits for the network.
  virtual ~Service() = default;

  // From any thread. An Answer follows, while the service lives.
  virtual void ask(const Job& job) = 0;
  // From any thread. False: the budget is spent. No way to fetch keeps up with a download or prepares for one, and what
  // was open is closed. True: there is budget again.
  virtual void keep_up(bool on) = 0;
  // From one thread, not necessarily the service's: hands this host's own TCP a whole packet in the server's name. The
  // address must be local. Never blocks. 0 or an errno.
  virtual int hand_over(std::span<const std::byte> packet) noexcept = 0;
  virtual const ServiceOptions& options() const = 0;
  virtual ServiceStats stats() const = 0; // from any thread
};

// Raised with every incompatible change of this header or of what it includes.
constexpr std::uint32_t service_abi_version = 2;

// What fetch.so exports, under the name `tandem_fetch`.
struct ServiceEntry
{
  std::uint32_t abi_version = service_abi_version;
  std::uint32_t options_size = sizeof(ServiceOptions); // catches a library built against other headers
  std::uint32_t job_size = sizeof(Job);
  std::uint32_t message_size = sizeof(Message);
  // Starts the thread. Throws when the interface cannot be tapped.
  std::unique_ptr<Service> (*create)(ServiceOptions options, Follows follows, Deliver deliver) = nullptr;
};

} // namespace tandem::fetch
