// Interfaces that come, go, and change their carrier, as the kernel tells it by rtnetlink.
#pragma once

#include "src/feeder/sources/source.h"

#include <memory>
#include <string>
#include <vector>

namespace tandem::feeder
{

// Reports the present state of each interface when it is opened (one that does not exist as gone), then every change.
class RtnetlinkSource final : public Source
{
public:
  // Names. An interface that is renamed is gone, and may be another one that is watched.
  explicit RtnetlinkSource(std::vector<std::string> interfaces);
  ~RtnetlinkSource() override;
  RtnetlinkSource(const RtnetlinkSource&) = delete;
  RtnetlinkSource& operator=(const RtnetlinkSource&) = delete;

  std::string name() const override { return "rtnetlink"; }
  int fd() const override;
  Tick due() const override;
  bool receive(Tick now, std::vector<Report>& reports) override;
  bool reopen(Tick now) override;
  void set_interfaces(const std::vector<std::string>& interfaces) override;
  std::string problem() const override { return problem_; }
  // Times that messages were lost and everything was read anew.
  std::uint64_t skipped() const override { return overruns_; }
  // Silence means that nothing has changed.
  Duration stale_after() const override { return Duration::max(); }
  unsigned rate_limit() const override { return 1000; }

private:
  struct Socket;

  std::vector<std::string> interfaces_;
  std::unique_ptr<Socket> socket_ {};
  std::string problem_ {};
  std::uint64_t overruns_ = 0;
};

} // namespace tandem::feeder
