// wpa_supplicant by its control socket: which networks the user has, and stations of Tandem's own.
//
// The global socket (wpa_supplicant -g), by which interfaces can be added, or else that of the card's own interface,
// which is enough to roam. Passwords never come here: what a station needs of the user's network is copied within
// wpa_supplicant (DUP_NETWORK).
#pragma once

#include "src/association/choice.h"
#include "src/kernel/fd.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::association
{

// "\\xc3\\xa4", "\\"" and so on, as wpa_supplicant writes names of networks; the bytes that it stands for.
std::string unescaped(std::string_view text);

struct KnownNetwork
{
  int id = 0;
  std::string ssid {}; // any bytes
  bool disabled = false;
  bool one_ap = false; // bssid: the user wants one access point of it and no other
};
// The answer to LIST_NETWORKS; lines that are none are left out.
std::vector<KnownNetwork> parse_networks(std::string_view answer);
// Of the networks whose access points may be joined, the names without the excluded ones, and the one of this name;
// null: there is none.
std::set<std::string> names_to_join(const std::vector<KnownNetwork>& all, const std::set<std::string>& excluded);
const KnownNetwork* network_to_join(const std::vector<KnownNetwork>& all, const std::string& ssid);
// The number in its last line, whatever else that says; -1: there is none.
int last_network(std::string_view answer);

// The value of "key=value" lines, as STATUS answers; empty when it is not there.
std::string value_of(std::string_view answer, std::string_view key);

// Whether it is among "5180 5200" (freq_list); among "02:00:00:00:00:01 02:00:00:00:00:00/ff:ff:ff:00:00:00" (the lists
// of access points, with masks).
bool lists(std::string_view answer, unsigned frequency);
bool lists(std::string_view answer, const Mac& ap);

class Supplicant
{
public:
  // "auto" looks where wpa_supplicant's socket usually is, in the directories `run`.
  explicit Supplicant(std::string path, std::vector<std::string> run = { "/run", "/var/run" })
      : path_ { std::move(path) }, run_ { std::move(run) }
  {
  }

  // Whether it answers, for the interface or for all. False: problem() says why and what to do.
  bool present(const std::string& interface);
  // Whether interfaces can be added.
  bool global() const { return global_; }
  const std::string& problem() const { return problem_; }

  // Whether wpa_supplicant is in charge of the interface. False, and problem() is not empty: it did not say.
  bool has(const std::string& interface);
  // Nothing: it did not say, and problem() says why.
  std::optional<std::vector<KnownNetwork>> networks(const std::string& interface);
  // "COMPLETED" and so on; empty when it does not know the interface.
  std::string state(const std::string& interface);

  // Takes over `station` and associates it with this access point and no other, by what `network` of interface `like`
  // says. Empty when it began; else what failed.
  std::string associate(const std::string& station, const std::string& like, const KnownNetwork& network, const Mac& ap,
                        unsigned frequency);
  // Lets go of it. Nothing happens when it never had it.
  void release(const std::string& station);
  // Looks around: on one channel, or on all.
  bool scan(const std::string& interface, unsigned frequency = 0);
  // What the user has set against this access point for the network that the interface is in; empty: nothing. Where
  // wpa_supplicant does not answer problem() is not empty, and is the answer.
  std::string against(const std::string& interface, const Mac& ap, unsigned frequency);
  // Empty when wpa_supplicant agreed to try; else what failed, or what the user has set against it.
  std::string roam(const std::string& interface, const Mac& ap, unsigned frequency);

private:
  std::optional<std::string> ask(const std::string& command);
  bool agrees(const std::string& command);
  bool connect();
  bool connect_to(const std::string& path, bool global);
  std::string of(const std::string& interface) const;
  // What the user has set against an access point of the network with this number; empty: nothing.
  std::string unwanted(const std::string& interface, const std::string& network, const Mac& ap, unsigned frequency);

  std::string path_;
  std::vector<std::string> run_;
  std::string interface_ {}; // whose socket will do
  bool global_ = true;
  bool kind_known_ = false; // of a socket that somebody named
  kernel::Fd socket_ {};
  std::string problem_ {};
};

} // namespace tandem::association
