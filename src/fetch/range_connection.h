// One connection to a server for Range requests, with one request at a time.
#pragma once

#include "src/fetch/fetcher.h"
#include "src/fetch/range_options.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::fetch
{

// Reasons that more than one place gives.
namespace range_failed
{
inline constexpr std::string_view unreachable = "no way to the server by the cellular link";
inline constexpr std::string_view broken = "the connection over the cellular link broke";
inline constexpr std::string_view late = "not in time";
inline constexpr std::string_view over = "the download is over";
} // namespace range_failed

// One piece that somebody waits for.
struct RangeJob
{
  std::shared_ptr<const Download> download {};
  Piece piece {};
  Tick asked {};
  Tick deadline {};
  Fetcher::Done done {};
  boost::asio::io_context* context = nullptr;
  bool retried = false;

  // Later: who hears it may ask again or end the download, and nothing here must change under way.
  void finish(Fetched&& result);
};

class RangeConnection;

// Who opened a connection and is told what becomes of it. Calls close() before it goes.
class ConnectionOwner : public std::enable_shared_from_this<ConnectionOwner>
{
public:
  virtual ~ConnectionOwner() = default;
  virtual void opened() = 0;    // one attempt to connect is over, whatever became of it
  virtual void reached() = 0;   // it succeeded
  virtual void unreached() = 0; // it failed
  virtual void drop(const std::shared_ptr<RangeConnection>& connection) = 0;
  virtual void again(RangeJob job) = 0;             // for another connection
  virtual void next() = 0;                          // there may be a connection without a job now
  virtual void spent(std::uint64_t cell_bytes) = 0; // for no piece that anybody still waits for
};

class RangeConnection : public std::enable_shared_from_this<RangeConnection>
{
public:
  RangeConnection(boost::asio::io_context& context, ConnectionOwner& owner)
      : socket_ { context }, timer_ { context }, owner_ { &owner }
  {
  }

  void open(const RangeOptions& options, const Address& local, const boost::asio::ip::tcp::endpoint& to);
  void run(RangeJob job);
  bool idle() const { return ready_ && !job_; }
  bool serves(std::uint64_t flow) const { return job_ && job_->download->flow == flow; }
  // The owner is told no more.
  void close();

private:
  std::uint64_t cost(); // since the last call
  void watch(Tick until);
  void watch_idle();
  void expired();
  void read_head();
  void judge_head(std::size_t size);
  void complete();
  void broke(std::string_view why);
  void fail(std::string_view why, bool final);

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  ConnectionOwner* owner_; // null after close()
  Duration timeout_ {};
  bool v6_ = false;
  bool ready_ = false;
  std::optional<RangeJob> job_ {};
  std::string request_ {};
  std::string input_ {}; // what was read of the answer
  std::size_t head_ = 0; // of it
  bool keep_ = false;
  std::uint64_t accounted_ = 0;
  unsigned served_ = 0; // pieces
};

// The address of a socket.
boost::asio::ip::tcp::endpoint endpoint(const Address& address, std::uint16_t port);

} // namespace tandem::fetch
