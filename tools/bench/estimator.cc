// The access-point estimator against the truth: minutes of the lab's air in virtual time, and for each half second what
// the estimator makes of the frames that the client's monitor captures beside what a sniffer at the access point
// counts.
#include "src/feeder/radio/estimator.h"

#include "src/feeder/radio/frame.h"
#include "tools/lab/emulator/radiotap.h"
#include "tools/lab/medium/air.h"

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <malloc.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <system_error>
#include <thread>

namespace
{

using namespace tandem;
using namespace tandem::literals;
using nlohmann::json;

constexpr Duration window = 500ms;
constexpr std::uint32_t packet_bytes = 1500;
constexpr std::size_t pcap_record_header = 16;

// What happens on the air, besides the download.
struct Setting
{
  medium::Standard standard = medium::Standard::a;
  double mbps = 54;      // 0 = rate control
  double delivery = 0.7; // of an attempt with 1500 bytes at `mbps` (rate control: at the fastest rate)
  double later = 0;      // from `step` on; 0 = no step
  Duration step {};
  unsigned aggregate = 1;
  std::optional<Rate> load {};      // of the download; empty = saturated
  std::optional<Rate> acks {};      // of the client's own frames
  std::optional<Rate> neighbour {}; // another station in carrier sense sends so much
  std::optional<Rate> shared {};    // the access point sends another station so much
  medium::HiddenSettings hidden {};
  double fading_db = 0; // standard deviation of the signal
  double noise = 0;     // probability that an attempt fails whatever its rate
  bool beacons = true;
  unsigned attempts = 7; // of a frame, the first included
};

struct Preset
{
  const char* help;
  std::function<void(Setting&)> set;
};

// Failures that no slower rate avoids, else a rate control settles where nothing fails.
void rate_control(Setting& s, medium::Standard standard, double noise, unsigned aggregate)
{
  s.standard = standard;
  s.mbps = 0;
  s.delivery = 0.4;
  s.noise = noise;
  s.aggregate = aggregate;
}

const std::map<std::string, Preset>& presets()
{
  static const std::map<std::string, Preset> all {
    { "fixed", { "802.11a at 54 Mb/s, no rate control, 70 % of the attempts arrive", [](Setting&) {} } },
    { "step",
      { "as fixed; the signal rises after half of the time",
        [](Setting& s)
        {
          s.delivery = 0.65;
          s.later = 0.92;
        } } },
    { "rates-a",
      { "802.11a with rate control, 20 % of all attempts fail at any rate",
        [](Setting& s) { rate_control(s, medium::Standard::a, 0.2, 1); } } },
    { "rates-g",
      { "802.11g with rate control, 30 % of all attempts fail at any rate",
        [](Setting& s) { rate_control(s, medium::Standard::g, 0.3, 1); } } },
    { "rates-n",
      { "802.11n with rate control and aggregates, 20 % of all attempts fail at any rate",
        [](Setting& s) { rate_control(s, medium::Standard::n, 0.2, 32); } } },
    { "contention",
      { "as fixed; a station in carrier sense sends 2 Mb/s", [](Setting& s) { s.neighbour = Rate { 2e6 }; } } },
    { "shared",
      { "as fixed; the access point sends 2 Mb/s to another station", [](Setting& s) { s.shared = Rate { 2e6 }; } } },
    { "download",
      { "as fixed; the client answers with as many small frames as TCP would",
        [](Setting& s) { s.acks = Rate { 52 * 8 * 800.0 }; } } },
    { "hidden-sparse",
      { "80 % by noise; an interferer that the access point does not hear, 30 % of the time, 2 ms each",
        [](Setting& s)
        {
          s.delivery = 0.8;
          s.hidden = { .share = 0.3, .length = 2ms };
        } } },
    { "hidden-heavy",
      { "80 % by noise; an interferer that the access point does not hear, half of the time, 5 ms each",
        [](Setting& s)
        {
          s.delivery = 0.8;
          s.hidden = { .share = 0.5, .length = 5ms };
        } } },
    { "aggregates",
      { "802.11n at 65 Mb/s, aggregates of 16",
        [](Setting& s)
        {
          s.standard = medium::Standard::n;
          s.mbps = 65;
          s.aggregate = 16;
        } } },
    { "slow", { "as fixed; a packet every 50 ms", [](Setting& s) { s.load = Rate { packet_bytes * 8 * 20.0 }; } } },
    { "fading",
      { "as fixed; the signal wanders, 1 dB of standard deviation",
        [](Setting& s)
        {
          s.delivery = 0.8;
          s.fading_db = 1;
        } } },
  };
  return all;
}

// The signal at which so many attempts of a full packet arrive.
double signal_for(const medium::AirConfig& config, const medium::PhyRate& rate, double delivery)
{
  const double bits = 8.0 * config.phy.mpdu(packet_bytes);
  double low = -5, high = 60;
  for (int i = 0; i < 60; ++i)
  {
    const double middle = (low + high) / 2;
    (std::exp(-bits * medium::error_exponent(rate, middle)) < delivery ? low : high) = middle;
  }
  return config.noise_dbm + high;
}

// What a sniffer beside the access point counts.
struct Truth
{
  std::uint64_t attempts = 0, arrived = 0, first = 0, first_arrived = 0, packets = 0;
};

struct Options
{
  std::string scenario = "fixed";
  std::uint64_t seed = 1;
  double seconds = 60;
  unsigned rounds = 0;  // of the measurement of cost
  double damaged = 0.9; // share of the damaged frames that the monitor passes on
};

class World
{
public:
  World(const Setting& setting, const Options& options)
      : setting_(setting), air_(configure(setting), options.seed, box_)
  {
    using medium::Traffic;
    const medium::AirConfig& config = air_.config();
    ap_ = air_.add_access_point(Tick {}, setting.standard == medium::Standard::g ? 6 : 36);
    client_ = air_.add_station(ap_);
    air_.observe(client_);
    box_.want_frames = true;
    const medium::PhyRate& rate =
        config.phy.rates[config.rate.value_or(static_cast<unsigned>(config.phy.rates.size() - 1))];
    set_signal(config, rate, options);
    air_.set_hidden(Tick {}, client_, setting.hidden);
    air_.add_background(Tick {}, client_, Traffic::down, packet_bytes, setting.load);
    if (setting.acks) air_.add_background(Tick {}, client_, Traffic::up, 52, setting.acks);
    if (setting.neighbour) air_.add_background(Tick {}, air_.add_station(ap_), Traffic::up, 1000, setting.neighbour);
    if (setting.shared) air_.add_background(Tick {}, air_.add_station(ap_), Traffic::down, 1000, setting.shared);

    context_.standard = setting.standard;
    for (std::uint8_t node = 0; node < 4; ++node)
    {
      context_.addresses.push_back({ 2, 0, 0, 0, 0, node });
      context_.is_ap.push_back(node == ap_);
      context_.bssid_of.push_back(ap_);
      context_.ssids.push_back("lab");
    }
  }

