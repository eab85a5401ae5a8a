#include "src/fetch/range_connection.h"

#include "src/fetch/http_head.h"
#include "src/kernel/clock.h"
#include "src/kernel/packet/tcp_cost.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

namespace tandem::fetch
{

using namespace range_failed;
namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using Error = boost::system::error_code;

namespace
{
constexpr std::size_t longest_head = 16384;
constexpr std::string_view endless = "the answer to the range request has too long a head";
} // namespace

Tcp::endpoint endpoint(const Address& address, std::uint16_t port)
{
  if (address.v6) return { asio::ip::address_v6 { address.bytes }, port };
  asio::ip::address_v4::bytes_type bytes {};
  std::copy_n(address.bytes.begin(), bytes.size(), bytes.begin());
  return { asio::ip::address_v4 { bytes }, port };
}

void RangeJob::finish(Fetched&& result)
{
  result.took = kernel::now() - asked;
  if (done)
    asio::post(*context, [call = std::exchange(done, {}), result = std::make_shared<Fetched>(std::move(result))]
               { call(std::move(*result)); });
}

void RangeConnection::open(const RangeOptions& options, const Address& local, const Tcp::endpoint& to)
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
  // Asio leaves that out, and a program that the daemon starts would hold the connection.
  if (!error) ::fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);
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
                 if (self->owner_ != nullptr) self->broke(unreachable);
               });
    return;
  }
  watch(kernel::now() + timeout_);
  socket_.async_connect(to,
                        [self](Error failed)
                        {
                          if (self->owner_ == nullptr) return;
                          self->timer_.cancel();
                          if (failed) return self->broke(unreachable);
                          self->ready_ = true;
                          self->watch_idle();
                          self->owner_->opened();
                          self->owner_->reached();
                          self->owner_->next();
                        });
}

void RangeConnection::watch(Tick until)
{
  timer_.expires_after(std::max(until - kernel::now(), Duration { 1 }));
  timer_.async_wait(
      [self = shared_from_this()](Error cancelled)
      {
        if (cancelled || self->owner_ == nullptr) return;
        // Of what has ended while this was on its way another piece may be under way now.
        if (self->timer_.expiry() <= asio::steady_timer::clock_type::now()) self->expired();
      });
}

// What comes while nothing is asked for is the server's end of the connection, or that it has waited long enough (a
// 408): no answer to whatever is asked for next.
void RangeConnection::watch_idle()
{
  socket_.async_wait(Tcp::socket::wait_read,
                     [self = shared_from_this(), served = served_](Error failed)
                     {
                       // An answer that was read before this was told of is none of the two.
                       if (failed || self->owner_ == nullptr || !self->idle() || self->served_ != served) return;
                       self->owner_->drop(self);
                       self->close();
                     });
}

void RangeConnection::expired()
{
  if (!ready_) return broke(unreachable);
  if (!job_) return;
  if (!job_->done) return broke(broken);
  // The answer may still come: the connection is worth more than the bytes.
  job_->finish({ .why = late, .cell_bytes = cost() });
  watch(kernel::now() + timeout_);
}

void RangeConnection::run(RangeJob job)
{
  const std::uint64_t head = job.download->head.size();
  request_ = range_request(job.download->request, job.piece.from - head, job.piece.to - head, job.download->validator);
  job_ = std::move(job);
  input_.clear();
  watch(job_->deadline);
  asio::async_write(socket_, asio::buffer(request_),
                    [self = shared_from_this()](Error failed, std::size_t)
                    {
                      if (self->owner_ == nullptr) return;
                      if (failed) return self->broke(broken);
                      self->read_head();
                    });
}

void RangeConnection::read_head()
{
  asio::async_read_until(socket_, asio::dynamic_buffer(input_, longest_head + job_->piece.size()), "\r\n\r\n",
                         [self = shared_from_this()](Error failed, std::size_t size)
                         {
                           if (self->owner_ == nullptr) return;
                           // A head without end would be the same, and cost the same, for every piece.
                           if (failed == asio::error::not_found) return self->fail(endless, true);
                           if (failed) return self->broke(broken);
                           self->judge_head(size);
                         });
}

void RangeConnection::judge_head(std::size_t size)
{
  const RangeJob& job = *job_;
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
                     if (self->owner_ == nullptr) return;
                     if (failed) return self->broke(broken);
                     self->complete();
                   });
}

std::uint64_t RangeConnection::cost()
{
  const std::uint64_t all = socket_.is_open() ? kernel::tcp_cost(socket_.native_handle(), v6_) : accounted_;
  const std::uint64_t fresh = all > accounted_ ? all - accounted_ : 0;
  accounted_ = std::max(accounted_, all);
  return fresh;
}

void RangeConnection::complete()
{
  timer_.cancel();
  RangeJob job = std::move(*job_);
  job_.reset();
  const std::uint64_t bytes = cost();
  if (!job.done) owner_->spent(bytes);
  Fetched result { .ok = true, .cell_bytes = bytes };
  const auto body = std::as_bytes(std::span { input_ }.subspan(head_));
  result.bytes.assign(body.begin(), body.end());
  const auto self = shared_from_this();
  if (!keep_)
  {
    const auto owner = owner_->shared_from_this();
    owner->drop(self);
    close();
    job.finish(std::move(result));
    return owner->next(); // a piece that waits opens another one
  }
  ++served_;
  job.finish(std::move(result));
  if (owner_ == nullptr) return; // told so by whoever got the piece
  watch_idle();
  owner_->next();
}

void RangeConnection::broke(std::string_view why)
{
  // A connection that was kept open may be closed by the server at any time: that is no failure of the request.
  if (job_ && job_->done && input_.empty() && !job_->retried)
  {
    RangeJob job = std::move(*job_);
    job_.reset();
    job.retried = true;
    ConnectionOwner& owner = *owner_;
    owner.drop(shared_from_this());
    close();
    owner.again(std::move(job));
    return;
  }
  fail(why, false);
}

void RangeConnection::fail(std::string_view why, bool final)
{
  const auto self = shared_from_this();
  const auto owner = owner_->shared_from_this();
  const std::uint64_t bytes = job_ && job_->done ? cost() : 0; // else close() tells of them
  const bool never = !ready_;
  std::optional<RangeJob> job = std::exchange(job_, {});
  owner->drop(self);
  close();
  if (never)
  {
    owner->opened();
    owner->unreached();
  }
  if (job) job->finish({ .why = why, .cell_bytes = bytes, .final = final });
  owner->next();
}

void RangeConnection::close()
{
  if (owner_ != nullptr) owner_->spent(cost());
  owner_ = nullptr;
  timer_.cancel();
  Error ignored {};
  socket_.close(ignored);
  if (std::optional<RangeJob> job = std::exchange(job_, {})) job->finish({ .why = over, .final = true });
}

} // namespace tandem::fetch
