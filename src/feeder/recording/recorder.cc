#include "src/feeder/recording/recorder.h"

#include "src/kernel/clock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <mutex>
#include <stdexcept>
#include <system_error>

namespace tandem::feeder
{
namespace
{

std::string reason(int code)
{
  return std::generic_category().message(code);
}

[[noreturn]] void refuse(const std::string& path, const std::string& why)
{
  throw std::runtime_error { "record to " + path + ": " + why };
}

// Of the first line; nothing when it is longer than a header can be.
std::optional<std::string> first_line(int fd)
{
  std::array<char, 4096> buffer {};
  const ssize_t got = ::pread(fd, buffer.data(), buffer.size(), 0);
  if (got < 0) return {};
  const std::string_view text { buffer.data(), static_cast<std::size_t>(got) };
  const auto end = text.find('\n');
  if (end == text.npos) return {};
  return std::string { text.substr(0, end) };
}

struct Opened
{
  kernel::Fd file {};
  std::uint64_t size = 0;
  bool cut = false; // the last line has no end
};

Opened open_to_append(const std::string& path)
{
  constexpr int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK; // a FIFO must not hold us up
  constexpr const char* other = "; name another file, or remove this one";
  Opened opened {};
  opened.file.reset(::open(path.c_str(), flags | O_CREAT | O_EXCL, 0600));
  if (opened.file) return opened;
  if (errno == EEXIST) opened.file.reset(::open(path.c_str(), flags));
  if (!opened.file && errno == ELOOP) refuse(path, std::string { "it is a symbolic link" } + other);
  if (!opened.file) refuse(path, reason(errno));

  struct stat status
  {
  };
  if (::fstat(opened.file.get(), &status) != 0) refuse(path, reason(errno));
  if (!S_ISREG(status.st_mode)) refuse(path, std::string { "it is no regular file" } + other);
  opened.size = static_cast<std::uint64_t>(status.st_size);
  if (opened.size == 0) return opened;
  const auto line = first_line(opened.file.get());
  const ReadRecord read = line ? from_json(*line) : ReadRecord { .record = {}, .fault = "it has no header" };
  if (!read.record || !std::holds_alternative<RecordHeader>(*read.record))
    refuse(path, "it exists and is no recording (" + (read.record ? "it has no header" : read.fault) + ")" + other);
  char last = 0;
  opened.cut = ::pread(opened.file.get(), &last, 1, status.st_size - 1) == 1 && last != '\n';
  return opened;
}

std::string iso8601(std::chrono::nanoseconds since_epoch)
{
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(since_epoch).count();
  const std::time_t whole = static_cast<std::time_t>(milliseconds / 1000);
  std::tm utc {};
  ::gmtime_r(&whole, &utc);
  std::array<char, 64> text {};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text.data() + length, text.size() - length, ".%03dZ", static_cast<int>(milliseconds % 1000));
  return text.data();
}

} // namespace

struct Recorder::Shared
{
  struct Entry
  {
    std::uint32_t source = 0; // index in `sources`
    Report report {};
  };

  std::string path {};
  RecorderLimits limits {};
  kernel::Fd file {};

  mutable std::mutex mutex {};
  std::condition_variable work {};
  std::vector<Entry> waiting {};
  std::vector<std::string> sources {};
  bool stop = false;
  std::string problem {};
  Counters counters {};
  Tick second {}; // start of the one in which frames are counted
  unsigned frames = 0;

  // Of the writing thread alone.
  std::string text {};
  std::uint64_t size = 0; // of the file
  std::uint64_t told_thinned = 0, told_lost = 0;

  bool allow_frame(Tick at)
  {
    // Times of different sources are not quite in order: a little before the second still counts in it.
    const Duration since = at - second;
    if (since >= std::chrono::seconds { 1 } || since < -std::chrono::seconds { 1 })
    {
      second = at;
      frames = 0;
    }
    return frames++ < limits.frames;
  }

  void run()
  {
    std::vector<Entry> batch {};
    batch.reserve(limits.waiting);
    std::vector<std::string> names {};
    for (bool last = false; !last;)
    {
      Counters seen {};
      {
        std::unique_lock lock { mutex };
        work.wait_for(lock, limits.delay, [&] { return stop || waiting.size() > limits.waiting / 2; });
        last = stop;
        std::swap(batch, waiting);
        while (names.size() < sources.size())
          names.push_back(sources[names.size()]);
        seen = counters;
        if (!problem.empty()) return;
      }
      try
      {
        put(batch, names, seen);
      }
      catch (const std::exception& error)
      {
        end(error.what());
      }
      batch.clear();
    }
  }