  // Up to `end`: the truth, and the frames that the client's monitor captures.
  Truth run(Tick end, std::vector<medium::FrameReport>& captured)
  {
    Truth truth;
    const std::uint64_t before = air_.stats(ap_).delivered;
    for (Tick now = std::min(end, now_ + 10ms);; now = std::min(end, now + 10ms))
    {
      air_.run_until(now);
      for (const medium::FrameReport& frame : box_.frames)
        count(frame, truth, captured);
      box_.clear();
      now_ = now;
      if (now == end) break;
    }
    truth.packets = air_.stats(ap_).delivered - before;
    return truth;
  }

  const lab::FrameContext& context() const { return context_; }
  // As captured, from the radiotap header on.
  std::span<const std::byte> record(const medium::FrameReport& frame)
  {
    scratch_.clear();
    lab::append_record(scratch_, frame, context_);
    return std::span(scratch_).subspan(pcap_record_header);
  }
  feeder::Mac address_of_ap() const { return context_.addresses[ap_]; }
  feeder::Mac address_of_client() const { return context_.addresses[client_]; }
  // Saturated, and nobody else sends: the mean time between deliveries is the packet time.
  bool alone() const { return !setting_.load && !setting_.neighbour && !setting_.shared && !setting_.acks; }

private:
  static medium::AirConfig configure(const Setting& setting)
  {
    medium::AirConfig config;
    config.phy = medium::Phy::of(setting.standard);
    if (setting.mbps > 0)
    {
      config.rate = config.phy.find_rate(setting.mbps);
      if (!config.rate) throw CLI::ValidationError("--mbps", "the standard has no such rate");
    }
    config.aggregation.frames = setting.aggregate;
    config.frame_error = setting.noise;
    config.retry_limit = setting.attempts;
    if (setting.beacons) config.beacon_interval = 102400us;
    return config;
  }

