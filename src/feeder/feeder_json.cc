#include "src/feeder/feeder_json.h"

namespace tandem::feeder
{

namespace
{

using nlohmann::json;

template <class T>
void put(json& into, const char* key, const std::optional<T>& value)
{
  if (value) into[key] = *value;
}

void put_ms(json& into, const char* key, const std::optional<Duration>& value)
{
  if (value) into[key] = milliseconds(*value);
}

const char* name(Basis basis)
{
  switch (basis)
  {
  case Basis::frames:
    return "frames";
  case Basis::driver:
    return "driver";
  case Basis::none:
    break;
  }
  return "none";
}

json source_json(const Feeder::Status& status)
{
  json doubts = json::object();
  for (std::size_t i = 0; i < doubt_count; ++i)
    if (status.doubts[i] > 0) doubts[std::string { feeder::name(static_cast<Doubt>(i)) }] = status.doubts[i];
  json out { { "name", status.name },       { "state", name(status.state) }, { "reports", status.reports },
             { "skipped", status.skipped }, { "limited", status.limited },   { "stale", status.stale },
             { "rejected", doubts } };
  if (!status.problem.empty()) out["problem"] = status.problem;
  if (status.age) out["age_s"] = seconds(*status.age);
  return out;
}

json ap_json(const ApEstimate& estimate, const Feeder& feeder, bool current)
{
  json out { { "ap", text(estimate.ap) },
             { "associated", feeder.ap() == estimate.ap },
             { "fresh", current || estimate.basis == Basis::none },
             { "basis", name(estimate.basis) },
             { "confidence", estimate.confidence } };
  if (const auto known = feeder.candidates().find(estimate.ap); known != feeder.candidates().end())
  {
    out["ssid"] = ssid_json(known->second.candidate.ssid);
    out["frequency_mhz"] = known->second.candidate.frequency;
  }
  if (estimate.packet_time) out["packet_time_us"] = milliseconds(*estimate.packet_time) * 1e3;
  put(out, "delivery", estimate.delivery);
  put(out, "mbps", estimate.mbps);
  put(out, "mcs", estimate.mcs);
  put(out, "signal_dbm", estimate.signal);
  put(out, "beacon_loss", estimate.beacon_loss);
  if (estimate.basis == Basis::frames)
    out.update({ { "first", estimate.first },
                 { "retried", estimate.retried },
                 { "lost", estimate.lost },
                 { "hidden_terminal", estimate.hidden_terminal } });
  return out;
}

} // namespace

json ssid_json(const std::string& bytes)
{
  return json::parse(json(bytes).dump(-1, ' ', false, json::error_handler_t::replace));
}

json wifi_json(const Feeder& feeder, Tick now)
{
  json out { { "sources", json::array() },    { "aps", json::array() },
             { "surveys", json::array() },    { "candidates", json::array() },
             { "interfaces", json::array() }, { "signal_validated", feeder.signal_validated() } };
  for (const Feeder::Status& status : feeder.status(now))
    out["sources"].push_back(source_json(status));
  const auto current = feeder.current();
  for (const ApEstimate& estimate : feeder.estimator().all())
    out["aps"].push_back(ap_json(estimate, feeder, current && current->ap == estimate.ap));
  for (const auto& [frequency, survey] : feeder.surveys())
  {
    json one { { "frequency_mhz", frequency }, { "in_use", survey.in_use } };
    put(one, "noise_dbm", survey.noise);
    put_ms(one, "active_ms", survey.active);
    put_ms(one, "busy_ms", survey.busy);
    put_ms(one, "receiving_ms", survey.receiving);
    put_ms(one, "sending_ms", survey.sending);
    out["surveys"].push_back(std::move(one));
  }
  for (const auto& [mac, known] : feeder.candidates())
  {
    json one { { "ap", text(mac) },
               { "ssid", ssid_json(known.candidate.ssid) },
               { "frequency_mhz", known.candidate.frequency },
               { "associated", known.candidate.associated } };
    put(one, "signal_dbm", known.candidate.signal);
    if (known.candidate.age) one["age_s"] = seconds(now - known.heard());
    out["candidates"].push_back(std::move(one));
  }
  for (const auto& [interface, state] : feeder.interfaces())
    out["interfaces"].push_back({ { "interface", interface }, { "up", state.up }, { "carrier", state.carrier } });
  return out;
}

json modems_json(const Feeder& feeder)
{
  json out = json::array();
  for (const auto& [path, modem] : feeder.modems())
  {
    json one { { "modem", path } };
    put(one, "state", modem.state);
    put(one, "technology", modem.technology);
    put(one, "rssi_dbm", modem.rssi);
    put(one, "rsrp_dbm", modem.rsrp);
    put(one, "rsrq_db", modem.rsrq);
    put(one, "snr_db", modem.snr);
    put(one, "quality", modem.quality);
    out.push_back(std::move(one));
  }
  return out;
}

} // namespace tandem::feeder
