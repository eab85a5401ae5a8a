// Stands in for the daemon where only steering is of interest: reads plans as JSON, one a line, has a keeper carry them
// out, and answers each with the keeper's state and the time it took.
//   steering_probe [FILE]     FILE: KeeperOptions::steering_file
// Lines: {"plan": {...}} is waited for, {"look": true} just tells the state, {"hang": SECONDS} lets the heartbeat stand
// still. The end of the input is the order to stop.
#include "src/daemon/lock.h"
#include "src/kernel/clock.h"
#include "src/kernel/keeper/keeper.h"

#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <iostream>
#include <string>

using namespace tandem;
using namespace tandem::kernel;
using nlohmann::json;

namespace
{

json tell(const Keeper& keeper)
{
  return { { "steering", keeper.state().steering },
           { "phase", name(keeper.state().phase) },
           { "error", keeper.state().last_error },
           { "keeper", keeper.pid() } };
}

json serve(Keeper& keeper, const json& order)
{
  json out {};
  try
  {
    const Tick start = now();
    if (order.contains("plan")) keeper.set_steering(order.at("plan").get<SteeringPlan>());
    const Tick end = now();
    if (order.contains("hang"))
      for (const Tick until =
               now() + std::chrono::milliseconds { static_cast<int>(1000 * order.at("hang").get<double>()) };
           now() < until;)
        poll(nullptr, 0, 20);
    out = tell(keeper);
    out["seconds"] = std::chrono::duration<double>(end - start).count();
  }
  catch (const std::exception& e)
  {
    out = tell(keeper);
    out["failed"] = e.what();
  }
  return out;
}

int run(const std::string& file)
{
  const daemon::InstanceLock alone { daemon::namespace_lock_file("/run/tandem") };
  Keeper keeper = Keeper::start({ .steering_file = file, .inherited = { alone.descriptor() } });
  std::cout << tell(keeper).dump() << std::endl;
  std::string pending {};
  for (;;)
  {
    std::array<pollfd, 2> polled { pollfd { STDIN_FILENO, POLLIN, 0 }, pollfd { keeper.fd(), POLLIN, 0 } };
    poll(polled.data(), polled.size(), 40);
    keeper.heartbeat();
    keeper.dispatch();
    if (polled[0].revents == 0) continue;
    std::array<char, 65536> buffer;
    const ssize_t length = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (length <= 0) return 0;
    pending.append(buffer.data(), static_cast<std::size_t>(length));
    for (std::size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1))
      std::cout << serve(keeper, json::parse(pending.substr(0, end))).dump() << std::endl;
  }
}

} // namespace

int main(int count, char** words)
{
  try
  {
    return run(count > 1 ? words[1] : "");
  }
  catch (const std::exception& e)
  {
    std::cout << json { { "failed", e.what() } }.dump() << std::endl;
    return 1;
  }
}