  void set_signal(const medium::AirConfig& config, const medium::PhyRate& rate, const Options& options)
  {
    const auto end = Tick {} + Duration { static_cast<std::int64_t>(options.seconds * 1e9) };
    const double dbm = signal_for(config, rate, setting_.delivery);
    std::vector<std::pair<Tick, double>> points { { Tick {}, dbm } };
    if (setting_.later > 0)
    {
      const Tick half = Tick {} + (end - Tick {}) / 2;
      points = { { half, dbm }, { half + 1us, signal_for(config, rate, setting_.later) } };
    }
    if (setting_.fading_db > 0)
    {
      // A first-order process with a memory of a second.
      medium::Random random(options.seed, 0xfade);
      constexpr double step_s = 0.05;
      const double kept = std::exp(-step_s);
      double off = 0;
      points.clear();
      for (Tick at {}; at < end; at += 50ms)
      {
        const double normal =
            std::sqrt(-2 * std::log1p(-random.uniform())) * std::cos(2 * 3.14159265358979 * random.uniform());
        off = kept * off + setting_.fading_db * std::sqrt(1 - kept * kept) * normal;
        points.emplace_back(at, dbm + off);
      }
    }
    air_.set_signal(client_, ap_, std::move(points));
  }

  void count(const medium::FrameReport& frame, Truth& truth, std::vector<medium::FrameReport>& captured)
  {
    if (frame.transmitter == ap_ && frame.receiver == client_ && frame.type == medium::FrameType::data)
    {
      ++truth.attempts;
      truth.arrived += !frame.failed;
      truth.first += !frame.retry;
      truth.first_arrived += !frame.retry && !frame.failed;
    }
    if (frame.heard) captured.push_back(frame);
  }

