#include "src/fetch/range.h"

#include "src/fetch/http_head.h"
#include "src/kernel/clock.h"
#include "src/kernel/packet/tcp_cost.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace tandem::fetch
{

namespace
{

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using Error = boost::system::error_code;

constexpr std::size_t longest_head = 16384;
constexpr std::string_view unreachable = "no way to the server by the cellular link";
constexpr std::string_view broken = "the connection over the cellular link broke";
constexpr std::string_view late = "not in time";
constexpr std::string_view over = "the download is over";

Tcp::endpoint endpoint(const Address& address, std::uint16_t port)
{
  if (address.v6) return { asio::ip::address_v6 { address.bytes }, port };
  asio::ip::address_v4::bytes_type bytes {};
  std::copy_n(address.bytes.begin(), bytes.size(), bytes.begin());
  return { asio::ip::address_v4 { bytes }, port };
}

// One piece that somebody waits for.
struct Job
{
  std::shared_ptr<const Download> download {};
  Piece piece {};
  Tick asked {};
  Tick deadline {};
  Fetcher::Done done {};
  asio::io_context* context = nullptr;
  bool retried = false;

  // Later: who hears it may ask again or end the download, and nothing here must change under way.
  void finish(Fetched&& result)
  {
    result.took = kernel::now() - asked;
    if (done)
      asio::post(*context, [call = std::exchange(done, {}), result = std::make_shared<Fetched>(std::move(result))]
                 { call(std::move(*result)); });
  }
};

using Place = std::tuple<bool, std::array<std::uint8_t, 16>, std::uint16_t>; // a server
Place place_of(const Download& download)
{
  return { download.key.remote.v6, download.key.remote.bytes, download.key.remote_port };
}

class Server;

// A connection to the server, with one request at a time.
class Connection : public std::enable_shared_from_this<Connection>
{
public:
  Connection(asio::io_context& context, Server& server) : socket_ { context }, timer_ { context }, server_ { &server }
  {
  }

  void open(const RangeOptions& options, const Address& local, const Tcp::endpoint& to);
  void run(Job job);
  bool idle() const { return ready_ && !job_; }
  bool serves(std::uint64_t flow) const { return job_ && job_->download->flow == flow; }
  // The server is told no more.
  void close();
  std::uint64_t cost();

private:
  void watch(Tick until);
  void expired();
  void read_head();
  void judge_head(std::size_t size);
  void complete();
  void broke(std::string_view why);
  void fail(std::string_view why, bool final);

  Tcp::socket socket_;
  asio::steady_timer timer_;
  Server* server_; // null once it has let go
  Duration timeout_ {};
  bool v6_ = false;
  bool ready_ = false;
  std::optional<Job> job_ {};
  std::string request_ {};
  std::string input_ {}; // what was read of the answer
  std::size_t head_ = 0; // of it
  bool keep_ = false;
  std::uint64_t accounted_ = 0;
};

// All connections to one server, and who waits for one.
class Server : public std::enable_shared_from_this<Server>
{
public:
  Server(asio::io_context& context, const RangeOptions& options, Address local, Tcp::endpoint to)
      : context_ { context }, options_ { options }, local_ { local }, to_ { std::move(to) }
  {
  }
  ~Server()
  {
    for (const auto& connection : connections_)
      connection->close();
  }

  void add(Job job)
  {
    if (kernel::now() < rests_until_) return job.finish({ .why = unreachable });
    if (waiting_.size() >= options_.waiting) return job.finish({ .why = "too many pieces wait" });
    waiting_.push_back(std::move(job));
    next();
  }
  void use(std::uint64_t flow) { users_.insert(flow); }
  void prepare()
  {
    if (connections_.empty() && kernel::now() >= rests_until_) open();
  }
  // True when nobody uses the server any more.
  bool forget(std::uint64_t flow)
  {
    users_.erase(flow);
    std::vector<Job> gone {};
    for (std::size_t i = 0; i < waiting_.size();)
      if (waiting_[i].download->flow == flow)
      {
        gone.push_back(std::move(waiting_[i]));
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      else
        ++i;
    std::vector<std::shared_ptr<Connection>> busy {};
    std::erase_if(connections_,
                  [&](const auto& connection)
                  {
                    if (!connection->serves(flow)) return false;
                    busy.push_back(connection);
                    return true;
                  });
    for (const auto& connection : busy)
      connection->close();
    for (Job& job : gone)
      job.finish({ .why = over, .final = true });
    return users_.empty();
  }

  // From a connection.
  void connected() { failures_ = 0; }
  void unreached()
  {
    rests_until_ = kernel::now() + options_.rest * (1 << std::min(failures_, 6u));
    ++failures_;
    for (Job& job : std::exchange(waiting_, {}))
      job.finish({ .why = unreachable });
  }
  void drop(const std::shared_ptr<Connection>& connection) { std::erase(connections_, connection); }
  void again(Job job)
  {
    waiting_.push_front(std::move(job));
    next();
  }
  void next()
  {
    const Tick now = kernel::now();
    while (!waiting_.empty())
    {
      if (waiting_.front().deadline <= now)
      {
        Job job = std::move(waiting_.front());
        waiting_.pop_front();
        job.finish({ .why = late });
        continue;
      }
      const auto free = std::find_if(connections_.begin(), connections_.end(),
                                     [](const auto& connection) { return connection->idle(); });
      if (free == connections_.end()) break;
      Job job = std::move(waiting_.front());
      waiting_.pop_front();
      (*free)->run(std::move(job));
    }
    while (waiting_.size() > opening_ && connections_.size() < options_.connections)
      open();
  }
  void opened() { opening_ -= opening_ > 0 ? 1 : 0; }

private:
  void open()
  {
    auto connection = std::make_shared<Connection>(context_, *this);
    connections_.push_back(connection);
    ++opening_;
    connection->open(options_, local_, to_);
  }

  asio::io_context& context_;
  const RangeOptions& options_;
  Address local_;
  Tcp::endpoint to_;
  std::deque<Job> waiting_ {};
  std::vector<std::shared_ptr<Connection>> connections_ {};
  std::size_t opening_ = 0;
  std::set<std::uint64_t> users_ {};
  Tick rests_until_ {};
  unsigned failures_ = 0;
};

void Connection::open(const RangeOptions& options, const Address& local, const Tcp::endpoint& to)
{
  timeout_ = options.timeout;
  v6_ = local.v6;
  Error error {};
  const auto set = [&](int level, int name, const void* value, socklen_t size)
  {
    if (!error && ::setsockopt(socket_.native_handle(), level, name, value, size) != 0)
      error = Error { errno, boost::system::system_category() };
  };
  socket_.open(to.protocol(), error);
  // By the device, by its address and by the mark: whatever of them the routes go by, it is the cellular link.
  set(SOL_SOCKET, SO_BINDTODEVICE, options.cell.c_str(), static_cast<socklen_t>(options.cell.size() + 1));
  set(SOL_SOCKET, SO_MARK, &options.marks.by_cell.value, sizeof options.marks.by_cell.value);
  if (!error) socket_.bind(endpoint(local, 0), error);
  if (!error) socket_.set_option(Tcp::no_delay { true }, error);
  const auto self = shared_from_this();
  if (error)
  {
    // Later, as every other outcome: who asked has not returned yet.
    asio::post(socket_.get_executor(),
               [self]
               {
                 if (self->server_ != nullptr) self->broke(unreachable);
               });
    return;
  }
  watch(kernel::now() + timeout_);
  socket_.async_connect(to,
                        [self](Error failed)
                        {
                          if (self->server_ == nullptr) return;
                          self->timer_.cancel();
                          if (failed) return self->broke(unreachable);
                          self->ready_ = true;
                          self->server_->opened();
                          self->server_->connected();
                          self->server_->next();
                        });
}

void Connection::watch(Tick until)
{
  timer_.expires_after(std::max(until - kernel::now(), Duration { 1 }));
  timer_.async_wait(
      [self = shared_from_this()](Error cancelled)
      {
        if (!cancelled && self->server_ != nullptr) self->expired();
      });
}

void Connection::expired()
{
  if (!ready_) return broke(unreachable);
  if (!job_) return;
  if (!job_->done) return broke(broken);
  // The answer may still come: the connection is worth more than the bytes.
  job_->finish({ .why = late });
  watch(kernel::now() + timeout_);
}

void Connection::run(Job job)
{
  const std::uint64_t head = job.download->head.size();
  request_ = range_request(job.download->request, job.piece.from - head, job.piece.to - head, job.download->validator);
  job_ = std::move(job);
  input_.clear();
  watch(job_->deadline);
  asio::async_write(socket_, asio::buffer(request_),
                    [self = shared_from_this()](Error failed, std::size_t)
                    {
                      if (self->server_ == nullptr) return;
                      if (failed) return self->broke(broken);
                      self->read_head();
                    });
}

void Connection::read_head()
{
  asio::async_read_until(socket_, asio::dynamic_buffer(input_, longest_head + job_->piece.size()), "\r\n\r\n",
                         [self = shared_from_this()](Error failed, std::size_t size)
                         {
                           if (self->server_ == nullptr) return;
                           if (failed) return self->broke(broken);
                           self->judge_head(size);
                         });
}

void Connection::judge_head(std::size_t size)
{
  const Job& job = *job_;
  const std::uint64_t head = job.download->head.size();
  const RangeHead answer = read_range_head(std::as_bytes(std::span { input_.data(), size }), job.piece.from - head,
                                           job.piece.to - head, job.download->length, job.download->validator);
  // The body of any other answer may be the whole file: nothing more is read on this connection.
  if (!answer.ok) return fail(answer.why, answer.final);
  keep_ = answer.keep_alive;
  head_ = size;
  const std::size_t whole = size + static_cast<std::size_t>(job.piece.size());
  if (input_.size() > whole) return fail("more than the range", true);
  const std::size_t had = input_.size();
  input_.resize(whole);
  asio::async_read(socket_, asio::buffer(input_.data() + had, whole - had),
                   [self = shared_from_this()](Error failed, std::size_t)
                   {
                     if (self->server_ == nullptr) return;
                     if (failed) return self->broke(broken);
                     self->complete();
                   });
}

std::uint64_t Connection::cost()
{
  const std::uint64_t all = socket_.is_open() ? kernel::tcp_cost(socket_.native_handle(), v6_) : accounted_;
  const std::uint64_t fresh = all > accounted_ ? all - accounted_ : 0;
  accounted_ = std::max(accounted_, all);
  return fresh;
}

void Connection::complete()
{
  timer_.cancel();
  Job job = std::move(*job_);
  job_.reset();
  Fetched result { .ok = true, .cell_bytes = job.done ? cost() : 0 }; // else the next one's
  const auto body = std::as_bytes(std::span { input_ }.subspan(head_));
  result.bytes.assign(body.begin(), body.end());
  const auto self = shared_from_this();
  if (!keep_)
  {
    Server& server = *server_;
    server.drop(self);
    close();
    job.finish(std::move(result));
    return; // the next piece opens another one
  }
  job.finish(std::move(result));
  if (server_ != nullptr) server_->next();
}

void Connection::broke(std::string_view why)
{
  // A connection that was kept open may be closed by the server at any time: that is no failure of the request.
  if (job_ && job_->done && input_.empty() && !job_->retried)
  {
    Job job = std::move(*job_);
    job_.reset();
    job.retried = true;
    Server& server = *server_;
    server.drop(shared_from_this());
    close();
    server.again(std::move(job));
    return;
  }
  fail(why, false);
}

void Connection::fail(std::string_view why, bool final)
{
  const auto self = shared_from_this();
  const auto server = server_->shared_from_this();
  const std::uint64_t bytes = cost();
  const bool never = !ready_;
  std::optional<Job> job = std::exchange(job_, {});
  server->drop(self);
  close();
  if (never)
  {
    server->opened();
    server->unreached();
  }
  if (job) job->finish({ .why = why, .cell_bytes = bytes, .final = final });
  server->next();
}

void Connection::close()
{
  server_ = nullptr;
  timer_.cancel();
  Error ignored {};
  socket_.close(ignored);
  if (std::optional<Job> job = std::exchange(job_, {})) job->finish({ .why = over, .final = true });
}

} // namespace

struct Range::Parts
{
  asio::io_context& context;
  RangeOptions options;
  std::map<Place, std::shared_ptr<Server>> servers {};

  Server* server(const Download& download)
  {
    const Place place = place_of(download);
    if (const auto found = servers.find(place); found != servers.end()) return found->second.get();
    const auto local = std::find_if(options.addresses.begin(), options.addresses.end(),
                                    [&](const Address& address) { return address.v6 == download.key.remote.v6; });
    if (local == options.addresses.end()) return nullptr;
    return servers
        .emplace(place, std::make_shared<Server>(context, options, *local,
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
  Job job { .download = download,
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
               [parts = parts_, place = place_of(*download), job = std::make_shared<Job>(std::move(job))]
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

void Range::forget(std::uint64_t flow)
{
  for (auto server = parts_->servers.begin(); server != parts_->servers.end();)
  {
    const auto kept = server->second; // a callback may look for it
    server = kept->forget(flow) ? parts_->servers.erase(server) : std::next(server);
  }
}

} // namespace tandem::fetch
