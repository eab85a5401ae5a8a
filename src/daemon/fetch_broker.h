// Between the packet thread and the fetch service (docs/decisions/0007): starts and ends the service, hands it what
// modules want, and hands the local TCP what it brought.
#pragma once

#include "src/chain/output.h"
#include "src/daemon/config.h"
#include "src/daemon/fetch_store.h"
#include "src/fetch/interface.h"
#include "src/kernel/marks.h"
#include "src/links/link_table.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::daemon
{

class FetchBroker
{
public:
  // Takes a message of the service of this generation over to the packet thread. Called on the fetch thread. False:
  // there is no room now.
  using Deliver = std::function<bool(std::uint64_t generation, fetch::Message)>;

  // The table must outlive the broker.
  FetchBroker(const Config& config, const kernel::Marks& marks, const links::LinkTable& links, Deliver deliver);

  // There is a service only while a module wants one and both links are there. Call when any of that has changed: first
  // outdated(), and stop() with its reason unless that is empty, then start().
  std::string_view outdated(bool wanted, std::string_view cell_denied);
  // Ends the service, if there is one. Returns what was under way: none of it comes any more, and all of it may have
  // been spent.
  std::vector<FetchOutcome> stop(std::string_view why);
  void start();

  // Peers that are not followed, by the service that is made next.
  void exclude(std::vector<links::Network> peers) { excluded_ = std::move(peers); }

  // False: it cannot be begun.
  bool ask(const chain::FetchRequest& request);
  void keep_up(bool on); // false: the budget is spent
  // Whether a message is of the service that runs now; an old one's are void, but for what it spent.
  bool current(std::uint64_t generation) const { return generation == generation_; }
  FetchStore& store() { return store_; }
  const FetchStore& store() const { return store_; }

  // Hands the bytes of a fill to the local TCP. Returns the packet, valid until the next call; empty: not sent.
  std::span<const std::byte> fill(const chain::Injection& injection);

  bool loaded() const { return library_ != nullptr; } // the code of the service is in this process's memory
  bool running() const { return service_ != nullptr; }
  const std::string& why() const { return why_; } // why there is no service; empty when there is one
  fetch::ServiceStats stats() const { return service_ ? service_->stats() : fetch::ServiceStats {}; }

private:
  Config config_;
  kernel::Marks marks_;
  const links::LinkTable& links_;
  Deliver deliver_;
  FetchStore store_;
  std::vector<links::Network> excluded_ {};
  fetch::ServiceOptions options_ {}; // of the service that is wanted
  std::uint64_t generation_ = 0;
  std::string why_ = "no module wants it";
  bool complained_ = false;
  std::vector<std::byte> fill_buffer_ {};
  const fetch::ServiceEntry* library_ = nullptr; // once a service was wanted; never unloaded (fetch_loader.h)
  std::unique_ptr<fetch::Service> service_ {};   // its thread calls deliver_: ends first
};

} // namespace tandem::daemon