  Setting setting_;
  medium::Outbox box_;
  medium::Air air_;
  medium::NodeId ap_ = 0, client_ = 0;
  lab::FrameContext context_;
  std::vector<std::byte> scratch_;
  Tick now_ {};
};

// The obvious formula: packets received by packets sent, told by their sequence numbers.
class Naive
{
public:
  void take(const feeder::Frame& frame)
  {
    if (frame.damaged || !frame.sequence) return;
    if (!seen_.insert(*frame.sequence).second) return;
    ++received_;
    const unsigned ahead = (*frame.sequence - highest_ + 4096u) % 4096;
    if (started_ && ahead < 2048) sent_ += ahead;
    if (!started_ || ahead < 2048) highest_ = *frame.sequence;
    started_ = true;
  }
  std::optional<double> close()
  {
    std::optional<double> share;
    if (sent_ > 0) share = std::min(1.0, static_cast<double>(received_) / sent_);
    received_ = sent_ = 0;
    seen_.clear();
    return share;
  }

private:
  std::set<std::uint16_t> seen_;
  unsigned received_ = 0, sent_ = 0, highest_ = 0;
  bool started_ = false;
};

json shown(const feeder::ApEstimator& estimator, const feeder::Mac& ap)
{
  json out = json::object();
  const auto found = estimator.estimate(ap);
  if (!found) return out;
  out["delivery"] = found->delivery ? json(*found->delivery) : json();
  out["packet_us"] = found->packet_time ? json(seconds(*found->packet_time) * 1e6) : json();
  out["mbps"] = found->mbps ? json(*found->mbps) : json();
  out["confidence"] = found->confidence;
  out["hidden"] = found->hidden_terminal;
  out["first"] = found->first;
  out["retried"] = found->retried;
  out["lost"] = found->lost;
  out["memory"] = estimator.memory();
  return out;
}

json ratio(std::uint64_t part, std::uint64_t whole)
{
  return whole == 0 ? json() : json(static_cast<double>(part) / static_cast<double>(whole));
}

void print_windows(const Setting& setting, const Options& options)
{
  World world(setting, options);
  // As published: from the retry bit and the numbers of what arrived whole. And with the frames that the radio hears
  // damaged, which not every driver passes on.
  feeder::ApEstimator whole({ world.address_of_client() }), all({ world.address_of_client() });
  Naive naive;
  medium::Random passes(options.seed, 0xbad);
  std::vector<medium::FrameReport> captured;
  const auto windows = static_cast<int>(options.seconds / seconds(window));
  for (int i = 1; i <= windows; ++i)
  {
    const Tick end = Tick {} + i * window;
    captured.clear();
    const Truth truth = world.run(end, captured);
    for (const medium::FrameReport& report : captured)
      if (const auto frame = feeder::parse_frame(world.record(report)))
      {
        const Tick at = report.start + report.duration;
        if (!frame->damaged || passes.chance(options.damaged)) all.take(*frame, at);
        if (frame->damaged) continue;
        whole.take(*frame, at);
        if (frame->kind == feeder::Frame::Kind::data && frame->receiver == world.address_of_client())
          naive.take(*frame);
      }
    all.advance(end);
    whole.advance(end);
    const auto share = naive.close();
    json line { { "t", seconds(end.time_since_epoch()) },
                { "frames", captured.size() },
                { "published", shown(whole, world.address_of_ap()) },
                { "tandem", shown(all, world.address_of_ap()) },
                { "naive", share ? json(*share) : json() },
                { "truth",
                  { { "delivery", ratio(truth.arrived, truth.attempts) },
                    { "first", ratio(truth.first_arrived, truth.first) },
                    { "attempts", truth.attempts },
                    { "attempts_per_packet", ratio(truth.attempts, truth.first) },
                    { "packet_us", world.alone() && truth.packets > 0
                                       ? json(seconds(window) * 1e6 / static_cast<double>(truth.packets))
                                       : json() } } } };
    std::puts(line.dump().c_str());
  }
}

// Nanoseconds for a frame, from the bytes of the record to the estimator's state, over recorded frames.
void print_cost(const Setting& setting, const Options& options)
{
  World world(setting, options);
  std::vector<medium::FrameReport> reports;
  world.run(Tick {} + Duration { static_cast<std::int64_t>(options.seconds * 1e9) }, reports);
  std::vector<std::pair<std::vector<std::byte>, Tick>> captured;
  for (const medium::FrameReport& report : reports)
  {
    const auto record = world.record(report);
    captured.push_back({ { record.begin(), record.end() }, report.start + report.duration });
  }
  json rounds = json::array();
  std::size_t memory = 0, heap = 0, taken = 0;
  for (unsigned round = 0; round < options.rounds; ++round)
  {
    const std::size_t before = mallinfo2().uordblks;
    feeder::ApEstimator estimator({ world.address_of_client() });
    const auto began = std::chrono::steady_clock::now();
    taken = 0;
    for (const auto& [record, at] : captured)
      if (const auto frame = feeder::parse_frame(record))
      {
        estimator.take(*frame, at);
        if (++taken % 512 != 0 || round > 0) continue; // asking takes time, too
        memory = std::max(memory, estimator.memory());
        heap = std::max(heap, static_cast<std::size_t>(mallinfo2().uordblks) - before);
      }
    const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - began;
    rounds.push_back(passed.count() / static_cast<double>(taken));
  }
  std::puts(json { { "frames", taken },
                   { "frames_per_second", static_cast<double>(taken) / options.seconds },
                   { "ns_per_frame", rounds },
                   { "memory", memory },
                   { "heap", heap + sizeof(feeder::ApEstimator) } }
                .dump()
                .c_str());
}

feeder::Mac mac_of(const std::string& text)
{
  feeder::Mac mac {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < mac.size(); ++i)
  {
    const auto [next, fault] = std::from_chars(at, end, mac[i], 16);
    const bool last = i + 1 == mac.size();
    if (fault != std::errc {} || (last ? next != end : next == end || *next != ':'))
      throw CLI::ValidationError("--own", text + ": six bytes in hexadecimal are allowed, like 02:00:00:00:00:01");
    at = last ? next : next + 1;
  }
  return mac;
}

int checked(const char* what, int result)
{
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

using Clock = std::chrono::steady_clock;

// So many frames a second, stamped with the time at which they are due. The air itself was computed before, so that
// this process hardly uses the CPU.
class Offer
{
public:
  Offer(const Setting& setting, const Options& options, double rate, const std::string& own) : rate_(rate)
  {
    World world(setting, options);
    world.run(Tick {} + Duration { static_cast<std::int64_t>(options.seconds * 1e9) }, reports_);
    context_ = world.context();
    context_.addresses[1] = mac_of(own);
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    context_.realtime_offset = wall / 1ns - Clock::now().time_since_epoch() / 1ns;
  }

  void begin()
  {
    began_ = Clock::now();
    sent_ = 0;
  }
  // Waits a little, then calls f(record) for every frame that is due; a record begins with its pcap header. Ends when f
  // says so.
  template <class F>
  bool go_on(F f)
  {
    std::this_thread::sleep_for(2ms);
    const auto due = static_cast<std::uint64_t>(std::chrono::duration<double>(Clock::now() - began_).count() * rate_);
    for (; sent_ < due; ++sent_)
    {
      medium::FrameReport frame = reports_[sent_ % reports_.size()];
      const Duration since { static_cast<std::int64_t>(static_cast<double>(sent_) * 1e9 / rate_) };
      frame.start = Tick { began_.time_since_epoch() } + since;
      record_.clear();
      lab::append_record(record_, frame, context_);
      if (!f(std::span<const std::byte>(record_))) return false;
    }
    return true;
  }

private:
  double rate_;
  std::vector<medium::FrameReport> reports_;
  lab::FrameContext context_;
  std::vector<std::byte> record_;
  Clock::time_point began_ {};
  std::uint64_t sent_ = 0;
};

void ready()
{
  std::puts("ready");
  std::fflush(stdout);
}

// Stands in for the emulator's frames.sock, until it is killed.
[[noreturn]] void serve(Offer& offer, const std::string& path)
{
  const int listener = checked("socket", ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    throw CLI::ValidationError("--serve", "a path of at most 107 bytes is allowed");
  path.copy(address.sun_path, path.size());
  ::unlink(path.c_str());
  checked(("bind " + path).c_str(), ::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)));
  checked("listen", ::listen(listener, 4));
  ready();
  for (;;)
  {
    const int peer = checked("accept", ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    const auto send = [peer](std::span<const std::byte> bytes)
    {
      while (!bytes.empty())
      {
        const ssize_t n = ::send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n <= 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(n));
      }
      return true;
    };
    offer.begin();
    for (bool open = send(lab::pcap_header()); open;)
      open = offer.go_on(send);
    ::close(peer);
  }
}

// Makes an interface of link type radiotap that frames arrive at as at a monitor interface, until it is killed.
[[noreturn]] void play(Offer& offer, const std::string& name)
{
  const int tap = checked("open /dev/net/tun", ::open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  ifreq request {};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  checked(("create " + name).c_str(), ::ioctl(tap, TUNSETIFF, &request));
  checked("set the link type to radiotap", ::ioctl(tap, TUNSETLINK, ARPHRD_IEEE80211_RADIOTAP));
  const int any = checked("socket", ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  checked("read the flags", ::ioctl(any, SIOCGIFFLAGS, &request));
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  checked(("bring up " + name).c_str(), ::ioctl(any, SIOCSIFFLAGS, &request));
  ::close(any);
  ready();
  offer.begin();
  for (;;)
    offer.go_on(
        [tap](std::span<const std::byte> record)
        {
          const auto frame = record.subspan(pcap_record_header);
          checked("write a frame", static_cast<int>(::write(tap, frame.data(), frame.size())));
          return true;
        });
}

} // namespace

int main(int argc, char** argv)
{
  CLI::App app {
    "The access-point estimator against what a sniffer at the access point counts, a JSON line for each half "
    "second of virtual time."
  };
  Options options;
  std::string scenarios = "the air:";
  for (const auto& [name, preset] : presets())
    scenarios += "\n  " + name + ": " + preset.help;
  std::vector<std::string> names;
  for (const auto& [name, preset] : presets())
    names.push_back(name);
  app.add_option("--scenario", options.scenario, scenarios)->check(CLI::IsMember(names));
  app.add_option("--seed", options.seed, "seed of the air");
  app.add_option("--seconds", options.seconds, "how long, in virtual time")->check(CLI::Range(1.0, 36000.0));
  app.add_option("--cost", options.rounds, "measure the time for a frame instead, so many times")
      ->check(CLI::Range(1u, 1000u));
  std::string path, tap, own = "02:54:44:4d:01:01";
  double rate = 5000;
  app.add_option("--serve", path, "offer the captured frames on this Unix socket in real time instead");
  app.add_option("--tap", tap, "let them arrive at a new interface of this name and of link type radiotap instead");
  app.add_option("--rate", rate, "with --serve, --tap: frames a second")->check(CLI::Range(1.0, 1e6));
  app.add_option("--own", own, "with --serve, --tap: the client's address");
  std::string standard;
  double mbps = -1, delivery = -1;
  double fading = -1;
  int aggregate = -1;
  app.add_option("--damaged", options.damaged, "share of the damaged frames that the client's monitor passes on")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--standard", standard, "another PHY")->check(CLI::IsMember({ "b", "g", "a", "n" }));
  app.add_option("--mbps", mbps, "another rate; 0 = rate control");
  app.add_option("--delivery", delivery, "another share of attempts that arrive")->check(CLI::Range(0.01, 1.0));
  bool no_beacons = false;
  double hidden = -1, burst_ms = 0;
  app.add_flag("--no-beacons", no_beacons, "the access point sends none: they take air time");
  app.add_option("--hidden", hidden, "another share of time of the hidden interferer")->check(CLI::Range(0.0, 0.95));
  app.add_option("--burst-ms", burst_ms, "another mean length of its bursts")->check(CLI::Range(0.01, 1000.0));
  app.add_option("--fading", fading, "another standard deviation of the signal, in dB")->check(CLI::Range(0.0, 20.0));
  unsigned attempts = 0;
  app.add_option("--attempts", attempts, "another number of attempts before the access point gives up (7)")
      ->check(CLI::Range(1u, 100u));
  app.add_option("--aggregate", aggregate, "another length of aggregates")->check(CLI::Range(1, 64));
  try
  {
    app.parse(argc, argv);
    Setting setting;
    presets().at(options.scenario).set(setting);
    constexpr std::string_view letters = "bgan";
    if (!standard.empty()) setting.standard = static_cast<medium::Standard>(letters.find(standard[0]));
    if (mbps >= 0) setting.mbps = mbps;
    if (delivery > 0) setting.delivery = delivery;
    if (aggregate > 0) setting.aggregate = static_cast<unsigned>(aggregate);
    if (hidden >= 0) setting.hidden.share = hidden;
    if (burst_ms > 0) setting.hidden.length = Duration { static_cast<std::int64_t>(burst_ms * 1e6) };
    if (fading >= 0) setting.fading_db = fading;
    if (attempts > 0) setting.attempts = attempts;
    setting.beacons = !no_beacons;
    if (!path.empty() || !tap.empty())
    {
      Offer offer(setting, options, rate, own);
      if (!tap.empty()) play(offer, tap);
      serve(offer, path);
    }
    if (options.rounds > 0)
      print_cost(setting, options);
    else
      print_windows(setting, options);
  }
  catch (const CLI::Success& e)
  {
    return app.exit(e);
  }
  catch (const CLI::Error& e)
  {
    app.exit(e);
    return 2;
  }
  catch (const std::system_error& e)
  {
    std::fprintf(stderr, "tandem-bench-estimator: %s\n", e.what());
    return 1;
  }
  return 0;
}
