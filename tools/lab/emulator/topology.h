// The whole lab as one model: the Wi-Fi air and all pipes, what the scenario's timeline does to them, in handed-in
// time. No I/O.
#pragma once

#include "tools/lab/emulator/scenario.h"
#include "tools/lab/medium/air.h"
#include "tools/lab/medium/pipe.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem::lab
{

// The ends where packets enter and leave.
struct PortId
{
  enum class Kind : std::uint8_t
  {
    client_wifi,
    ap,
    client_cell,
    gateway_cell,
    wan,    // WAN side of a server's pipe
    server, // server side
  };
  Kind kind = Kind::client_wifi;
  std::size_t index = 0; // access point or server

  bool operator==(const PortId&) const = default;
};

// Something that the timeline or a `set` did, for those who listen.
struct Announcement
{
  std::string what;
  bool begin = true; // false: the end of an event that had a length
  Tick at {};
  std::string detail {};       // mode, access point, value: for people
  std::string access_point {}; // handoff and signal
  std::string interface {
  };                 // handoff, and a blackout of one interface
  bool value = true; // nat and source_filter
};

class Topology
{
public:
  Topology(const Scenario& scenario, std::uint64_t seed);

  const std::vector<PortId>& ports() const { return ports_; }

  // As for the medium: in order of time, run_until(now) before submit(now).
  // `interface`: which one of the client's a packet from an access point is for; empty: the one that is there.
  void submit(Tick now, std::size_t port, medium::Packet packet, std::optional<std::size_t> interface = {});
  Tick next_event() const;
  // Afterwards deliveries() and drops() hold what came out; the caller clears them by done().
  void run_until(Tick now);

  // Where on its way a packet was.
  struct Place
  {
    std::uint8_t link = 0; // 0 Wi-Fi, 1 cellular, 2 and on: the servers' WAN pipes
    bool down = false;     // towards the client
    std::uint32_t queued = 0;
    std::uint64_t queued_bytes = 0;
  };
  struct Arrival
  {
    medium::Handle handle = 0;
    std::size_t port = 0;
    Tick at {};
    bool mark = false;
    Place place {}; // of the mark
  };
  struct Loss
  {
    medium::Handle handle = 0;
    Tick at {};
    medium::DropReason why = medium::DropReason::loss;
    Place place {};
  };
  // In order of time per link, not across links.
  const std::vector<Arrival>& arrivals() const { return arrivals_; }
  const std::vector<Loss>& dropped() const { return dropped_; }
  const std::vector<medium::FrameReport>& frames() const { return air_box_.frames; }
  const std::vector<Announcement>& announcements() const { return announcements_; }
  void done();
  void want_frames(bool on) { air_box_.want_frames = pipe_box_.want_frames = on; }

  // The timeline's clock begins.
  void start(Tick now);
  bool started() const { return started_; }
  Tick started_at() const { return start_; }

  // Live changes, in effect from `now` and for good (a timeline event that ends goes back to these).
  void change(Tick now, const ChangeEvent& change);
  // At this access point, or of this interface wherever it is; both empty: everywhere.
  void set_blackout(Tick now, medium::Blackout mode, std::optional<std::size_t> ap = {},
                    std::optional<std::size_t> interface = {});
  void set_signal(std::size_t ap, double dbm);
  void set_cell_down(Tick now, bool down, bool hold);

  bool wifi_carrier(std::size_t interface = 0) const { return wifi_carriers_[interface] != 0; }
  bool cell_carrier() const { return cell_carrier_; }
  std::size_t associated_ap(std::size_t interface = 0) const { return associated_[interface]; }

  const medium::Air& air() const { return *air_; }
  // The client's stations, one for each of its Wi-Fi interfaces.
  medium::NodeId client(std::size_t interface = 0) const { return clients_[interface]; }
  std::size_t interfaces() const { return clients_.size(); }
  // The first interface that is at this access point; wlan0 when none is.
  std::size_t interface_at(std::size_t ap) const;
  medium::NodeId ap_node(std::size_t index) const { return ap_nodes_[index]; }
  medium::NodeId station_node(std::size_t index) const { return station_nodes_[index]; }
  // The Wi-Fi as a pipe; nullptr when it is air.
  const medium::Pipe* wifi_pipe(bool down) const
  {
    return scenario_.wifi.pipe ? pipes_[wifi_first_ + (down ? 0 : 1)].get() : nullptr;
  }
  // Whether a driver on this Wi-Fi could tell how busy a channel is.
  bool surveyed() const { return wifi_.survey && !wifi_.pipe; }
  const medium::Pipe& cell_pipe(bool down) const { return *pipes_[down ? 0 : 1]; }
  const medium::Pipe& wan_pipe(std::size_t server, bool down) const { return *pipes_[2 + 2 * server + (down ? 0 : 1)]; }
  const Scenario& scenario() const { return scenario_; }

private:
  struct Pending
  {
    Tick at {};
    std::uint64_t order = 0;
    std::size_t event = 0;
    bool begin = true;

    bool operator>(const Pending& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  void schedule(Tick at, std::size_t event, bool begin);
  void run_links(Tick now);
  void fire(const Pending& pending);
  void begin(const Event& event, Tick at);
  void end(const Event& event, Tick at);
  void apply(const ChangeEvent& change, const WifiSettings& wifi, const PipePair* pipes, Tick at);
  void apply_wifi(std::string_view key, Tick at);
  std::size_t port_of(PortId id) const;
  medium::PipeConfig shown_wifi_pipe(bool down) const;
  void set_wifi_down(Tick at, bool down, bool hold);
  struct Silence
  {
    medium::Blackout mode = medium::Blackout::none;
    bool carrier = true;

    bool operator==(const Silence&) const = default;
  };
  void set_silence(Tick at, Silence silence, std::optional<std::size_t> ap, std::optional<std::size_t> interface);
  Silence silence_of(std::size_t interface) const;
  void apply_silence(Tick at, std::size_t interface);
  void hand_off(Tick at, const HandoffEvent& handoff);
  void place_in(Announcement& announcement, const BlackoutEvent& blackout) const;
  void set_signals(std::size_t ap, const std::vector<std::pair<Tick, double>>& points);
  bool is_client(medium::NodeId node) const
  {
    return std::find(clients_.begin(), clients_.end(), node) != clients_.end();
  }
  void show_frames();
  Place place_of(const PortId& from) const;

  Scenario scenario_; // with the live changes of `change`
  std::vector<PortId> ports_;
  medium::Outbox air_box_;
  medium::Outbox pipe_box_;
  std::unique_ptr<medium::Air> air_;
  std::vector<medium::NodeId> ap_nodes_, station_nodes_;
  std::vector<medium::NodeId> clients_;
  std::vector<std::unique_ptr<medium::Pipe>>
      pipes_; // cell down, cell up, down and up of each server, then of the Wi-Fi if it is one
  std::size_t wifi_first_ = 0;
  medium::Random frame_random_;         // repeated attempts that a monitor sees
  std::uint16_t frame_sequences_[2] {}; // down, up
  WifiSettings wifi_;                   // in effect now
  PipePair cell_;
  std::vector<PipePair> wan_;
  std::vector<Arrival> arrivals_;
  std::vector<Loss> dropped_;
  std::vector<Announcement> announcements_;
  std::vector<Pending> pending_;
  std::uint64_t order_ = 0;
  bool started_ = false;
  Tick start_ {};
  std::vector<std::size_t> associated_; // access point of each interface, from the moment it leaves the one before
  std::vector<Silence> ap_silences_, interface_silences_, in_force_; // the last one by interface, what the air has
  std::vector<std::uint8_t> wifi_carriers_;
  bool cell_carrier_ = true;
};

} // namespace tandem::lab