  void put(const std::vector<Entry>& batch, const std::vector<std::string>& names, const Counters& seen)
  {
    std::uint64_t reports = 0;
    for (const Entry& entry : batch)
    {
      const std::size_t before = text.size();
      add(to_line(to_json(names[entry.source], entry.report)));
      // The closing note has to fit in, too.
      if (size + text.size() + 512 > limits.bytes)
      {
        text.resize(before);
        add(to_line(to_json(RecordNote { entry.report.at, "the recording ends here: " + limit_reached() })));
        if (write()) count(reports);
        end(limit_reached() + "; name another file, or remove this one");
        return;
      }
      ++reports;
    }
    if (!batch.empty() && (seen.thinned > told_thinned || seen.lost > told_lost))
    {
      add(to_line(to_json(RecordNote { batch.back().report.at,
                                       std::to_string(seen.thinned - told_thinned) + " frames beyond "
                                           + std::to_string(limits.frames) + " a second and "
                                           + std::to_string(seen.lost - told_lost)
                                           + " reports that came faster than the disk are left out before here" })));
      told_thinned = seen.thinned;
      told_lost = seen.lost;
    }
    if (write()) count(reports);
  }

  void add(const std::string& line)
  {
    text += line;
    text += '\n';
  }

  std::string limit_reached() const
  {
    return "the file has reached its limit of " + std::to_string(limits.bytes) + " bytes";
  }

  void count(std::uint64_t reports)
  {
    const std::lock_guard lock { mutex };
    counters.written += reports;
  }

  bool write()
  {
    std::string_view left { text };
    while (!left.empty())
    {
      const ssize_t put = ::write(file.get(), left.data(), left.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0)
      {
        end(reason(errno));
        return false;
      }
      left.remove_prefix(static_cast<std::size_t>(put));
      size += static_cast<std::uint64_t>(put);
    }
    {
      const std::lock_guard lock { mutex };
      counters.bytes += text.size();
    }
    text.clear();
    return true;
  }

  void end(const std::string& why)
  {
    const std::lock_guard lock { mutex };
    problem = "recording to " + path + " has ended: " + why;
    counters.lost += waiting.size();
    waiting.clear();
  }
};

Recorder::Recorder(std::string path, Tick now, RecorderLimits limits)
    : path_ { std::move(path) }, shared_ { std::make_shared<Shared>() }
{
  Opened opened = open_to_append(path_);
  // The flag was for the opening; a regular file does not mind it.
  shared_->size = opened.size;
  if (opened.cut) shared_->text = "\n";
  shared_->file = std::move(opened.file);
  start(now, limits);
}

Recorder::Recorder(kernel::Fd file, std::string path, Tick now, RecorderLimits limits)
    : path_ { std::move(path) }, shared_ { std::make_shared<Shared>() }
{
  shared_->file = std::move(file);
  start(now, limits);
}

void Recorder::start(Tick now, const RecorderLimits& limits)
{
  Shared& s = *shared_;
  s.path = path_;
  s.limits = limits;
  s.waiting.reserve(limits.waiting);
  s.sources.reserve(16);
  s.add(to_line(to_json(RecordHeader { now, iso8601(now.time_since_epoch() + kernel::realtime_offset()) })));
  worker_.emplace([shared = shared_] { shared->run(); });
}

Recorder::~Recorder()
{
  {
    const std::lock_guard lock { shared_->mutex };
    shared_->stop = true;
  }
  shared_->work.notify_all();
  worker_->finish(shared_->limits.timeout);
}

void Recorder::take(std::string_view source, const Report& report) noexcept
{
  bool wake = false;
  {
    Shared& s = *shared_;
    const std::lock_guard lock { s.mutex };
    if (!s.problem.empty() || s.waiting.size() >= s.limits.waiting)
    {
      ++s.counters.lost;
      return;
    }
    if (std::holds_alternative<Frame>(report.what) && !s.allow_frame(report.at))
    {
      ++s.counters.thinned;
      return;
    }
    try
    {
      auto name = std::find(s.sources.begin(), s.sources.end(), source);
      if (name == s.sources.end()) name = s.sources.insert(name, std::string { source });
      s.waiting.push_back({ static_cast<std::uint32_t>(name - s.sources.begin()), report });
    }
    catch (const std::bad_alloc&)
    {
      ++s.counters.lost;
      return;
    }
    wake = s.waiting.size() == s.limits.waiting / 2 + 1; // once
  }
  if (wake) shared_->work.notify_one();
}

std::string Recorder::problem() const
{
  const std::lock_guard lock { shared_->mutex };
  return shared_->problem;
}

Recorder::Counters Recorder::counters() const
{
  const std::lock_guard lock { shared_->mutex };
  return shared_->counters;
}

} // namespace tandem::feeder
