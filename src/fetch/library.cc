// The fetch service as a shared library: what the daemon finds in fetch.so.
#include "src/fetch/interface.h"
#include "src/fetch/range.h"
#include "src/fetch/replay.h"
#include "src/fetch/service.h"

#include <utility>

namespace tandem::fetch
{
namespace
{

std::unique_ptr<Fetcher> make_fetcher(const ServiceOptions& options, FetchHow how, boost::asio::io_context& context)
{
  if (how == FetchHow::range)
    return std::make_unique<Range>(context, RangeOptions { .cell = options.cell,
                                                           .addresses = options.cell_addresses,
                                                           .marks = options.marks,
                                                           .credentials = options.credentials });
  return std::make_unique<Replay>(context, ReplayOptions { .cell = options.cell,
                                                           .addresses = options.cell_addresses,
                                                           .marks = options.marks,
                                                           .credentials = options.credentials,
                                                           .longest_piece = options.piece_bytes });
}

std::unique_ptr<Service> create(ServiceOptions options, Follows follows, Deliver deliver)
{
  const auto maker = [options](FetchHow how, boost::asio::io_context& context)
  { return make_fetcher(options, how, context); };
  return std::make_unique<FetchThread>(std::move(options), maker, std::move(follows), std::move(deliver));
}

} // namespace
} // namespace tandem::fetch

extern "C" __attribute__((visibility("default"))) const tandem::fetch::ServiceEntry tandem_fetch;
extern "C" const tandem::fetch::ServiceEntry tandem_fetch { .create = tandem::fetch::create };
