// Runs a topology in real time between TAP devices.
#pragma once

#include "tools/lab/emulator/histogram.h"
#include "tools/lab/emulator/loss_log.h"
#include "tools/lab/emulator/packets.h"
#include "tools/lab/emulator/radiotap.h"
#include "tools/lab/emulator/several_calls.h"
#include "tools/lab/emulator/sockets.h"
#include "tools/lab/emulator/system.h"
#include "tools/lab/emulator/topology.h"

#include <nlohmann/json_fwd.hpp>
#include <time.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tandem::lab
{

struct EngineOptions
{
  std::string prefix = "tdm-"; // of the network namespaces
  std::filesystem::path state; // directory of the sockets
  std::uint64_t seed = 1;
  std::int64_t spin_ns = 0; // busy-wait this long before an event that is near
};

// One device: where it is and what it is called.
struct Device
{
  std::string netns;
  std::string name;
  Mac mac {};
};

// The device of a port. Addresses are fixed: 02:54:44:4d:KK:NN with KK = 01 client Wi-Fi, 02 access point, 03 client
// cellular, 04 cellular gateway, 05 WAN side of a server, 06 server, 07 background station (frames only), NN counting
// from 1.
Device device_of(const Scenario& scenario, const PortId& port, const std::string& prefix);

class Engine
{
public:
  Engine(const Scenario& scenario, const EngineOptions& options);
  ~Engine();

  // Creates the devices; then the air is open. Throws std::system_error.
  void open();
  // Returns when SIGTERM or SIGINT came, or somebody asked to quit.
  void run();

  // The devices as JSON, for the `ready` file.
  std::string describe() const;

private:
  struct Port
  {
    Device device;
    std::unique_ptr<Tap> tap;
    std::uint64_t received = 0, sent = 0, refused = 0;
    bool to_rewrite = false; // Wi-Fi: the Ethernet destination follows the association
  };

  // A frame on its way out by a device, or a buffer for the next one that comes in.
  struct Slot
  {
    std::size_t port;
    medium::Handle handle;
  };

  Tick now() const { return Tick { Duration { monotonic_ns() - epoch_ } }; }
  void read_port(std::size_t index);
  void take_in(std::size_t index, medium::Handle handle, std::size_t bytes);
  std::optional<std::size_t> interface_of(std::span<const std::byte> frame) const;
  void release();
  void write(std::size_t index, medium::Handle handle);
  void written(std::size_t index, medium::Handle handle, bool taken);
  void make_writes();
  std::size_t wait(std::vector<epoll_event>& events, std::int64_t timeout);
  std::size_t exchange(std::vector<epoll_event>& events, std::int64_t timeout);
  void log_loss(medium::Handle handle, Tick at, std::uint8_t what, const Topology::Place& place);
  void publish_frames();
  void publish_surveys();
  void send_frame_bytes();
  void publish_announcements();
  void command(SocketServer::Peer& peer, std::string_view line);
  nlohmann::json answer(SocketServer::Peer& peer, const nlohmann::json& request);
  nlohmann::json stats() const;
  void update_carrier();

  Scenario scenario_;
  EngineOptions options_;
  Topology topology_;
  PacketPool pool_;
  std::vector<Port> ports_;
  Poll poll_;
  Fd signals_;
  std::unique_ptr<SocketServer> control_;
  std::unique_ptr<SocketServer> frames_;
  std::unique_ptr<LossLog> losses_;
  Unrepaired unrepaired_;
  FrameContext frame_context_;
  std::vector<std::byte> frame_bytes_;
  // Where the kernel makes several calls at once: what waits to be written, and the buffers to read into.
  bool at_once_ = false;
  SeveralCalls calls_;
  std::vector<Slot> writes_;
  std::vector<Slot> reads_;
  timespec timeout_ {};
  std::int64_t epoch_ = 0;
  std::int64_t next_frame_flush_ = 0;
  Histogram release_error_;
  std::uint64_t loops_ = 0;
  std::uint64_t frames_sent_ = 0;
  Tick next_survey_ {};
  std::vector<std::uint8_t> wifi_carriers_;
  bool cell_carrier_ = true;
  bool stop_ = false;
};

} // namespace tandem::lab
