#include "src/kernel/mptcp/steering.h"

#include "src/kernel/rules/rules.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <set>
#include <stdexcept>

namespace tandem::kernel
{

namespace
{

[[noreturn]] void refuse(const std::string& field, const std::string& value, const std::string& allowed)
{
  throw std::invalid_argument { field + ": \"" + value + "\" is not allowed: " + allowed };
}

} // namespace

void validate(const SteeringPlan& plan)
{
  if (plan.ce.size() > most_steered || plan.paths.size() > most_steered)
    refuse("steering", std::to_string(std::max(plan.ce.size(), plan.paths.size())) + " interfaces",
           "at most " + std::to_string(most_steered));
  std::set<std::string> seen {};
  for (const CeRule& rule : plan.ce)
  {
    check_interface("ce", rule.interface);
    if (!seen.insert(rule.interface).second) refuse("ce", rule.interface, "each interface once");
    if (!(rule.rate >= 0 && rule.rate <= 1)) refuse("ce rate", std::to_string(rule.rate), "0 to 1");
  }
  seen.clear();
  for (const SteeringPath& path : plan.paths)
  {
    check_interface("path", path.interface);
    if (path.addresses.size() > most_path_addresses)
      refuse("path " + path.interface, std::to_string(path.addresses.size()) + " addresses",
             "at most " + std::to_string(most_path_addresses));
    for (const std::string& address : path.addresses)
    {
      check_address("path " + path.interface, address);
      if (!seen.insert(address).second) refuse("path " + path.interface, address, "each address once");
    }
  }
}

static void to_json(nlohmann::json& json, const CeRule& rule)
{
  json = { { "interface", rule.interface }, { "rate", rule.rate } };
}

static void from_json(const nlohmann::json& json, CeRule& rule)
{
  rule.interface = json.at("interface");
  rule.rate = json.at("rate");
}

static void to_json(nlohmann::json& json, const SteeringPath& path)
{
  json = { { "interface", path.interface },
           { "addresses", path.addresses },
           { "endpoint", path.endpoint },
           { "backup", path.backup } };
}

static void from_json(const nlohmann::json& json, SteeringPath& path)
{
  path.interface = json.at("interface");
  path.addresses = json.at("addresses").get<std::vector<std::string>>();
  path.endpoint = json.at("endpoint");
  path.backup = json.at("backup");
}

static void to_json(nlohmann::json& json, const MptcpEndpoint& endpoint)
{
  json = { { "address", endpoint.address },    { "port", endpoint.port },   { "id", endpoint.id },
           { "ifindex", endpoint.ifindex },    { "flags", endpoint.flags }, { "own", endpoint.own },
           { "interface", endpoint.interface } };
}

static void from_json(const nlohmann::json& json, MptcpEndpoint& endpoint)
{
  endpoint.address = json.at("address");
  endpoint.port = json.at("port");
  endpoint.id = json.at("id");
  endpoint.ifindex = json.at("ifindex");
  endpoint.flags = json.at("flags");
  endpoint.own = json.at("own");
  endpoint.interface = json.at("interface");
}

static void to_json(nlohmann::json& json, const RefusedWish& wish)
{
  json = { { "what", wish.what }, { "why", wish.why } };
}

static void from_json(const nlohmann::json& json, RefusedWish& wish)
{
  wish.what = json.at("what");
  wish.why = json.at("why");
}

void to_json(nlohmann::json& json, const SteeringPlan& plan)
{
  json = { { "ce", plan.ce }, { "paths", plan.paths }, { "setup", plan.setup }, { "foreign", plan.foreign } };
}

void from_json(const nlohmann::json& json, SteeringPlan& plan)
{
  plan.ce = json.at("ce").get<std::vector<CeRule>>();
  plan.paths = json.at("paths").get<std::vector<SteeringPath>>();
  plan.setup = json.at("setup");
  plan.foreign = json.at("foreign");
}

void to_json(nlohmann::json& json, const SteeringState& state)
{
  json = { { "ce_backend", state.ce_backend },
           { "ce_why", state.ce_why },
           { "ce", state.ce },
           { "mptcp_why", state.mptcp_why },
           { "endpoints", state.endpoints },
           { "limit_subflows", state.limit_subflows },
           { "limit_add_addr", state.limit_add_addr },
           { "refused", state.refused },
           { "recovered", state.recovered },
           { "last_error", state.last_error },
           { "suspended", state.suspended },
           { "plans", state.plans },
           { "ce_changes", state.ce_changes },
           { "flag_changes", state.flag_changes },
           { "endpoints_added", state.endpoints_added },
           { "endpoints_deleted", state.endpoints_deleted } };
}

void from_json(const nlohmann::json& json, SteeringState& state)
{
  state.ce_backend = json.at("ce_backend");
  state.ce_why = json.at("ce_why");
  state.ce = json.at("ce").get<std::vector<CeRule>>();
  state.mptcp_why = json.at("mptcp_why");
  state.endpoints = json.at("endpoints").get<std::vector<MptcpEndpoint>>();
  state.limit_subflows = json.at("limit_subflows");
  state.limit_add_addr = json.at("limit_add_addr");
  state.refused = json.at("refused").get<std::vector<RefusedWish>>();
  state.recovered = json.at("recovered");
  state.last_error = json.at("last_error");
  state.suspended = json.at("suspended");
  state.plans = json.at("plans");
  state.ce_changes = json.at("ce_changes");
  state.flag_changes = json.at("flag_changes");
  state.endpoints_added = json.at("endpoints_added");
  state.endpoints_deleted = json.at("endpoints_deleted");
}

} // namespace tandem::kernel
