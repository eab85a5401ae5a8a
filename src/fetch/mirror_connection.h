// One mirror connection of a download: its raw port, its TCP, and who waits for which piece of its answer.
#pragma once

#include "src/fetch/fetcher.h"
#include "src/fetch/mirror_tcp.h"
#include "src/fetch/replay_options.h"
#include "src/kernel/packet/raw_port.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string_view>

namespace tandem::fetch
{

class MirrorConnection : public std::enable_shared_from_this<MirrorConnection>
{
public:
  // A piece that somebody waits for.
  struct Ask
  {
    Piece wanted {}; // in the download's answer
    Tick deadline {};
    Tick since {};
    Fetcher::Done done {};
    Piece mirrored {}; // the same in the mirror's answer, once its head is known
    bool placed = false;
  };

  MirrorConnection(boost::asio::io_context& context, const ReplayOptions& options,
                   std::shared_ptr<const Download> download, std::uint64_t& total);

  // Empty, or why there can be no connection.
  std::string_view open();

  bool usable() const { return tcp_ && tcp_->phase() != MirrorPhase::closed && refusal_.empty(); }
  bool busy() const { return !asks_.empty(); }
  std::string_view refusal() const { return refusal_; } // the server gives another answer: for good
  const MirrorStats& stats() const { return tcp_->stats(); }
  std::uint64_t position() const { return tcp_->position(); }

  // False when the piece lies behind: then `ask` is untouched.
  bool take(Ask& ask);

  // Goes on to there when nothing else is wanted.
  void follow(std::uint64_t progress);
  std::uint64_t take_unbooked();
  void close(std::string_view why);

private:
  bool place(Ask& ask);

  // By wanting one byte there, for no other reason than to be near it.
  std::optional<Address> source(bool v6) const;
  void keep_up();
  void wait_for_packets();
  void take_packets();

  // After every event: hand out what is there, send, and sleep until the next one.
  void settle();
  void read_head();
  void serve();
  void finish_ask(std::list<Ask>::iterator ask, Fetched result, Tick now);
  void fail_all(std::string_view why, bool final = false);
  void send();
  void finish();

  boost::asio::io_context& context_;
  const ReplayOptions& options_;
  std::shared_ptr<const Download> download_;
  std::uint64_t& total_;
  boost::asio::steady_timer timer_;
  boost::asio::posix::stream_descriptor descriptor_;
  std::optional<kernel::RawPort> port_ {};
  std::optional<MirrorTcp> tcp_ {};
  std::list<Ask> asks_ {};
  Piece head_ {};
  std::uint64_t looked_ = 0;
  std::optional<std::int64_t> shift_ {}; // what the mirror's head is longer than the download's
  std::string_view refusal_ {};
  std::uint64_t followed_ = 0;   // how far the download has come
  std::optional<Piece> goal_ {}; // a byte there that is wanted
  std::uint64_t charged_ = 0;
  std::uint64_t counted_ = 0;
  bool settling_ = false;
  bool over_ = false;
};

} // namespace tandem::fetch
