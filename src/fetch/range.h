// Missing bytes by HTTP Range requests on connections of their own over the cellular link, kept open while a download
// lasts.
#pragma once

#include "src/fetch/fetcher.h"
#include "src/kernel/marks.h"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem::fetch
{

struct RangeOptions
{
  std::string cell {};               // interface of the cellular link
  std::vector<Address> addresses {}; // that it has
  kernel::Marks marks {};
  bool credentials = false;                      // requests with cookies or Basic / Bearer authorization, too
  std::size_t connections = 4;                   // to one server at a time
  std::size_t waiting = 64;                      // pieces that wait for one of them
  Duration timeout = std::chrono::seconds { 3 }; // after the deadline: until a connection is given up
  Duration rest = std::chrono::seconds { 10 };   // for a server that cannot be reached; doubles with each failure
};

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
  void forget(std::uint64_t flow) override;

private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

} // namespace tandem::fetch
