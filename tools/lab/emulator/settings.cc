#include "tools/lab/emulator/settings.h"

#include "src/control/literal.h"
#include "tools/lab/medium/trace.h"

#include <fstream>
#include <sstream>

namespace tandem::lab
{

namespace
{

using namespace std::chrono_literals;

std::shared_ptr<const medium::Opportunities> load_trace(const Value& value)
{
  const auto path = value.path();
  std::ifstream file(path);
  if (!file)
    value.refuse("cannot open the trace file " + path.string() + "; a mahimahi trace beside this file is allowed");
  std::ostringstream text;
  text << file.rdbuf();
  auto parsed = medium::parse_trace(text.str());
  if (const auto* fault = std::get_if<medium::TraceFault>(&parsed))
    throw BadInput(path.string() + ":" + std::to_string(fault->line) + ": " + fault->what);
  return std::make_shared<const medium::Opportunities>(std::move(std::get<medium::Opportunities>(parsed)));
}

void set_rate(medium::PipeConfig& pipe, const Value& value)
{
  pipe.rate = value.rate();
  pipe.trace = nullptr;
}

// A changed standard starts from that standard's own numbers, so `standard` must come first in a profile; the loader
// sees to it.
void set_standard(WifiSettings& wifi, const Value& value)
{
  const std::size_t choice = value.choice({ "b", "g", "a", "n", "pipe" });
  wifi.pipe = choice == 4;
  // A pipe's frames are shown as 802.11n's, whose radiotap headers carry any rate that matters here.
  wifi.air.phy = medium::Phy::of(wifi.pipe ? medium::Standard::n : static_cast<medium::Standard>(choice),
                                 wifi.air.phy.short_guard);
  wifi.air.rate = static_cast<unsigned>(wifi.air.phy.rates.size() - 1);
  if (wifi.air.phy.standard == medium::Standard::n) wifi.air.aggregation.frames = 32;
}

// Keys that one kind of Wi-Fi only has are refused with the other: a scenario must not say what nothing carries out.
void need_pipe(const WifiSettings& wifi, const Value& value)
{
  if (!wifi.pipe) value.refuse("this key goes with standard = \"pipe\" only");
}

void need_air(const WifiSettings& wifi, const Value& value)
{
  if (wifi.pipe) value.refuse("this key does not go with standard = \"pipe\"");
}

Rate pipe_rate(const WifiSettings& wifi, const Value& value)
{
  need_pipe(wifi, value);
  return value.rate();
}

void set_wifi_rate(WifiSettings& wifi, const Value& value)
{
  if (wifi.pipe)
    wifi.rate_down = wifi.rate_up = value.rate();
  else
    wifi.air.rate = wifi_rate(wifi.air.phy, value);
}

void set_short_guard(WifiSettings& wifi, const Value& value)
{
  need_air(wifi, value);
  wifi.air.phy.short_guard = value.boolean();
  if (wifi.air.phy.standard == medium::Standard::n)
    wifi.air.phy.rates = medium::Phy::of(medium::Standard::n, wifi.air.phy.short_guard).rates;
}

constexpr Duration longest_delay = 60s;

Rate policed(const Value& value)
{
  return value.node().is_string() && value.text() == "none" ? Rate {} : value.rate();
}

// A bucket that no packet fits in would let nothing through.
std::uint64_t burst(const Value& value)
{
  constexpr std::uint64_t packet = 1500;
  const std::uint64_t bytes = value.bytes();
  if (bytes < packet) value.refuse("at least 1500B, a packet, is allowed");
  return bytes;
}

medium::Aqm::Kind aqm_kind(const Value& value)
{
  return static_cast<medium::Aqm::Kind>(value.choice({ "none", "mark", "codel" }));
}

} // namespace

std::optional<unsigned> wifi_rate(const medium::Phy& phy, const Value& value)
{
  std::string allowed = "\"minstrel\" or one of these Mb/s is allowed:";
  for (const auto& rate : phy.rates)
  {
    std::ostringstream out;
    out.precision(3);
    out << " \"" << rate.mbps << '"';
    allowed += out.str();
  }
  double mbps = 0;
  if (value.node().is_number())
    mbps = *value.node().value<double>();
  else if (value.node().is_string())
  {
    const std::string text = value.text();
    if (text == "minstrel") return std::nullopt;
    try
    {
      std::size_t read = text.size();
      mbps = text.find("bit") == std::string::npos ? std::stod(text, &read)
                                                   : parse_rate(text).value_or(Rate {}).bits_per_second / 1e6;
      if (read != text.size()) value.refuse(allowed);
    }
    catch (const std::exception&)
    {
      value.refuse(allowed);
    }
  }
  if (const auto index = phy.find_rate(mbps)) return index;
  value.refuse(allowed);
}

#define WIFI(name, live, read, field)                                                                                  \
  {                                                                                                                    \
    name, [](WifiSettings& s, const Value& v) { s.field = read; },                                                     \
        [](WifiSettings& to, const WifiSettings& from) { to.field = from.field; }, live                                \
  }
#define AIR(name, live, read, field)                                                                                   \
  {                                                                                                                    \
    name,                                                                                                              \
        [](WifiSettings& s, const Value& v)                                                                            \
    {                                                                                                                  \
      need_air(s, v);                                                                                                  \
      s.field = read;                                                                                                  \
    },                                                                                                                 \
        [](WifiSettings& to, const WifiSettings& from) { to.field = from.field; }, live                                \
  }
#define PIPE(name, read, field)                                                                                        \
  {                                                                                                                    \
    name,                                                                                                              \
        [](WifiSettings& s, const Value& v)                                                                            \
    {                                                                                                                  \
      need_pipe(s, v);                                                                                                 \
      s.field = read;                                                                                                  \
    },                                                                                                                 \
        [](WifiSettings& to, const WifiSettings& from) { to.field = from.field; }, true                                \
  }

// Keys are taken over in this order: what others depend on comes first.
const std::vector<Key<WifiSettings>>& wifi_keys()
{
  static const std::vector<Key<WifiSettings>> keys {
    { "standard", set_standard,
      [](WifiSettings& to, const WifiSettings& from)
      {
        to.air.phy = from.air.phy;
        to.pipe = from.pipe;
      },
      false },
    WIFI("profile", false, v.text(), profile),
    WIFI("queue", true, static_cast<unsigned>(v.integer(1, 1000000)), air.ap_queue),
    WIFI("station_queue", false, static_cast<unsigned>(v.integer(1, 1000000)), air.station_queue),
    AIR("codel", true, v.duration(Duration {}, longest_delay), air.codel),
    AIR("retry_limit", false, static_cast<unsigned>(v.integer(1, 100)), air.retry_limit),
    AIR("short_preamble", false, v.boolean(), air.phy.short_preamble),
    { "short_guard", set_short_guard,
      [](WifiSettings& to, const WifiSettings& from) { to.air.phy.short_guard = from.air.phy.short_guard; }, false },
    { "rate", set_wifi_rate,
      [](WifiSettings& to, const WifiSettings& from)
      {
        to.air.rate = from.air.rate;
        to.rate_down = from.rate_down;
        to.rate_up = from.rate_up;
      },
      true },
    { "rate_down", [](WifiSettings& s, const Value& v) { s.rate_down = pipe_rate(s, v); },
      [](WifiSettings& to, const WifiSettings& from) { to.rate_down = from.rate_down; }, true },
    { "rate_up", [](WifiSettings& s, const Value& v) { s.rate_up = pipe_rate(s, v); },
      [](WifiSettings& to, const WifiSettings& from) { to.rate_up = from.rate_up; }, true },
    PIPE("queue_bytes", v.bytes(), queue_bytes),
    PIPE("ecn", aqm_kind(v), aqm.kind),
    PIPE("threshold", v.duration(Duration {}, longest_delay), aqm.threshold),
    PIPE("threshold_full", v.duration(Duration {}, longest_delay), aqm.full),
    { "basic_rates",
      [](WifiSettings& s, const Value& v)
      {
        need_air(s, v);
        const auto wanted = v.numbers();
        if (wanted.empty() || s.air.phy.restrict_basic(wanted))
          v.refuse(s.air.phy.standard == medium::Standard::b ? "a list of 1, 2, 5.5, 11 is allowed"
                                                             : "a list of 6, 9, 12, 18, 24, 36, 48, 54 is allowed");
      },
      [](WifiSettings& to, const WifiSettings& from) { to.air.phy.basic = from.air.phy.basic; }, false },
    AIR("slot", false, v.duration(Duration { 1000 }, 1ms), air.phy.slot),
    AIR("sifs", false, v.duration(Duration { 1000 }, 1ms), air.phy.sifs),
    AIR("aifsn", false, static_cast<unsigned>(v.integer(1, 15)), air.phy.aifsn),
    AIR("signal_extension", false, v.duration(Duration {}, 1ms), air.phy.signal_extension),
    AIR("cw_min", false, static_cast<std::uint32_t>(v.integer(1, 32767)), air.phy.cw_min),
    AIR("cw_max", false, static_cast<std::uint32_t>(v.integer(1, 32767)), air.phy.cw_max),
    AIR("ampdu_frames", false, static_cast<unsigned>(v.integer(1, 64)), air.aggregation.frames),
    AIR("ampdu_bytes", false, static_cast<std::uint32_t>(v.integer(1600, 65535)), air.aggregation.bytes),
    AIR("ampdu_time", false, v.duration(Duration { 100000 }, 10ms), air.aggregation.time),
    WIFI("beacon_interval", false, v.duration(Duration {}, 10s), air.beacon_interval),
    AIR("survey", true, v.boolean(), survey),
    WIFI("noise", false, v.number(-120, -30), air.noise_dbm),
    WIFI("frame_error", true, v.probability(), air.frame_error),
    { "loss", [](WifiSettings& s, const Value& v) { s.air.loss_down.random = s.air.loss_up.random = v.probability(); },
      [](WifiSettings& to, const WifiSettings& from)
      {
        to.air.loss_down.random = from.air.loss_down.random;
        to.air.loss_up.random = from.air.loss_up.random;
      },
      true },
    WIFI("loss_down", true, v.probability(), air.loss_down.random),
    WIFI("loss_up", true, v.probability(), air.loss_up.random),
    { "gilbert", [](WifiSettings& s, const Value& v) { s.air.loss_down.gilbert = s.air.loss_up.gilbert = v.gilbert(); },
      [](WifiSettings& to, const WifiSettings& from)
      {
        to.air.loss_down.gilbert = from.air.loss_down.gilbert;
        to.air.loss_up.gilbert = from.air.loss_up.gilbert;
      },
      true },
    WIFI("gilbert_down", true, v.gilbert(), air.loss_down.gilbert),
    WIFI("gilbert_up", true, v.gilbert(), air.loss_up.gilbert),
    WIFI("delay", true, v.duration(Duration {}, longest_delay), air.delay),
    WIFI("jitter", true, v.duration(Duration {}, longest_delay), air.jitter),
    AIR("hidden", true, v.hidden(), hidden),
    AIR("ack_free", true, v.boolean(), ack_free),
    AIR("power_save", true, v.boolean(), air.power_save),
    AIR("power_save_timeout", false, v.duration(1ms, 60s), air.power_save_timeout),
    WIFI("firewall", false, v.choice({ "none", "drop", "reject" }), firewall),
    WIFI("nat", false, v.boolean(), nat),
  };
  return keys;
}
#undef WIFI
#undef AIR
#undef PIPE

medium::PipeConfig wifi_pipe(const WifiSettings& wifi, bool down)
{
  medium::PipeConfig pipe;
  pipe.rate = down ? wifi.rate_down : wifi.rate_up;
  pipe.delay = wifi.air.delay;
  pipe.jitter = wifi.air.jitter;
  pipe.queue_packets = down ? wifi.air.ap_queue : wifi.air.station_queue;
  pipe.queue_bytes = down ? wifi.queue_bytes : 0;
  pipe.loss = down ? wifi.air.loss_down : wifi.air.loss_up;
  pipe.aqm = down ? wifi.aqm : medium::Aqm {};
  return pipe;
}

// Keys of a link with two directions: NAME sets both, NAME_down and NAME_up one.
#define BOTH_WAYS(name, read, field)                                                                                   \
  { name,                                                                                                              \
    [](PipePair& p, const Value& v)                                                                                    \
    {                                                                                                                  \
      p.down.field = read;                                                                                             \
      p.up.field = p.down.field;                                                                                       \
    },                                                                                                                 \
    [](PipePair& to, const PipePair& from)                                                                             \
    {                                                                                                                  \
      to.down.field = from.down.field;                                                                                 \
      to.up.field = from.up.field;                                                                                     \
    },                                                                                                                 \
    true },                                                                                                            \
      { name "_down", [](PipePair& p, const Value& v) { p.down.field = read; },                                        \
        [](PipePair& to, const PipePair& from) { to.down.field = from.down.field; }, true },                           \
  {                                                                                                                    \
    name "_up", [](PipePair& p, const Value& v) { p.up.field = read; },                                                \
        [](PipePair& to, const PipePair& from) { to.up.field = from.up.field; }, true                                  \
  }

const std::vector<Key<PipePair>>& pipe_keys()
{
  static const std::vector<Key<PipePair>> keys {
    { "rate",
      [](PipePair& p, const Value& v)
      {
        set_rate(p.down, v);
        set_rate(p.up, v);
      },
      [](PipePair& to, const PipePair& from)
      {
        to.down.rate = from.down.rate;
        to.up.rate = from.up.rate;
        to.down.trace = from.down.trace;
        to.up.trace = from.up.trace;
      },
      true },
    { "rate_down", [](PipePair& p, const Value& v) { set_rate(p.down, v); },
      [](PipePair& to, const PipePair& from)
      {
        to.down.rate = from.down.rate;
        to.down.trace = from.down.trace;
      },
      true },
    { "rate_up", [](PipePair& p, const Value& v) { set_rate(p.up, v); },
      [](PipePair& to, const PipePair& from)
      {
        to.up.rate = from.up.rate;
        to.up.trace = from.up.trace;
      },
      true },
    BOTH_WAYS("trace", load_trace(v), trace),
    BOTH_WAYS("delay", v.duration(Duration {}, longest_delay), delay),
    BOTH_WAYS("jitter", v.duration(Duration {}, longest_delay), jitter),
    BOTH_WAYS("reorder", v.probability(), reordering.share),
    BOTH_WAYS("reorder_later", v.duration(Duration {}, longest_delay), reordering.later),
    BOTH_WAYS("police", policed(v), policer.rate),
    BOTH_WAYS("police_burst", burst(v), policer.burst),
    BOTH_WAYS("queue", static_cast<std::uint32_t>(v.integer(1, 1000000)), queue_packets),
    BOTH_WAYS("queue_bytes", v.bytes(), queue_bytes),
    BOTH_WAYS("loss", v.probability(), loss.random),
    BOTH_WAYS("gilbert", v.gilbert(), loss.gilbert),
    BOTH_WAYS("ecn", aqm_kind(v), aqm.kind),
    BOTH_WAYS("threshold", v.duration(Duration {}, longest_delay), aqm.threshold),
    BOTH_WAYS("threshold_full", v.duration(Duration {}, longest_delay), aqm.full),
  };
  return keys;
}
#undef BOTH_WAYS

const std::vector<Key<CellSettings>>& cell_keys()
{
  static const std::vector<Key<CellSettings>> keys {
    { "profile", [](CellSettings& s, const Value& v) { s.profile = v.text(); },
      [](CellSettings& to, const CellSettings& from) { to.profile = from.profile; }, false },
    { "enabled", [](CellSettings& s, const Value& v) { s.enabled = v.boolean(); },
      [](CellSettings& to, const CellSettings& from) { to.enabled = from.enabled; }, false },
    { "nat", [](CellSettings& s, const Value& v) { s.nat = v.boolean(); },
      [](CellSettings& to, const CellSettings& from) { to.nat = from.nat; }, true },
    { "source_filter", [](CellSettings& s, const Value& v) { s.source_filter = v.boolean(); },
      [](CellSettings& to, const CellSettings& from) { to.source_filter = from.source_filter; }, true },
  };
  return keys;
}

} // namespace tandem::lab
