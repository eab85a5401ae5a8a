#include "src/daemon/trap_saver.h"

#include "src/daemon/whole_file.h"
#include "src/kernel/fd.h"
#include "src/trace/pcapng_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace tandem::daemon
{

namespace
{

constexpr std::string_view prefix = "trap-", suffix = ".pcapng";

// By the time of writing. The names tell it, too, but in local time, which goes back in autumn, and when one travels.
void remove_oldest(const std::filesystem::path& directory, std::size_t keep)
{
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> files {};
  std::error_code gone {}; // meanwhile: then it has the least time
  for (const auto& entry : std::filesystem::directory_iterator { directory })
  {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(suffix))
      files.emplace_back(entry.last_write_time(gone), entry.path());
  }
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i + keep < files.size(); ++i)
    std::filesystem::remove(files[i].second);
}

} // namespace

void make_private_directory(const std::filesystem::path& directory)
{
  const auto fail = [&directory](const std::string& why)
  { throw std::runtime_error { "recordings of traps cannot be kept in " + directory.string() + ": " + why }; };
  ::mkdir(directory.parent_path().c_str(), 0750);
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) fail(std::strerror(errno));
  const kernel::Fd opened { ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) };
  struct stat is
  {
  };
  if (!opened || ::fstat(opened.get(), &is) != 0) fail(std::strerror(errno));
  if (is.st_uid != ::geteuid()) fail("it belongs to another user");
  if ((is.st_mode & (S_IWGRP | S_IWOTH)) != 0) fail("others may write it; chmod 700 it");
}

TrapSaver::TrapSaver(std::filesystem::path directory, std::function<void(Saved)> saved)
    : directory_ { std::move(directory) }, saved_ { std::move(saved) }, thread_ { [this] { run(); } }
{
}

TrapSaver::~TrapSaver()
{
  stop_ = true;
  wake_.release();
  thread_.join();
  delete next_.exchange(nullptr);
}

bool TrapSaver::post(std::unique_ptr<Job> job)
{
  Job* none = nullptr;
  if (!next_.compare_exchange_strong(none, job.get())) return false;
  static_cast<void>(job.release()); // the thread's
  wake_.release();
  return true;
}

void TrapSaver::run()
{
  for (;;)
  {
    wake_.acquire();
    // It stays in its place until it is written: that is what post() looks at.
    if (Job* job = next_.load())
    {
      Saved saved { .trap = job->trap };
      try
      {
        saved.file = write(*job);
      }
      catch (const std::exception& error)
      {
        saved.problem = error.what();
      }
      delete next_.exchange(nullptr);
      saved_(std::move(saved));
    }
    if (stop_) return;
  }
}

std::string TrapSaver::write(const Job& job) const
{
  make_private_directory(directory_);
  std::ostringstream out {};
  if (!trace::write_pcapng(out, job.recorder, job.heading, job.realtime_offset))
    throw std::runtime_error { "the recording could not be written" };
  const auto file = directory_
                    / (std::string { prefix } + file_stamp(std::time(nullptr)) + "-" + std::to_string(job.trap)
                       + std::string { suffix });
  remove_oldest(directory_, most_files - 1);
  write_whole(file, std::move(out).str());
  return file.string();
}

} // namespace tandem::daemon
