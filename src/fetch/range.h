// Missing bytes by HTTP Range requests on connections of their own over the cellular link, kept open while a download
// lasts.
#pragma once

#include "src/fetch/fetcher.h"
#include "src/fetch/range_options.h"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <memory>

namespace tandem::fetch
{

// Runs on the thread of `context`; every call must be made there.
class Range final : public Fetcher
{
public:
  Range(boost::asio::io_context& context, RangeOptions options);
  ~Range() override;
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  void fetch(std::shared_ptr<const Download> download, Piece wanted, Tick deadline, Done done) override;
  void prepare(const std::shared_ptr<const Download>& download) override;
  std::uint64_t take_unbooked() override;
  void forget(std::uint64_t flow) override;

private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

} // namespace tandem::fetch
