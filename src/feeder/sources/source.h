// The one interface of every source of driver statistics.
#pragma once

#include "src/feeder/radio/report.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::feeder
{

// A source never blocks longer than a system call, and never grows: what cannot be taken in is skipped and counted. One
// that has to wait for the kernel or for another process runs behind ThreadedSource.
class Source
{
public:
  virtual ~Source() = default;

  // As in links.radio: "lab:/run/frames.sock", "nl80211", "monitor:mon0", ...
  virtual std::string name() const = 0;
  // Readable when there is something to receive; -1 while there is none.
  virtual int fd() const = 0;
  // When receive() wants to be called although the descriptor is not readable (polls, time-outs); Tick::max() when
  // never.
  virtual Tick due() const { return Tick::max(); }
  // Appends what has come in, in order of time. False: the source has ended; call reopen() some time later.
  virtual bool receive(Tick now, std::vector<Report>& reports) = 0;
  // Tries to come (back) to work. True when it works.
  virtual bool reopen(Tick now) = 0;
  // The access point that we are associated with is another one now, or there is none: a hint what to listen to.
  virtual void set_ap(const std::optional<Mac>&) {}
  // The address of our Wi-Fi interface as it is now, of who reads it.
  virtual std::optional<Mac> own_address() const { return {}; }
  // Those of our links are other ones now.
  virtual void set_interfaces(const std::vector<std::string>&) {}
  // Why it, or a part of it, does not work, for people: what failed, why, what to do. Empty while all of it works.
  virtual std::string problem() const { return {}; }
  // What it asks is not on every machine: that it is closed is not worth a line of the log.
  virtual bool optional() const { return false; }
  // Records that could not be used.
  virtual std::uint64_t skipped() const = 0;

  // Longer without a report than this, and nothing of what it reported counts any more.
  virtual Duration stale_after() const = 0;
  // Reports a second that are taken in; what comes beyond it is skipped.
  virtual unsigned rate_limit() const = 0;
};

} // namespace tandem::feeder
