#include "src/control/router.h"

#include "src/control/dashboard.h"
#include "src/control/prometheus.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <utility>
#include <vector>

namespace tandem::control
{

using nlohmann::json;

namespace
{

std::string dumped(const json& value)
{
  // Facts may carry bytes of packets: replaced rather than refused when they are no UTF-8.
  return value.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

// A module's name, a knob, a value: whatever a client typed, on one line of the log.
std::string for_log(std::string_view text)
{
  constexpr std::size_t longest = 80;
  std::string out = "\"";
  for (const char c : text.substr(0, longest))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '"' ? '?' : c;
  return out + (text.size() > longest ? "...\"" : "\"");
}

Answer ok(const json& value)
{
  return { .body = dumped(value) };
}

Answer method_not_allowed(const std::string& allow)
{
  Answer answer = error(405, "only " + allow + " is possible here");
  answer.allow = allow;
  return answer;
}

// Parts of the path, without the query.
std::vector<std::string> split_path(std::string_view target)
{
  target = target.substr(0, target.find('?'));
  std::vector<std::string> parts;
  while (!target.empty())
  {
    target.remove_prefix(1); // the slash
    const std::size_t slash = std::min(target.find('/'), target.size());
    parts.emplace_back(target.substr(0, slash));
    target.remove_prefix(slash);
  }
  return parts;
}

// Of "?last_s=30" or "?after=1200"; all without a query. Throws Refused with words.
Part part_of(std::string_view target)
{
  const std::size_t question = target.find('?');
  if (question == std::string_view::npos) return {};
  const std::string_view query = target.substr(question + 1);
  const auto read = [query](std::string_view key, auto& value)
  {
    if (!query.starts_with(key)) return false;
    const auto [end, fault] = std::from_chars(query.data() + key.size(), query.data() + query.size(), value);
    return fault == std::errc {} && end == query.data() + query.size();
  };
  double last_s = 0;
  if (read("last_s=", last_s) && last_s > 0 && last_s <= 3600) return { .last = from_seconds(last_s) };
  if (std::uint64_t after = 0; read("after=", after)) return { .after = after };
  throw Refused { Refused::Kind::bad_request,
                  "?last_s=SECONDS is possible here, above 0 and up to 3600, or ?after=ENTRIES" };
}

std::string object_with(const std::string& key)
{
  return "a JSON object such as {\"" + key + "\": ...} is needed";
}

// The JSON in `body`, which is to have a member `key`. Throws Refused with words.
json parsed(const std::string& body, const std::string& key)
{
  const std::string wanted = object_with(key);
  try
  {
    return json::parse(body);
  }
  catch (const json::parse_error& fault)
  {
    throw Refused { Refused::Kind::bad_request,
                    "the request's body is not JSON (at byte " + std::to_string(fault.byte) + "); " + wanted };
  }
  catch (const json::out_of_range&)
  {
    throw Refused { Refused::Kind::bad_request, "a number in the request's body is beyond what can be; " + wanted };
  }
}

// The one member `key` of the object, which must have no other. Throws Refused with words.
json only_member(const json& object, const std::string& key)
{
  if (!object.is_object() || object.size() != 1 || !object.contains(key))
    throw Refused { Refused::Kind::bad_request, object_with(key) };
  return object[key];
}

struct Change
{
  json value;
  bool save = false;
};

// Takes a member that may be left out, which means false. Throws Refused with words.
bool take_flag(json& object, const std::string& key)
{
  if (!object.is_object() || !object.contains(key)) return false;
  if (!object[key].is_boolean()) throw Refused { Refused::Kind::bad_request, key + ": true or false is needed" };
  const bool flag = object[key];
  object.erase(key);
  return flag;
}

// The member `key` of the object, and `save` where it is there, too. Throws Refused with words.
Change change_of(json object, const std::string& key)
{
  const bool save = take_flag(object, "save");
  return { only_member(object, key), save };
}

// Pages of other origins must not read what the browser's machine offers on loopback: a name that resolves to
// 127.0.0.1 (DNS rebinding) is told by its Host header.
bool is_loopback_host(std::string_view host)
{
  if (host.starts_with("[::1]")) return true;
  const std::string_view name = host.substr(0, host.find(':'));
  return name == "localhost"
         || (name.starts_with("127.") && name.find_first_not_of("0123456789.") == std::string_view::npos);
}

bool reading(const Request& request)
{
  return request.method == "GET" || request.method == "HEAD";
}

} // namespace

Answer error(unsigned status, const std::string& words)
{
  return { .status = status, .body = dumped({ { "error", words } }) };
}

Answer Router::answer(const Request& request)
{
  try
  {
    if (!request.local)
    {
      if (!is_loopback_host(request.host))
        return error(403, "the Host header must name this machine: 127.0.0.1, [::1] or localhost");
      // Any user of this machine can connect: nobody else's connections, networks or packets are shown to him.
      if (!reading(request) || request.target.rfind("/metrics", 0) != 0)
        return error(403, "TCP answers /metrics only; the rest is on the control socket (see `tandem dashboard`)");
    }
    return route(request);
  }
  catch (const Refused& refused)
  {
    switch (refused.kind)
    {
    case Refused::Kind::bad_request:
      return error(400, refused.what());
    case Refused::Kind::conflict:
      return error(409, refused.what());
    case Refused::Kind::busy:
      return error(503, refused.what());
    }
    return error(500, refused.what());
  }
  catch (const std::exception& fault)
  {
    return error(500, fault.what());
  }
}

bool Router::takes_long(const Request& request)
{
  return request.local && reading(request) && split_path(request.target) == std::vector<std::string> { "v1", "doctor" };
}

void Router::log(const Request& request, const std::string& what, const std::string& module) const
{
  if (log_) log_("control: " + request.who + " " + what, module);
}

Answer Router::route(const Request& request)
{
  if (request.target.empty() || request.target.front() != '/') return error(400, "the request's target must be a path");
  const std::vector<std::string> path = split_path(request.target);
  const bool reads = reading(request);
  const bool writing = request.method == "PUT";
  const auto is = [&](std::initializer_list<std::string_view> wanted)
  { return std::equal(path.begin(), path.end(), wanted.begin(), wanted.end()); };

  if (path.size() >= 3 && path[0] == "v1" && path[1] == "modules")
  {
    const std::string& module = path[2];
    if (path.size() == 3) return writing ? put_module(request, module) : method_not_allowed("PUT");
    if (path.size() == 4 && path[3] == "manual")
      return reads ? Answer { .type = "text/markdown; charset=utf-8", .body = backend_.manual(module) }
                   : method_not_allowed("GET");
    if (path.size() == 5 && path[3] == "knobs")
      return writing ? put_knob(request, module, path[4]) : method_not_allowed("PUT");
  }

  if (is({ "v1", "links", "wifi", "announce" }))
    return request.method == "POST" ? announce(request) : method_not_allowed("POST");
  if (is({ "" }))
    return reads ? Answer { .type = "text/html; charset=utf-8", .body = std::string { dashboard_page } }
                 : method_not_allowed("GET");
  if (is({ "metrics" })) return reads ? metrics() : method_not_allowed("GET");
  if (is({ "v1", "status" })) return reads ? ok(backend_.status()) : method_not_allowed("GET");
  if (is({ "v1", "modules" })) return reads ? ok(backend_.modules()) : method_not_allowed("GET");
  if (is({ "v1", "links" })) return reads ? ok(backend_.links()) : method_not_allowed("GET");
  if (is({ "v1", "budget" })) return reads ? ok(backend_.budget()) : method_not_allowed("GET");
  if (is({ "v1", "networks" })) return reads ? ok(backend_.networks()) : method_not_allowed("GET");
  if (is({ "v1", "networks", "forget" }))
    return request.method == "POST" ? forget(request) : method_not_allowed("POST");
  if (is({ "v1", "saved" })) return reads ? ok(backend_.saved()) : method_not_allowed("GET");
  if (is({ "v1", "saved", "forget" }))
    return request.method == "POST" ? forget_saved(request) : method_not_allowed("POST");
  if (is({ "v1", "exclusions" }))
    return request.method == "POST" ? exclude(request, true)
           : reads                  ? ok(backend_.exclusions())
                                    : method_not_allowed("GET, POST");
  if (is({ "v1", "exclusions", "remove" }))
    return request.method == "POST" ? exclude(request, false) : method_not_allowed("POST");
  if ((path.size() == 2 || path.size() == 3) && path[0] == "v1" && path[1] == "aps")
    return aps(request, path.size() == 3 ? path[2] : "");
  if (is({ "v1", "traps" }))
    return request.method == "POST" ? add_trap(request)
           : reads                  ? ok(backend_.traps())
                                    : method_not_allowed("GET, POST");
  if (is({ "v1", "traps", "remove" }))
    return request.method == "POST" ? remove_trap(request) : method_not_allowed("POST");
  if (is({ "v1", "flows" })) return reads ? ok(backend_.flows()) : method_not_allowed("GET");
  if (is({ "v1", "doctor" }) && doctor_) return reads ? ok(doctor_()) : method_not_allowed("GET");
  if (is({ "v1", "recording" })) return reads ? recording(request) : method_not_allowed("GET");
  return error(404, "no such path; docs/control-api.md lists them");
}

Answer Router::metrics()
{
  return { .type = "text/plain; version=0.0.4; charset=utf-8", .body = prometheus_text(backend_.metrics()) };
}

Answer Router::recording(const Request& request)
{
  const Part wanted = part_of(request.target);
  // A live view asks every second.
  if (request.who != taker_) log(request, "takes the recording");
  taker_ = request.who;
  return { .type = "application/vnd.tcpdump.pcap", .body = backend_.recording(wanted) };
}

Answer Router::announce(const Request& request)
{
  const std::string wanted = "a JSON object such as {\"what\": \"risk\", \"for_s\": 0.5} is needed";
  const json object = json::parse(request.body, nullptr, false);
  if (!object.is_object() || !object.contains("what") || !object["what"].is_string()
      || object.size() != 1 + object.count("for_s") || (object.contains("for_s") && !object["for_s"].is_number()))
    throw Refused { Refused::Kind::bad_request, wanted };
  const std::string what = object["what"];
  const double for_s = object.value("for_s", 0.5);
  backend_.announce(what, for_s);
  log(request, "announces " + for_log(what));
  return ok({ { "what", what }, { "for_s", for_s } });
}

Answer Router::forget(const Request& request)
{
  const json object = json::parse(request.body, nullptr, false);
  const bool one = object.is_object() && object.size() == 1 && object.contains("name") && object["name"].is_string();
  const bool all = object == json { { "all", true } };
  if (!one && !all)
    throw Refused { Refused::Kind::bad_request,
                    "a JSON object such as {\"name\": \"home\"} or {\"all\": true} is needed" };
  const std::size_t count = all ? backend_.forget_networks() : backend_.forget_network(object["name"]);
  log(request, "forgets " + (all ? "all networks" : "network " + for_log(object["name"].get<std::string>())));
  return ok({ { "forgotten", count } });
}

Answer Router::forget_saved(const Request& request)
{
  const json object = json::parse(request.body, nullptr, false);
  const bool one = object.is_object() && object.size() == 1 && object.contains("name") && object["name"].is_string();
  const bool all = object == json { { "all", true } };
  if (!one && !all)
    throw Refused { Refused::Kind::bad_request,
                    "a JSON object such as {\"name\": \"offload\"} or {\"all\": true} is needed" };
  const json told = all ? backend_.forget_all_saved() : backend_.forget_saved(object["name"]);
  log(request, "forgets " + (all ? "all saved settings" : "saved " + for_log(object["name"].get<std::string>())));
  return ok({ { "forgotten", told } });
}

Answer Router::exclude(const Request& request, bool add)
{
  const json object = json::parse(request.body, nullptr, false);
  const auto text = [&](const char* key) { return object.contains(key) && object[key].is_string(); };
  if (!object.is_object() || object.size() != 2 || !text("kind") || !text("what"))
    throw Refused { Refused::Kind::bad_request,
                    "a JSON object such as {\"kind\": \"to\", \"what\": \"203.0.113.0/24\"} is needed" };
  const std::string kind = object["kind"], what = object["what"];
  if (what.size() > 255) throw Refused { Refused::Kind::bad_request, "what: at most 255 bytes" };
  const json told = add ? backend_.add_exclusion(kind, what) : backend_.remove_exclusion(kind, what);
  log(request, (add ? "excludes " : "no longer excludes ") + for_log(kind + " " + what));
  return ok(told);
}

Answer Router::aps(const Request& request, const std::string& what)
{
  const bool posted = request.method == "POST";
  if (what.empty() && reading(request)) return ok(backend_.aps());
  if (what.empty() && request.method == "PUT")
  {
    json object = parsed(request.body, "keep");
    const bool several = take_flag(object, "several_channels");
    const auto [keep, save] = change_of(std::move(object), "keep");
    if (!keep.is_number_unsigned()) throw Refused { Refused::Kind::bad_request, "keep: a number is needed" };
    backend_.keep_aps(keep.get<std::uint64_t>(), several, save);
    log(request,
        "keeps " + keep.dump() + " access points" + (several ? " on several channels" : "") + (save ? ", saving" : ""));
    return ok({ { "keep", keep }, { "several_channels", several }, { "saved", save } });
  }
  if (what == "scan" && posted)
  {
    backend_.scan_aps();
    return ok({ { "scan", true } });
  }
  if (what == "roam" && posted)
  {
    const json ap = only_member(parsed(request.body, "ap"), "ap");
    if (!ap.is_string() || ap.get<std::string>().size() > 17)
      throw Refused { Refused::Kind::bad_request, "ap: the address of an access point is needed" };
    backend_.roam(ap.get<std::string>());
    log(request, "roams to " + for_log(ap.get<std::string>()));
    return ok({ { "roam", ap } });
  }
  if (what.empty()) return method_not_allowed("GET, PUT");
  if (what == "scan" || what == "roam") return method_not_allowed("POST");
  return error(404, "no such path; docs/control-api.md lists them");
}

Answer Router::add_trap(const Request& request)
{
  const json object = json::parse(request.body, nullptr, false);
  if (!object.is_object() || !object.contains("when") || !object["when"].is_string()
      || object.size() != 1 + object.count("save") || (object.contains("save") && !object["save"].is_boolean()))
    throw Refused { Refused::Kind::bad_request,
                    "a JSON object such as {\"when\": \"flow.gap > 500ms\", \"save\": true} is needed" };
  const std::string when = object["when"];
  if (when.size() > 200) throw Refused { Refused::Kind::bad_request, "when: at most 200 characters" };
  const bool save = object.value("save", false);
  const std::uint64_t id = backend_.add_trap(when, save);
  log(request, "sets trap " + std::to_string(id) + ": " + for_log(when) + (save ? ", saving" : ""));
  return ok({ { "id", id } });
}

Answer Router::remove_trap(const Request& request)
{
  const json id = only_member(parsed(request.body, "id"), "id");
  if (!id.is_number_unsigned()) throw Refused { Refused::Kind::bad_request, "id: the number of a trap is needed" };
  backend_.remove_trap(id.get<std::uint64_t>());
  log(request, "removes trap " + id.dump());
  return ok({ { "removed", id } });
}

Answer Router::put_module(const Request& request, const std::string& module)
{
  const auto [enabled, save] = change_of(parsed(request.body, "enabled"), "enabled");
  if (!enabled.is_boolean()) throw Refused { Refused::Kind::bad_request, "enabled: true or false is needed" };
  backend_.enable(module, enabled.get<bool>(), save);
  log(request, "switches module " + for_log(module) + (enabled.get<bool>() ? " on" : " off") + (save ? ", saving" : ""),
      module);
  return ok({ { "module", module }, { "enabled", enabled }, { "saved", save } });
}

Answer Router::put_knob(const Request& request, const std::string& module, const std::string& knob)
{
  const auto [value, save] = change_of(parsed(request.body, "value"), "value");
  if (!value.is_string() && !value.is_number() && !value.is_boolean())
    throw Refused { Refused::Kind::bad_request, "value: a text, a number, true or false is needed" };
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.size() > 200) throw Refused { Refused::Kind::bad_request, "value: at most 200 characters" };
  backend_.set(module, knob, text, save);
  log(request, "sets " + for_log(module + "." + knob) + " to " + for_log(text) + (save ? ", saving" : ""), module);
  return ok({ { "module", module }, { "knob", knob }, { "value", text }, { "saved", save } });
}

} // namespace tandem::control
