#include "src/daemon/fetch_broker.h"

#include "src/daemon/fetch_loader.h"
#include "src/daemon/layout.h"
#include "src/daemon/service.h"
#include "src/wire/build.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

namespace tandem::daemon
{

FetchBroker::FetchBroker(const Config& config, const kernel::Marks& marks, const links::LinkTable& links,
                         Deliver deliver)
    : config_ { config }, marks_ { marks }, links_ { links }, deliver_ { std::move(deliver) }, store_ {
        config.fetch.total_bytes
      }
{
}

std::string_view FetchBroker::outdated(bool wanted, std::string_view cell_denied)
{
  const links::LinkInfo& wifi = links_[Link::wifi];
  const links::LinkInfo& cell = links_[Link::cell];
  why_ = !wanted                       ? "no module wants it"
         : config_.fetch.ports.empty() ? "fetch.ports is empty"
         : !wifi.present()             ? "there is no Wi-Fi"
         : !cell.present()             ? "there is no cellular link"
         : !cell_denied.empty()        ? "the cellular link must not be used: " + std::string { cell_denied }
                                       : "";
  if (!why_.empty()) return service_ ? "no cellular link any more" : "";
  options_ = { .wifi = wifi.interface,
               .wifi_index = wifi.ifindex,
               .wifi_addresses = wifi.addresses,
               .cell = cell.interface,
               .cell_addresses = links::sources_to_internet(cell),
               .marks = marks_,
               .ports = config_.fetch.ports,
               .credentials = config_.fetch.credentials,
               .pieces = config_.fetch.max_pieces,
               .piece_bytes = config_.fetch.piece_bytes,
               .total_bytes = config_.fetch.total_bytes };
  return service_ && service_->options() != options_ ? "the links have changed" : "";
}

std::vector<FetchOutcome> FetchBroker::stop(std::string_view why)
{
  service_.reset();
  ++generation_;
  return store_.clear(why);
}

void FetchBroker::start()
{
  if (service_ || !why_.empty()) return;
  try
  {
    if (library_ == nullptr) library_ = load_fetch(module_directory(config_.daemon.module_dir), why_);
    if (library_ == nullptr) throw std::runtime_error { why_ };
    // In the fetch thread, so by what is known now: the service is made anew when the links change.
    const bool never_local = config_.links.private_peers == PrivatePeers::never;
    const auto follows = [exempt = config_.daemon, excluded = excluded_, never_local,
                          on_link = links_[Link::wifi].on_link](const FlowKey& key)
    {
      const auto named = [&](const links::Network& one) { return one.contains(key.remote); };
      return !exempt.exempts(key) && std::none_of(excluded.begin(), excluded.end(), named)
             && !(never_local && links::is_local_peer(key.remote, on_link));
    };
    service_ = library_->create(options_, follows,
                                [deliver = deliver_, generation = generation_](fetch::Message message)
                                { return deliver(generation, std::move(message)); });
    complained_ = false;
  }
  catch (const std::exception& error)
  {
    // Without it every module falls back to doing without.
    why_ = error.what();
    if (!std::exchange(complained_, true)) log(Severity::warning, "downloads cannot be followed: " + why_);
  }
}

bool FetchBroker::ask(const chain::FetchRequest& request)
{
  const fetch::Job job { .flow = request.flow, .slot = request.slot, .key = request.key, .fetch = request.fetch };
  if (!service_ || !store_.ask(job)) return false;
  service_->ask(job);
  return true;
}

void FetchBroker::keep_up(bool on)
{
  if (service_) service_->keep_up(on);
}

std::span<const std::byte> FetchBroker::fill(const chain::Injection& injection)
{
  const InjectedSegment& segment = injection.segment;
  const fetch::Answer* held = store_.find(injection.flow, segment.seq, segment.length);
  // Whose address is not this host's any more would be routed away.
  if (held == nullptr || !service_ || links_.owner(injection.key.local) != Link::wifi) return {};
  const auto offset = static_cast<std::size_t>(segment.seq - held->job.fetch.from);
  fill_buffer_.resize(wire::longest_header + longest_fill);
  const std::size_t length = wire::build_fill(fill_buffer_, injection.key, segment,
                                              { .ack = held->server_ack,
                                                .window = held->server_window,
                                                .bytes = std::span { held->bytes }.subspan(offset, segment.length) });
  const std::span<const std::byte> packet { fill_buffer_.data(), length };
  if (length == 0 || service_->hand_over(packet) != 0) return {};
  return packet;
}

} // namespace tandem::daemon
