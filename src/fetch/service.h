// The fetch thread: watches plaintext downloads by a tap, gets missing bytes of them, compares, and hands them out.
#pragma once

#include "src/fetch/fetcher.h"
#include "src/fetch/interface.h"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace tandem::fetch
{

class FetchThread final : public Service
{
public:
  // Makes the way to fetch for one of FetchHow; called on the fetch thread, once each when first wanted.
  using Maker = std::function<std::unique_ptr<Fetcher>(FetchHow, boost::asio::io_context&)>;

  // Starts the thread. Throws when the interface cannot be tapped.
  FetchThread(ServiceOptions options, Maker maker, Follows follows, Deliver deliver);
  // Ends it.
  ~FetchThread() override;
  FetchThread(const FetchThread&) = delete;
  FetchThread& operator=(const FetchThread&) = delete;

  void ask(const Job& job) override;
  void keep_up(bool on) override;
  int hand_over(std::span<const std::byte> packet) noexcept override;
  const ServiceOptions& options() const override;
  ServiceStats stats() const override;

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace tandem::fetch
