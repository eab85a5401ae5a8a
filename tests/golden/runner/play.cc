#include "tests/golden/runner/play.h"

#include "src/daemon/module_loader.h"
#include "tests/golden/harness/fixture.h"

#ifdef TANDEM_GOLDEN_OFFLOAD
#include "modules/offload/offload.h"
#endif
#ifdef TANDEM_GOLDEN_FREEZE
#include "modules/freeze/freeze.h"
#endif
#ifdef TANDEM_GOLDEN_MIRROR
#include "modules/mirror/mirror.h"
#endif
#ifdef TANDEM_GOLDEN_ECN
#include "modules/ecn/ecn.h"
#endif
#ifdef TANDEM_GOLDEN_RATE
#include "modules/rate/rate.h"
#endif

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>

namespace tandem::golden
{

namespace
{

using namespace test;

std::unique_ptr<Module> make_module(const std::string& name)
{
#ifdef TANDEM_GOLDEN_OFFLOAD
  if (name == "offload") return std::make_unique<offload::Offload>();
#endif
#ifdef TANDEM_GOLDEN_FREEZE
  if (name == "freeze") return std::make_unique<freeze::Freeze>();
#endif
#ifdef TANDEM_GOLDEN_MIRROR
  if (name == "mirror") return std::make_unique<mirror::Mirror>();
#endif
#ifdef TANDEM_GOLDEN_ECN
  if (name == "ecn") return std::make_unique<ecn::Ecn>();
#endif
#ifdef TANDEM_GOLDEN_RATE
  if (name == "rate") return std::make_unique<rate::RatePolicy>();
#endif
  return nullptr;
}

// Milliseconds as written in scripts: up to two decimals, no trailing zeros.
std::string ms_text(double ms)
{
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2f", ms);
  std::string text { buffer };
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string ms_text(Tick at)
{
  return ms_text(milliseconds(at.time_since_epoch()));
}

// The flags in tcpdump's letters, E for ECE, W for CWR, e for AE.
std::optional<std::uint16_t> flags_of(const std::string& letters)
{
  static const std::map<char, std::uint16_t> known { { 'S', tcp_flag::syn }, { 'F', tcp_flag::fin },
                                                     { 'R', tcp_flag::rst }, { 'P', tcp_flag::psh },
                                                     { '.', tcp_flag::ack }, { 'U', tcp_flag::urg },
                                                     { 'E', tcp_flag::ece }, { 'W', tcp_flag::cwr },
                                                     { 'e', tcp_flag::ae } };
  std::uint16_t flags = 0;
  for (const char letter : letters)
  {
    const auto at = known.find(letter);
    if (at == known.end()) return std::nullopt;
    flags |= at->second;
  }
  return flags;
}

// One plan line, by field; a verdict or "inject" or "request" is the field "".
using Fields = std::map<std::string, std::string>;

std::string text_of(const Fields& fields)
{
  std::string text = fields.contains("") ? fields.at("") : "";
  for (const auto& [key, value] : fields)
    if (!key.empty()) text += " " + key + " " + (key == "why" ? "\"" + value + "\"" : value);
  return text;
}

class FactFields final : public Facts
{
public:
  void add(std::string_view key, std::string_view value) override { all[std::string { key }] = value; }
  void add(std::string_view key, double value, std::string_view) override { all[std::string { key }] = ms_text(value); }
  Fields all {};
};

class Player
{
public:
  Player(const Script& script, const std::vector<std::string>& libraries) : script_ { script }
  {
    for (const std::string& file : libraries)
      if (const std::string problem = daemon::load_module(file, loaded_); !problem.empty())
        throw std::runtime_error { problem };
  }

  std::vector<std::string> play()
  {
    settings();
    for (const Entry& entry : script_.entries)
    {
      const Tick at = at_ms(entry.at_ms);
      alarms_until(at, entry.line.words[0]);
      const std::size_t differences = differences_.size();
      perform(entry);
      if (differences_.size() > differences + 20)
      {
        differences_.resize(differences + 20);
        differences_.push_back("  ... and more");
      }
      injected_ = fixture_->actions.injected.size();
      requested_ = fixture_->actions.requests.size();
      asked_ = fixture_->actions.asked.size();
    }
    // What alarms still do after the last event is expected as well.
    alarms_until(fixture_->now() + ms(3000), "");
    if (const auto n = fixture_->chain.stats().unacceptable; n != unacceptable_)
      differences_.push_back(script_.file + ": " + std::to_string(n) + " segments lay outside the windows, not "
                             + std::to_string(unacceptable_));
    if (!violations_allowed_)
      for (std::size_t i = 0; i < fixture_->chain.module_count(); ++i)
        for (std::size_t v = 1; v < chain::violation_count; ++v)
          if (const auto n = fixture_->chain.stats(i).violations[v]; n != 0)
            differences_.push_back(script_.file + ": " + std::string { fixture_->chain.module(i).name() } + " broke \""
                                   + std::string { chain::name(static_cast<chain::Violation>(v)) } + "\" "
                                   + std::to_string(n) + " times");
    return std::move(differences_);
  }

private:
  struct Flow
  {
    Peers peers {};
    Duration rtt = ms(20);  // with the queue
    Duration queue = ms(0); // that part of it, and of the downlink
  };

  [[noreturn]] void fail(const Line& line, const std::string& what) const
  {
    throw ScriptError { script_.file, line.number, what + ": " + line.text };
  }

  const std::string& word(const Line& line, std::size_t at) const
  {
    if (at >= line.words.size()) fail(line, "a word is missing at the end");
    return line.words[at];
  }

  double number(const Line& line, std::size_t at) const
  {
    const std::string& text = word(line, at);
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') fail(line, "\"" + text + "\" is no number");
    return value;
  }

  std::uint32_t count(const Line& line, std::size_t at) const
  {
    const double value = number(line, at);
    if (value < 0 || value > 4294967295.0) fail(line, "\"" + word(line, at) + "\" is not within 32 bits");
    return static_cast<std::uint32_t>(std::llround(value));
  }

  // ---- settings ----

  std::shared_ptr<Module> module_named(const std::string& name) const
  {
    for (const daemon::LoadedModule& one : loaded_.modules)
      if (one.module->name() == name) return one.module;
    return make_module(name);
  }

  void settings()
  {
    std::vector<std::string> wanted {};
    for (const Line& line : script_.settings)
    {
      const std::string& what = line.words[0];
      if (what == "module")
        wanted.push_back(word(line, 1));
      else if (what == "set")
        knobs_.push_back(&line);
      else if (what == "family")
      {
        if (word(line, 1) != "v4" && word(line, 1) != "v6") fail(line, "a family is v4 or v6");
        first_.peers.key = word(line, 1) == "v6" ? key_v6() : key_v4();
      }
      else if (what == "isn" || what == "clock")
        numbers(line, what == "isn");
      else if (what == "options")
        options(line);
      else if (what == "downlink")
        first_.peers.downlink = ms(number(line, 1));
      else if (what == "accecn")
        first_.peers.ace = static_cast<std::uint8_t>(count(line, 1));
      else if (what == "window")
        first_.peers.window = static_cast<std::uint16_t>(count(line, 1));
      else if (what == "budget")
        options_.cell_budget = count(line, 1);
      else if (what == "worth")
        options_.worth = count(line, 1);
      else if (what == "withhold")
        options_.release.young = options_.release.settled = static_cast<std::uint32_t>(count(line, 1));
      else if (what == "seed")
        options_.seed = options_.table.seed = count(line, 1);
      else if (what == "unacceptable")
        unacceptable_ = count(line, 1);
      else if (what == "violations" && word(line, 1) == "allowed")
        violations_allowed_ = true;
      else
        fail(line, "no such setting");
    }
    if (wanted.empty()) throw ScriptError { script_.file, 1, "no `module NAME` setting" };
    std::vector<Module*> modules {};
    for (const std::string& name : wanted)
    {
      owned_.push_back(module_named(name));
      if (!owned_.back())
        throw ScriptError { script_.file, 1,
                            "no module \"" + name + "\" is built into the runner or loaded by --module" };
      modules.push_back(owned_.back().get());
    }
    fixture_ = std::make_unique<Fixture>(modules, options_);
    fixture_->chain.damage(&damage_);
    for (const Line* line : knobs_)
      set(*line);
    flows_["a"] = first_;
  }

  void numbers(const Line& line, bool sequence)
  {
    for (std::size_t i = 1; i < line.words.size(); i += 2)
    {
      const std::uint32_t value = count(line, i + 1);
      if (line.words[i] == "local" && sequence)
        first_.peers.local_isn = Seq { value };
      else if (line.words[i] == "remote" && sequence)
        first_.peers.remote_isn = Seq { value };
      else if (line.words[i] == "local")
        first_.peers.local_clock = TsClock { value };
      else if (line.words[i] == "remote")
        first_.peers.remote_clock = TsClock { value };
      else
        fail(line, "neither local nor remote");
    }
  }

  void options(const Line& line)
  {
    for (std::size_t i = 1; i < line.words.size(); ++i)
    {
      const std::string& one = line.words[i];
      if (one == "no-timestamps")
        first_.peers.timestamps = false;
      else if (one == "no-sack")
        first_.peers.sack = false;
      else if (one == "no-scale")
        first_.peers.local_scale = first_.peers.remote_scale = std::nullopt;
      else if (one == "mptcp")
        first_.peers.more_options |= option::mptcp;
      else if (one == "mptcp-refused")
        first_.peers.more_options |= option::mptcp, first_.peers.mptcp_refused = true;
      else if (one == "md5")
        first_.peers.more_options |= option::md5;
      else if (one == "ao")
        first_.peers.more_options |= option::ao;
      else
        fail(line, "no such option \"" + one + "\"");
    }
  }

  std::size_t slot(const Line& line, const std::string& module) const
  {
    for (std::size_t i = 0; i < fixture_->chain.module_count(); ++i)
      if (fixture_->chain.module(i).name() == module) return i;
    fail(line, "no module \"" + module + "\" in this script");
  }

  void set(const Line& line)
  {
    for (std::size_t i = 1; i == 1 || i < line.words.size(); i += 2)
      set(line, i);
  }

  void set(const Line& line, std::size_t at)
  {
    const std::string& full = word(line, at);
    const std::size_t dot = full.find('.');
    if (dot == std::string::npos) fail(line, "a knob is written module.knob");
    Module& module = fixture_->chain.module(slot(line, full.substr(0, dot)));
    const std::string name = full.substr(dot + 1);
    for (const std::span<const Knob> knobs : { module.knobs(), module.test_knobs() })
      for (const Knob& knob : knobs)
        if (knob.name == name)
        {
          for (std::size_t c = 0; c < knob.choices.size(); ++c)
            if (knob.choices[c] == word(line, at + 1)) return module.set(knob.name, static_cast<double>(c));
          const double value = number(line, at + 1);
          if (value < knob.minimum || value > knob.maximum) fail(line, "out of the knob's range");
          return module.set(knob.name, value);
        }
    fail(line, "no such knob");
  }

  // ---- events ----

  Flow& flow() { return flows_.at(current_); }
  Peers& peers() { return flow().peers; }

  void perform(const Entry& entry)
  {
    const Line& line = entry.line;
    const std::string& what = line.words[0];
    if (what == "open")
      fixture_->open(peers()), expect(entry, {});
    else if (what == "download")
      download(entry);
    else if (what == "in" || what == "out")
      segment(entry, what == "out");
    else if (what == "upload")
      peers().next += count(line, 1), expect(entry, {}); // by Wi-Fi, seen by no module
    else if (what == "link")
      link(line), expect(entry, {});
    else if (what == "address")
      address(line), expect(entry, {});
    else if (what == "radio")
    {
      if (word(line, 1) != "on" && word(line, 1) != "off") fail(line, "on or off");
      damage_.listening = word(line, 1) == "on";
      expect(entry, {});
    }
    else if (what == "signal")
      signal(line), expect(entry, {});
    else if (what == "damaged")
      damage_.add(fixture_->now() - ms(line.words.size() > 1 ? number(line, 1) : 0)), expect(entry, {});
    else if (what == "content")
      content(line), expect(entry, {});
    else if (what == "sender")
      sender(line), expect(entry, {});
    else if (what == "path")
      path(line), expect(entry, {});
    else if (what == "fetched")
      fetched(line), expect(entry, {});
    else if (what == "set")
      set(line), expect(entry, {});
    else if (what == "module")
    {
      if (word(line, 2) != "on" && word(line, 2) != "off") fail(line, "on or off");
      fixture_->chain.enable(slot(line, word(line, 1)), word(line, 2) == "on", fixture_->now());
      expect(entry, {});
    }
    else if (what == "flow")
    {
      current_ = word(line, 1);
      if (!flows_.contains(current_))
      {
        Flow fresh = first_;
        fresh.peers.key.local_port = static_cast<std::uint16_t>(40'000 + flows_.size());
        flows_[current_] = fresh;
      }
    }
    else if (what == "facts")
      facts(entry);
    else if (what == "wait" || what == "alarm" || what == "alarms")
      expect(entry, {});
    else
      fail(line, "no such event");
  }

  void link(const Line& line)
  {
    if (word(line, 1) != "wifi" && word(line, 1) != "cell") fail(line, "a link is wifi or cell");
    LinkState& state = fixture_->links[static_cast<std::size_t>(word(line, 1) == "wifi" ? Link::wifi : Link::cell)];
    const std::string& how = word(line, 2);
    if (how == "up" || how == "down")
      state.up = how == "up";
    else if (how == "route" || how == "no-route")
      state.route = state.route_v6 = how == "route";
    else if (how == "risk" || how == "no-risk")
      state.at_risk = how == "risk";
    else if (how == "keeps-frames" || how == "keeps-no-frames")
      state.keeps_frames = how == "keeps-frames";
    else
      fail(line, "up, down, route, no-route, risk, no-risk, keeps-frames or keeps-no-frames");
    state.changed = fixture_->now();
    fixture_->chain.links(fixture_->links, fixture_->now());
  }

  void signal(const Line& line)
  {
    RadioState state { .signal = static_cast<float>(number(line, 1)) };
    if (line.words.size() > 2)
    {
      if (word(line, 2) != "candidate") fail(line, "signal DBM [candidate DBM]");
      state.candidate = static_cast<float>(number(line, 3));
    }
    fixture_->links[static_cast<std::size_t>(Link::wifi)].radio = state; // for changes of links to come
    fixture_->chain.radio(Link::wifi, state, fixture_->now());
  }

  // The link that owns the flows' local address from now on.
  void address(const Line& line)
  {
    const std::string& owner = word(line, 1);
    if (owner != "wifi" && owner != "cell" && owner != "nowhere") fail(line, "wifi, cell or nowhere");
    const Link link = owner == "wifi" ? Link::wifi : owner == "cell" ? Link::cell : Link::other;
    fixture_->chain.links(fixture_->links, fixture_->now(), [link](const Address&) { return link; });
  }

  // What is told of other flows to the same servers.
  void path(const Line& line)
  {
    FlowView& view = fixture_->flow(peers()).view;
    if (word(line, 1) != "known" && word(line, 1) != "unknown") fail(line, "known MS, or unknown");
    view.cell_path_known.reset();
    if (word(line, 1) == "known") view.cell_path_known = ms(number(line, 2));
  }

  void content(const Line& line)
  {
    const std::string& what = word(line, 1);
    for (const Content one : { Content::unknown, Content::http, Content::refused })
      if (what == name(one)) return fixture_->chain.content(peers().key, one, "as the script says");
    fail(line, "unknown, http or refused");
  }

  void sender(const Line& line)
  {
    const std::string& what = word(line, 1);
    for (const SenderKind one :
         { SenderKind::unknown, SenderKind::loss_based, SenderKind::rate_based, SenderKind::unresponsive })
      if (what == name(one))
      {
        fixture_->flow(peers()).view.sender = { .kind = one, .confidence = 99, .why = "as the script says" };
        return;
      }
    fail(line, "unknown, loss-based, rate-based or unresponsive");
  }

  // fetched FROM-TO ok|failed|refused: the answer to the newest fetch of these bytes.
  void fetched(const Line& line)
  {
    const SackBlock range = block(line, word(line, 1), peers().remote_isn);
    const auto& asked = fixture_->actions.asked;
    const auto at =
        std::find_if(asked.rbegin(), asked.rend(),
                     [&](const Asked& a) { return a.fetch.from == range.left && a.fetch.to == range.right; });
    if (at == asked.rend()) fail(line, "nobody asked for these bytes");
    const std::string& how = word(line, 2);
    if (how != "ok" && how != "failed" && how != "refused") fail(line, "ok, failed or refused");
    const Asked one = *at;
    fixture_->chain.fetched(one.flow, one.slot,
                            { .how = one.fetch.how,
                              .from = one.fetch.from,
                              .to = one.fetch.to,
                              .ok = how == "ok",
                              .why = how == "ok" ? "" : "as the script says",
                              .final = how == "refused",
                              .took = fixture_->now() - one.at },
                            static_cast<std::uint32_t>(range.right - range.left), fixture_->now());
  }

  // download N every MS [rtt MS] [len BYTES] [queue MS]: arrivals and their ACKs. All pass untouched, unless `> any`.
  void download(const Entry& entry)
  {
    const Line& line = entry.line;
    std::uint32_t length = 2896;
    Flow& f = flow();
    Duration queue = f.queue;
    for (std::size_t i = 4; i < line.words.size(); i += 2)
      if (line.words[i] == "rtt")
        f.rtt = ms(number(line, i + 1)) + f.queue;
      else if (line.words[i] == "len")
        length = count(line, i + 1);
      else if (line.words[i] == "queue")
        queue = ms(number(line, i + 1));
      else
        fail(line, "rtt, len or queue");
    if (word(line, 2) != "every") fail(line, "download N every MS");
    const int times = static_cast<int>(count(line, 1));
    int touched = 0;
    // The queue fills, or drains, evenly.
    for (int i = 0; i < times; ++i)
    {
      const Duration step = (queue - f.queue) / (times - i);
      f.queue += step, f.rtt += step, f.peers.downlink += step;
      touched += fixture_->download(f.peers, 1, ms(number(line, 3)), f.rtt, length);
    }
    if (is_any(entry)) return;
    if (touched != 0)
      differences_.push_back(script_.file + ":" + std::to_string(line.number) + ": " + std::to_string(touched)
                             + " ACKs of the download were not passed byte for byte");
    expect(entry, {});
  }

  void segment(const Entry& entry, bool out)
  {
    const Line& line = entry.line;
    const Tick now = fixture_->now();
    Peers& p = peers();
    Segment s = p.bare(out ? Direction::egress : Direction::ingress, tcp_flag::ack, now);
    if (!out && s.timestamps) s.timestamps->echo = p.local_ts(now - flow().rtt);
    bool in_order = true;
    for (std::size_t i = 1; i < line.words.size(); i += 2)
    {
      const std::string& field = line.words[i];
      if (field == "flags")
      {
        const auto flags = flags_of(word(line, i + 1));
        if (!flags) fail(line, "flags are letters of SFRP.UEWe");
        s.flags = *flags;
      }
      else if (field == "len")
        s.payload_length = count(line, i + 1);
      else if (field == "win")
        s.window = static_cast<std::uint16_t>(count(line, i + 1));
      else if (field == "seq")
      {
        s.seq = (out ? p.local_isn : p.remote_isn) + count(line, i + 1);
        in_order = s.seq == (out ? p.local_isn + p.next : p.remote_isn + p.received);
      }
      else if (field == "ack")
        s.ack = (out ? p.remote_isn : p.local_isn) + count(line, i + 1);
      else if (field == "tsval" && s.timestamps)
        s.timestamps->value = (out ? p.local_clock : p.remote_clock) + count(line, i + 1);
      else if (field == "echo" && s.timestamps && !out)
        s.timestamps->echo = p.local_clock + count(line, i + 1);
      else if (field == "sack")
        sack(line, word(line, i + 1), out ? p.remote_isn : p.local_isn, s);
      else if (field == "ecn")
        s.ecn = word(line, i + 1) == "ce" ? Ecn::ce : word(line, i + 1) == "ect1" ? Ecn::ect1 : Ecn::ect0;
      else if (field == "option" && word(line, i + 1) == "unknown")
        s.options |= option::unknown;
      else if (field == "option" && word(line, i + 1) == "md5")
        s.options |= option::md5;
      else
        fail(line, "no such field \"" + field + "\"");
    }
    const std::optional<chain::Outcome> outcome = fixture_->show(s);
    if (out)
    {
      p.window = s.window;
      // What lay behind a hole counts once that is filled.
      if ((p.remote_isn + p.received).before(s.ack) && s.has(tcp_flag::ack))
        p.received = (s.ack - p.remote_isn.raw).raw;
      if (in_order) p.next += s.payload_length + (s.has(tcp_flag::fin) ? 1u : 0u);
    }
    else
    {
      // RFC 7323 4.3: what lies behind a hole is not echoed.
      if (s.timestamps && s.seq.at_or_before(p.remote_isn + p.received) && s.timestamps->value.at_or_after(p.recent))
        p.recent = s.timestamps->value;
      if (in_order) p.received += s.payload_length + (s.has(tcp_flag::fin) ? 1u : 0u);
    }
    expect(entry, verdict(s, outcome));
  }

  SackBlock block(const Line& line, const std::string& text, Seq base) const
  {
    unsigned long left = 0, right = 0;
    if (std::sscanf(text.c_str(), "%lu-%lu", &left, &right) != 2) fail(line, "bytes are LEFT-RIGHT");
    return { base + static_cast<std::uint32_t>(left), base + static_cast<std::uint32_t>(right) };
  }

  void sack(const Line& line, const std::string& text, Seq base, Segment& s) const
  {
    if (s.sack_count == s.sack_blocks.size()) fail(line, "at most four SACK blocks");
    s.options |= option::sack;
    s.sack_blocks[s.sack_count++] = block(line, text, base);
  }

  void facts(const Entry& entry)
  {
    const std::size_t i = slot(entry.line, word(entry.line, 1));
    FactFields found {};
    flow::Flow& f = fixture_->flow(peers());
    if ((f.begun >> i & 1) != 0)
      fixture_->chain.module(i).describe(f.view, std::as_const(fixture_->chain).state(f, i), found);
    for (const Line& line : entry.expected)
    {
      const std::string was = found.all.contains(line.words[0]) ? found.all[line.words[0]] : "(no such fact)";
      if (was != word(line, 1))
        differences_.push_back(at(line) + "\n  - > " + line.words[0] + " " + line.words[1] + "\n  + > " + line.words[0]
                               + " " + was);
    }
  }

  // ---- what came out ----

  std::string relative(Seq number, Seq base) const { return std::to_string((number - base.raw).raw); }

  Fields verdict(const Segment& s, const std::optional<chain::Outcome>& outcome) const
  {
    const Peers& p = flows_.at(current_).peers;
    if (!outcome) return { { "", "unseen" } };
    Fields f { { "", outcome->verdict == Verdict::drop ? "drop" : "pass" } };
    const bool out = s.direction == Direction::egress;
    if (outcome->verdict == Verdict::pass)
    {
      const Edit& e = outcome->edit;
      if (e.ack) f["ack"] = relative(*e.ack, out ? p.remote_isn : p.local_isn);
      if (e.window) f["win"] = std::to_string(*e.window);
      if (e.ts_value) f["tsval"] = std::to_string((*e.ts_value - (out ? p.local_clock : p.remote_clock).raw).raw);
      if (e.ts_echo) f["tsecr"] = std::to_string((*e.ts_echo - (out ? p.remote_clock : p.local_clock).raw).raw);
      if (e.ecn)
        f["ecn"] = *e.ecn == Ecn::ce ? "ce" : *e.ecn == Ecn::ect0 ? "ect0" : *e.ecn == Ecn::ect1 ? "ect1" : "no";
      if (e.route) f["route"] = name(*e.route);
    }
    if (!outcome->why.empty()) f["why"] = outcome->why;
    return f;
  }

  const Peers& peers_of(std::uint64_t id) const
  {
    for (const auto& [flow_name, candidate] : flows_)
      if (const flow::Flow* f = fixture_->chain.table().find(candidate.peers.key); f != nullptr && f->view.id == id)
        return candidate.peers;
    return flows_.at(current_).peers;
  }

  std::string range_text(Seq left, Seq right, const Peers& p) const
  {
    return relative(left, p.remote_isn) + "-" + relative(right, p.remote_isn);
  }

  Fields fetch_fields(const Asked& one) const
  {
    Fields f { { "", "fetch " + std::string { name(one.fetch.how) } },
               { "bytes", range_text(one.fetch.from, one.fetch.to, peers_of(one.flow)) } };
    if (!one.why.empty()) f["why"] = one.why;
    return f;
  }

  Fields injected_fields(const InjectedRecord& one) const
  {
    const Peers* p = &peers_of(one.flow);
    const InjectedSegment& c = one.segment;
    Fields f { { "", c.kind == InjectedKind::ack               ? "inject ack"
                     : c.kind == InjectedKind::fill            ? "inject fill"
                     : c.kind == InjectedKind::own_syn         ? "inject own SYN"
                     : c.kind == InjectedKind::own_unreachable ? "inject own unreachable"
                                                               : "inject unreachable" },
               { "by", std::string { name(c.by) } } };
    if (c.kind == InjectedKind::ack)
    {
      f["ack"] = relative(c.ack, p->remote_isn);
      f["seq"] = relative(c.seq, p->local_isn);
      f["win"] = std::to_string(c.window);
      if (c.timestamps)
      {
        f["tsval"] = std::to_string((c.timestamps->value - p->local_clock.raw).raw);
        f["tsecr"] = std::to_string((c.timestamps->echo - p->remote_clock.raw).raw);
      }
      for (std::size_t i = 0; i < c.sack_count && i < c.sack_blocks.size(); ++i)
        f["sack"] += (i == 0 ? "" : ",") + range_text(c.sack_blocks[i].left, c.sack_blocks[i].right, *p);
      if (c.flags != tcp_flag::ack) f["flags"] = (c.flags & tcp_flag::ece) != 0 ? ".E" : "other";
    }
    else if (c.kind == InjectedKind::fill)
      f["bytes"] = range_text(c.seq, c.seq + c.length, *p);
    else
      f["seq"] = relative(c.seq, p->remote_isn);
    if (!one.why.empty()) f["why"] = one.why;
    return f;
  }

  static Fields request_fields(const std::pair<LinkRequest, std::string>& one)
  {
    const char* kind = one.first.kind == RequestKind::mptcp_backup     ? "request mptcp_backup"
                       : one.first.kind == RequestKind::mptcp_endpoint ? "request mptcp_endpoint"
                       : one.first.kind == RequestKind::roam           ? "request roam"
                                                                       : "request ce_rate";
    return { { "", kind },
             { "link", std::string { name(one.first.link) } },
             { "value", ms_text(one.first.value) },
             { "why", one.second } };
  }

  std::string at(const Line& line) const
  {
    return script_.file + ":" + std::to_string(line.number) + ": at " + ms_text(fixture_->now()) + " ms: ";
  }

  static bool is_any(const Entry& entry) { return entry.expected.size() == 1 && entry.expected[0].words[0] == "any"; }

  Fields parse(const Line& line) const
  {
    Fields f {};
    std::size_t i = 1;
    f[""] = line.words[0];
    if (f[""] == "inject" || f[""] == "request" || f[""] == "fetch") f[""] += " " + word(line, i++);
    if (f[""] == "why")
    {
      f[""] = "pass";
      i = 0;
    }
    for (; i < line.words.size(); i += 2)
    {
      if (line.words[i] == "sack" && f.contains("sack"))
        f["sack"] += "," + word(line, i + 1);
      else
        f[line.words[i]] = word(line, i + 1);
    }
    return f;
  }

  // A verdict must have exactly the fields that are written; of injected segments and requests those are compared that
  // are written. A reason is compared when it is written.
  static bool same(const Fields& expected, const Fields& was)
  {
    const bool exact = expected.at("") == "pass" || expected.at("") == "drop" || expected.at("") == "unseen";
    for (const auto& [key, value] : expected)
      if (!was.contains(key) || was.at(key) != value) return false;
    if (exact)
      for (const auto& [key, value] : was)
        if (key != "why" && !expected.contains(key)) return false;
    return true;
  }

  void expect(const Entry& entry, const Fields& verdict_was)
  {
    if (is_any(entry)) return;
    std::vector<Fields> was {};
    if (!verdict_was.empty()) was.push_back(verdict_was);
    for (std::size_t i = injected_; i < fixture_->actions.injected.size(); ++i)
      was.push_back(injected_fields(fixture_->actions.injected[i]));
    for (std::size_t i = requested_; i < fixture_->actions.requests.size(); ++i)
      was.push_back(request_fields(fixture_->actions.requests[i]));
    for (std::size_t i = asked_; i < fixture_->actions.asked.size(); ++i)
      was.push_back(fetch_fields(fixture_->actions.asked[i]));

    std::vector<Fields> expected {};
    for (const Line& line : entry.expected)
      expected.push_back(parse(line));
    // An event without a written verdict passes byte for byte.
    const auto is_verdict = [](const Fields& f)
    { return f.at("") == "pass" || f.at("") == "drop" || f.at("") == "unseen"; };
    if (!verdict_was.empty() && std::none_of(expected.begin(), expected.end(), is_verdict))
      expected.insert(expected.begin(), Fields { { "", verdict_was.at("") == "unseen" ? "unseen" : "pass" } });

    const bool equal = was.size() == expected.size() && std::equal(expected.begin(), expected.end(), was.begin(), same);
    if (equal) return;
    std::string text = at(entry.line) + entry.line.text;
    for (std::size_t i = 0; i < std::max(was.size(), expected.size()); ++i)
    {
      if (i < was.size() && i < expected.size() && same(expected[i], was[i]))
      {
        text += "\n    > " + text_of(was[i]);
        continue;
      }
      if (i < expected.size()) text += "\n  - > " + text_of(expected[i]);
      if (i < was.size()) text += "\n  + > " + text_of(was[i]);
    }
    differences_.push_back(text);
  }

  // Alarms fire at their own times. Those that send something must be in the script as `TIME alarm`, right to the
  // millisecond. `TIME alarms` takes all up to its time together.
  void alarms_until(Tick until, const std::string& event)
  {
    const bool alarm_expected = event == "alarm";
    const auto something = [&]
    {
      return injected_ < fixture_->actions.injected.size() || requested_ < fixture_->actions.requests.size()
             || asked_ < fixture_->actions.asked.size();
    };
    const Tick end = alarm_expected ? until + ms(1) : until;
    while (fixture_->now() < end)
    {
      fixture_->actions.now = std::min(fixture_->chain.advance(fixture_->now()), end);
      fixture_->chain.advance(fixture_->now());
      if (alarm_expected && something() && fixture_->now() >= until - ms(1)) return;
      // At the very time of the next event: its injected segments are compared with that event.
      if (!alarm_expected && fixture_->now() == until) return;
      if (event == "alarms") continue;
      for (; injected_ < fixture_->actions.injected.size(); ++injected_)
        unexpected(injected_fields(fixture_->actions.injected[injected_]));
      for (; requested_ < fixture_->actions.requests.size(); ++requested_)
        unexpected(request_fields(fixture_->actions.requests[requested_]));
      for (; asked_ < fixture_->actions.asked.size(); ++asked_)
        unexpected(fetch_fields(fixture_->actions.asked[asked_]));
    }
  }

  void unexpected(const Fields& fields)
  {
    differences_.push_back(script_.file + ": not in the script:\n  + " + ms_text(fixture_->now()) + " alarm\n  +     > "
                           + text_of(fields));
  }

  const Script& script_;
  chain::Chain::Options options_ {};
  bool violations_allowed_ = false;
  std::uint64_t unacceptable_ = 0;
  std::vector<const Line*> knobs_ {};
  daemon::LoadedModules loaded_ {};
  std::vector<std::shared_ptr<Module>> owned_ {};
  std::unique_ptr<Fixture> fixture_ {};
  Flow first_ {};
  std::map<std::string, Flow> flows_ {};
  std::string current_ = "a";
  DamageLog damage_ {};
  std::size_t injected_ = 0, requested_ = 0, asked_ = 0;
  std::vector<std::string> differences_ {};
};

} // namespace

std::vector<std::string> play(const Script& script, const std::vector<std::string>& libraries)
{
  return Player { script, libraries }.play();
}

} // namespace tandem::golden
