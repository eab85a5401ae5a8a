#include "src/feeder/recording/replay_source.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace tandem::feeder
{
namespace
{

constexpr std::size_t per_call = 1024; // reports that one receive() gives

std::string in_seconds(Duration span)
{
  char text[64];
  std::snprintf(text, sizeof text, "%.3f s", seconds(span));
  return text;
}

} // namespace

bool ReplaySource::reopen(Tick now)
{
  if (finished_) return false;
  next_.reset();
  line_ = 0;
  started_ = restarted_ = false;
  const auto refuse = [&](const std::string& why)
  {
    problem_ = "replay " + path_ + ": " + why;
    file_ = {};
    timer_.reset();
    return false;
  };
  // A FIFO would hold us up.
  std::error_code error {};
  if (std::filesystem::exists(path_, error) && !std::filesystem::is_regular_file(path_, error))
    return refuse("it is no regular file; name a recording that Tandem has made");
  file_ = std::ifstream { path_, std::ios::binary };
  if (!file_)
    return refuse(std::generic_category().message(errno) + "; links.radio names a recording that can be read");
  std::string line {};
  if (!read_line(line)) return refuse("it is empty; a recording starts with a header");
  ReadRecord read = from_json(line);
  if (read.record && !std::holds_alternative<RecordHeader>(*read.record)) read.fault = "a header is expected";
  if (!read.fault.empty()) return refuse("line 1: " + read.fault + "; name a recording that Tandem has made");
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_) return refuse("no timer: " + std::generic_category().message(errno));
  problem_.clear();
  played_at_ = now;
  advance();
  set_timer();
  return true;
}

bool ReplaySource::receive(Tick now, std::vector<Report>& reports)
{
  for (std::size_t given = 0; next_ && next_->report.at <= now && given < per_call; ++given)
  {
    reports.push_back(std::move(next_->report));
    advance();
  }
  set_timer();
  if (next_) return true;
  if (!file_.is_open()) return false;
  if (problem_.empty())
  {
    problem_ = "replay " + path_ + ": the recording has ended";
    if (complaints_ > 0)
      problem_ +=
          "; " + std::to_string(complaints_) + " places could not be played as they stand, the latest: " + complaint_;
  }
  finished_ = true;
  file_ = {};
  timer_.reset();
  return false;
}

// At the end at once: receive() tells it.
void ReplaySource::set_timer()
{
  if (!timer_) return;
  const std::int64_t at = next_ ? std::max<std::int64_t>(1, next_->report.at.time_since_epoch().count()) : 1;
  const itimerspec when { .it_interval = {}, .it_value = { at / 1'000'000'000, at % 1'000'000'000 } };
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

// The next line; a longer one than a record can be is cut to one that from_json() refuses.
bool ReplaySource::read_line(std::string& line)
try
{
  line.clear();
  auto* buffer = file_.rdbuf();
  for (int c = buffer->sbumpc(); c != std::ifstream::traits_type::eof(); c = buffer->sbumpc())
  {
    if (c == '\n')
    {
      ++line_;
      return true;
    }
    if (line.size() <= longest_record) line += static_cast<char>(c);
  }
  if (line.empty()) return false;
  ++line_;
  return true;
}
catch (const std::ios_base::failure& error)
{
  problem_ = "replay " + path_ + ": " + error.what();
  return false;
}

// To the next report.
void ReplaySource::advance()
{
  next_.reset();
  for (std::string line {}; read_line(line);)
  {
    if (line.empty()) continue;
    ReadRecord read = from_json(line);
    if (!read.record)
    {
      ++skipped_;
      complain(read.fault);
    }
    else if (auto* recorded = std::get_if<RecordedReport>(&*read.record))
    {
      place(std::move(*recorded));
      return;
    }
    else if (std::holds_alternative<RecordHeader>(*read.record))
      restarted_ = true;
  }
}

void ReplaySource::place(RecordedReport&& recorded)
{
  const Tick at = recorded.report.at;
  Duration gap {};
  if (started_)
  {
    // The difference of any two times need not fit.
    const bool back = at < recorded_at_;
    const auto distance = back ? static_cast<std::uint64_t>(recorded_at_.time_since_epoch().count())
                                     - static_cast<std::uint64_t>(at.time_since_epoch().count())
                               : static_cast<std::uint64_t>(at.time_since_epoch().count())
                                     - static_cast<std::uint64_t>(recorded_at_.time_since_epoch().count());
    const Duration span { static_cast<std::int64_t>(
        std::min<std::uint64_t>(distance, static_cast<std::uint64_t>(Duration::max().count()))) };
    if (restarted_ || (back && span > disorder))
    {
      if (!restarted_) complain("the time goes back by " + in_seconds(span) + "; it goes on from here");
      gap = restart_gap;
    }
    else if (!back && span > longest_gap)
    {
      complain("nothing for " + in_seconds(span) + "; " + in_seconds(longest_gap) + " are played");
      gap = longest_gap;
    }
    else if (!back)
      gap = span;
    // A little disorder: the clock stays where it was, and so does what the next gap is measured from.
    if (!restarted_ && back && span <= disorder)
    {
      recorded.report.at = played_at_;
      next_ = std::move(recorded);
      return;
    }
  }
  started_ = true;
  restarted_ = false;
  recorded_at_ = at;
  played_at_ += gap;
  recorded.report.at = played_at_;
  next_ = std::move(recorded);
}

void ReplaySource::complain(const std::string& what)
{
  ++complaints_;
  complaint_ = path_ + ":" + std::to_string(line_) + ": " + what;
}

} // namespace tandem::feeder
