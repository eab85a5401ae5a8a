#include "src/feeder/sources/monitor_source.h"

#include "src/kernel/clock.h"
#include "src/kernel/packet/prober.h"

#include <net/if.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace tandem::feeder
{

namespace
{

constexpr int longest = 256;          // headers only, with a long radiotap header
constexpr int ring = 2 * 1024 * 1024; // bytes; some thousand frames
constexpr int frames_at_a_time = 512; // the packet thread has other work
constexpr Duration look_period = std::chrono::seconds { 1 };
constexpr Duration stepped = std::chrono::milliseconds { 10 }; // the wall clock was set

} // namespace

std::string monitor_filter(const std::vector<Mac>& own, const std::optional<Mac>& ap)
{
  std::string filter {};
  const auto add = [&filter](const std::string& more) { filter += (filter.empty() ? "" : " or ") + more; };
  for (const Mac& mac : own)
  {
    add("wlan addr1 " + text(mac));
    add("wlan addr2 " + text(mac));
  }
  if (ap)
  {
    add("wlan addr2 " + text(*ap));
    // First byte of frame control: acknowledgement, and that of a block.
    add("((link[0] == 0xd4 or link[0] == 0x94) and wlan addr1 " + text(*ap) + ")");
  }
  return filter;
}

void MonitorSource::ClosePcap::operator()(pcap* handle) const noexcept
{
  pcap_close(handle);
}

MonitorSource::MonitorSource(std::string wifi, std::string monitor, std::vector<Mac> own)
    : wifi_ { std::move(wifi) }, monitor_ { std::move(monitor) }, more_own_ { std::move(own) }
{
  reopen(Tick {});
}

MonitorSource::~MonitorSource() = default;

void MonitorSource::close()
{
  pcap_.reset();
  fd_ = -1;
  offset_known_ = false;
  dropped_before_ = dropped_;
}

bool MonitorSource::ended(std::string why)
{
  problem_ = name() + ": " + std::move(why);
  close();
  return false;
}

bool MonitorSource::reopen(Tick now)
{
  if (pcap_) return true;
  if (monitor_.empty() && !interface_.make(wifi_)) return ended(interface_.problem());
  device_ = monitor_.empty() ? interface_.name() : monitor_;
  std::array<char, PCAP_ERRBUF_SIZE> said {};
  pcap_.reset(pcap_create(device_.c_str(), said.data()));
  if (!pcap_) return ended("opening " + device_ + ": " + said.data());
  pcap_t* handle = pcap_.get();
  pcap_set_snaplen(handle, longest);
  pcap_set_immediate_mode(handle, 1);
  pcap_set_buffer_size(handle, ring);
  pcap_set_tstamp_precision(handle, PCAP_TSTAMP_PRECISION_NANO);
  if (const int rc = pcap_activate(handle); rc < 0)
  {
    const std::string detail = pcap_geterr(handle);
    std::string why = "opening " + device_ + ": " + (detail.empty() ? pcap_statustostr(rc) : detail);
    if (rc == PCAP_ERROR_PERM_DENIED) why += "; the capability NET_RAW is needed";
    if (rc == PCAP_ERROR_IFACE_NOT_UP) why += "; bring it up: ip link set " + device_ + " up";
    if (rc == PCAP_ERROR_NO_SUCH_DEVICE) why += "; see `iw dev`";
    return ended(std::move(why));
  }
  if (const int type = pcap_datalink(handle); type != DLT_IEEE802_11_RADIO)
  {
    const char* named = pcap_datalink_val_to_name(type);
    return ended(device_ + " delivers " + (named != nullptr ? named : std::to_string(type))
                 + ", not radiotap frames; is it a monitor interface? `iw dev " + device_ + " set type monitor`");
  }
  if (pcap_setnonblock(handle, 1, said.data()) != 0) return ended("setting " + device_ + " up: " + said.data());
  filter_.clear();
  if (!apply_filter()) return false;
  fd_ = pcap_get_selectable_fd(handle);
  if (fd_ < 0) return ended(device_ + " cannot be waited for");
  problem_.clear();
  look_due_ = now + look_period;
  return true;
}

void MonitorSource::set_ap(const std::optional<Mac>& ap)
{
  ap_ = ap;
  if (pcap_) apply_filter();
}

bool MonitorSource::apply_filter()
{
  std::vector<Mac> own = more_own_;
  if (const auto mac = kernel::hardware_address(wifi_)) own_ = mac;
  if (own_) own.push_back(*own_);
  std::string wanted = monitor_filter(own, ap_);
  if (wanted.empty()) return ended("the address of " + wifi_ + " is not known; is there such an interface?");
  if (wanted == filter_) return true;
  bpf_program program {};
  int rc = pcap_compile(pcap_.get(), &program, wanted.c_str(), 1, PCAP_NETMASK_UNKNOWN);
  if (rc == 0)
  {
    rc = pcap_setfilter(pcap_.get(), &program);
    pcap_freecode(&program);
  }
  if (rc != 0) return ended("setting the filter \"" + wanted + "\": " + pcap_geterr(pcap_.get()));
  filter_ = std::move(wanted);
  return true;
}

bool MonitorSource::receive(Tick now, std::vector<Report>& reports)
{
  if (!pcap_) return false;
  // Frames carry the wall clock's time. When that was set since the last look, what came in meanwhile has no time that
  // could be relied on, and counts as of now.
  const Duration offset = kernel::realtime_offset();
  const Duration moved = offset - offset_;
  const bool steady = !offset_known_ || (moved < stepped && moved > -stepped);
  offset_ = offset;
  offset_known_ = true;

  for (int i = 0; i < frames_at_a_time; ++i)
  {
    pcap_pkthdr* header = nullptr;
    const u_char* data = nullptr;
    const int rc = pcap_next_ex(pcap_.get(), &header, &data);
    if (rc == 0) break;
    if (rc < 0) return ended(std::string { "listening: " } + pcap_geterr(pcap_.get()));
    const std::int64_t time_ns = std::int64_t { header->ts.tv_sec } * 1'000'000'000 + header->ts.tv_usec;
    take(steady ? time_ns : offset.count() + now.time_since_epoch().count(),
         std::as_bytes(std::span { data, header->caplen }), header->len, now, reports);
  }
  return now < look_due_ || look(now);
}

// libpcap is silent about an interface that goes down or away while nobody waits in it.
bool MonitorSource::look(Tick now)
{
  look_due_ = now + look_period;
  if (!interface_is_up(device_)) return ended("listening: " + device_ + " has gone or is down");
  pcap_stat statistics {};
  if (pcap_stats(pcap_.get(), &statistics) == 0) dropped_ = dropped_before_ + statistics.ps_drop;
  return apply_filter(); // our address may be another one
}

void MonitorSource::take(std::int64_t time_ns, std::span<const std::byte> record, std::uint32_t length, Tick now,
                         std::vector<Report>& reports)
{
  const auto frame = parse_frame(record, length);
  if (!frame)
  {
    ++skipped_;
    return;
  }
  reports.push_back({ .at = std::min(now, Tick { Duration { time_ns } - offset_ }), .what = *frame });
}

} // namespace tandem::feeder
