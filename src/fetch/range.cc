#include "src/fetch/range.h"

#include "src/fetch/http_head.h"
#include "src/fetch/range_connection.h"
#include "src/fetch/source.h"
#include "src/kernel/clock.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace tandem::fetch
{

using namespace range_failed;
namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

namespace
{

using Place = std::tuple<bool, std::array<std::uint8_t, 16>, std::uint16_t>; // a server
Place place_of(const Download& download)
{
  return { download.key.remote.v6, download.key.remote.bytes, download.key.remote_port };
}

// All connections to one server, and who waits for one.
class Server final : public ConnectionOwner
{
public:
  Server(asio::io_context& context, const RangeOptions& options, std::uint64_t& unbooked, Address local,
         Tcp::endpoint to)
      : context_ { context }, options_ { options }, unbooked_ { unbooked }, local_ { local }, to_ { std::move(to) }
  {
  }
  ~Server() override
  {
    for (const auto& connection : connections_)
      connection->close();
  }

  void add(RangeJob job)
  {
    // It was forgotten after it had been asked for: nobody would forget this piece once more.
    if (!users_.contains(job.download->flow)) return job.finish({ .why = over, .final = true });
    if (connections_.empty() && backs_off()) return job.finish({ .why = unreachable });
    if (waiting_.size() >= options_.waiting) return job.finish({ .why = "too many pieces wait" });
    waiting_.push_back(std::move(job));
    next();
  }
  void use(std::uint64_t flow) { users_.insert(flow); }
  void prepare()
  {
    if (connections_.empty() && !backs_off()) open();
  }
  // True when nobody uses the server any more.
  bool forget(std::uint64_t flow)
  {
    users_.erase(flow);
    std::vector<RangeJob> gone {};
    for (std::size_t i = 0; i < waiting_.size();)
      if (waiting_[i].download->flow == flow)
      {
        gone.push_back(std::move(waiting_[i]));
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      else
        ++i;
    std::vector<std::shared_ptr<RangeConnection>> busy {};
    std::erase_if(connections_,
                  [&](const auto& connection)
                  {
                    if (!connection->serves(flow)) return false;
                    busy.push_back(connection);
                    return true;
                  });
    for (const auto& connection : busy)
      connection->close();
    for (RangeJob& job : gone)
      job.finish({ .why = over, .final = true });
    if (users_.empty()) return true;
    next(); // pieces of others may have waited for what is closed now
    return false;
  }

  // From a connection.
  void reached() override { failures_ = 0; }
  void unreached() override
  {
    // Attempts that were made together are one failure.
    if (backs_off()) return;
    back_off_until_ = kernel::now() + options_.back_off * (1 << std::min(failures_, 6u));
    ++failures_;
  }
  void drop(const std::shared_ptr<RangeConnection>& connection) override { std::erase(connections_, connection); }
  void again(RangeJob job) override
  {
    waiting_.push_front(std::move(job));
    next();
  }
  void next() override
  {
    const Tick now = kernel::now();
    while (!waiting_.empty())
    {
      if (waiting_.front().deadline <= now)
      {
        RangeJob job = std::move(waiting_.front());
        waiting_.pop_front();
        job.finish({ .why = late });
        continue;
      }
      const auto free = std::find_if(connections_.begin(), connections_.end(),
                                     [](const auto& connection) { return connection->idle(); });
      if (free == connections_.end()) break;
      RangeJob job = std::move(waiting_.front());
      waiting_.pop_front();
      (*free)->run(std::move(job));
    }
    if (!backs_off())
      while (waiting_.size() > opening_ && connections_.size() < options_.connections)
        open();
    else if (connections_.empty()) // else what is open, or may still open, takes them: some servers allow few
      for (RangeJob& job : std::exchange(waiting_, {}))
        job.finish({ .why = unreachable });
  }
  void opened() override { opening_ -= opening_ > 0 ? 1 : 0; }
  void spent(std::uint64_t cell_bytes) override { unbooked_ += cell_bytes; }

private:
  bool backs_off() const { return kernel::now() < back_off_until_; }
  void open()
  {
    auto connection = std::make_shared<RangeConnection>(context_, *this);
    connections_.push_back(connection);
    ++opening_;
    connection->open(options_, local_, to_);
  }

  asio::io_context& context_;
  const RangeOptions& options_;
  std::uint64_t& unbooked_;
  Address local_;
  Tcp::endpoint to_;
  std::deque<RangeJob> waiting_ {};
  std::vector<std::shared_ptr<RangeConnection>> connections_ {};
  std::size_t opening_ = 0;
  std::set<std::uint64_t> users_ {};
  Tick back_off_until_ {};
  unsigned failures_ = 0;
};

} // namespace

struct Range::Parts
{
  asio::io_context& context;
  RangeOptions options;
  std::uint64_t unbooked = 0; // servers add to it
  std::map<Place, std::shared_ptr<Server>> servers {};

  Server* server(const Download& download)
  {
    const Place place = place_of(download);
    if (const auto found = servers.find(place); found != servers.end()) return found->second.get();
    const std::optional<Address> local = first_of_version(options.addresses, download.key.remote.v6);
    if (!local) return nullptr;
    return servers
        .emplace(place, std::make_shared<Server>(context, options, unbooked, *local,
                                                 endpoint(download.key.remote, download.key.remote_port)))
        .first->second.get();
  }
};

namespace
{
// Why nothing of the download may be asked for by range.
std::string_view refused(const Download& download, const RangeOptions& options)
{
  if (download.validator.empty()) return "the answer has no strong ETag";
  return check_credentials(download.request, options.credentials);
}
} // namespace

Range::Range(asio::io_context& context, RangeOptions options)
    : parts_ { std::make_shared<Parts>(Parts { context, std::move(options) }) }
{
}

Range::~Range() = default;

void Range::fetch(std::shared_ptr<const Download> download, Piece wanted, Tick deadline, Done done)
{
  RangeJob job { .download = download,
                 .piece = wanted,
                 .asked = kernel::now(),
                 .deadline = deadline,
                 .done = std::move(done),
                 .context = &parts_->context };
  std::string_view why = refused(*download, parts_->options);
  Server* server = nullptr;
  if (why.empty()
      && (wanted.from < download->head.size() || wanted.to > download->head.size() + download->length
          || wanted.from >= wanted.to))
    why = "not within the answer's body";
  if (why.empty() && (server = parts_->server(*download)) == nullptr)
    why = "no address of this kind on the cellular link";
  if (server != nullptr && why.empty())
  {
    server->use(download->flow);
    asio::post(parts_->context,
               [parts = parts_, place = place_of(*download), job = std::make_shared<RangeJob>(std::move(job))]
               {
                 const auto found = parts->servers.find(place);
                 if (found != parts->servers.end())
                   found->second->add(std::move(*job));
                 else
                   job->finish({ .why = over, .final = true });
               });
  }
  else
    job.finish({ .why = why, .final = true });
}

void Range::prepare(const std::shared_ptr<const Download>& download)
{
  if (!refused(*download, parts_->options).empty()) return;
  if (Server* server = parts_->server(*download)) server->use(download->flow), server->prepare();
}

std::uint64_t Range::take_unbooked()
{
  return std::exchange(parts_->unbooked, 0);
}

void Range::forget(std::uint64_t flow)
{
  for (auto server = parts_->servers.begin(); server != parts_->servers.end();)
  {
    const auto kept = server->second; // a callback may look for it
    server = kept->forget(flow) ? parts_->servers.erase(server) : std::next(server);
  }
}

} // namespace tandem::fetch
