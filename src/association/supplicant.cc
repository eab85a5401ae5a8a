#include "src/association/supplicant.h"

#include "src/kernel/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>

namespace tandem::association
{
namespace
{

using namespace std::chrono_literals;

// A command is answered at once or not at all; what takes time, a scan or an association, goes on afterwards.
constexpr Duration patience = 700ms;
constexpr std::array<const char*, 3> global_names { "wpa_supplicant-global", "wpa_supplicant/global",
                                                    "wpa_supplicant.global" };

// All of a network that an association needs (wpa_supplicant.conf(5)), above all whom it may not be with. What the user
// has not set is not copied.
constexpr std::array<const char*, 65> copied {
  "ssid",
  "scan_ssid",
  "key_mgmt",
  "proto",
  "pairwise",
  "group",
  "group_mgmt",
  "auth_alg",
  "psk",
  "mem_only_psk",
  "sae_password",
  "sae_password_id",
  "ieee80211w",
  "ocv",
  "wep_key0",
  "wep_key1",
  "wep_key2",
  "wep_key3",
  "wep_tx_keyidx",
  "eap",
  "identity",
  "anonymous_identity",
  "password",
  "ca_cert",
  "ca_path",
  "client_cert",
  "private_key",
  "private_key_passwd",
  "phase1",
  "phase2",
  "subject_match",
  "altsubject_match",
  "domain_suffix_match",
  "domain_match",
  "check_cert_subject",
  "ca_cert2",
  "ca_path2",
  "subject_match2",
  "altsubject_match2",
  "domain_suffix_match2",
  "domain_match2",
  "check_cert_subject2",
  "client_cert2",
  "private_key2",
  "private_key2_passwd",
  "eapol_flags",
  "ocsp",
  "proactive_key_caching",
  "transition_disable",
  "owe_group",
  "owe_only",
  "sae_pk",
  "openssl_ciphers",
  "engine",
  "engine_id",
  "pin",
  "key_id",
  "cert_id",
  "ca_cert_id",
  "engine2",
  "engine2_id",
  "pin2",
  "key2_id",
  "cert2_id",
  "ca_cert2_id",
};

// Which access points of a network the user wants, beside bssid. Before 2.10 the lists had the latter two names.
struct Limit
{
  const char* word;
  bool wanted; // those in the list; else those that are not
};
constexpr std::array<Limit, 5> limits { { { "freq_list", true },
                                          { "bssid_accept", true },
                                          { "bssid_ignore", false },
                                          { "bssid_whitelist", true },
                                          { "bssid_blacklist", false } } };

// What the user has set for all networks of an interface (pmf=2: no access point without protected management frames).
// Where wpa_supplicant does not know the word, nobody can have set it.
constexpr std::array<const char*, 2> copied_of_interface { "pmf", "sae_pwe" };

struct Place
{
  std::string path;
  bool global = true;
};

// Where there may be something, the global socket first. Debian's service makes those of single interfaces (-O), also
// under NetworkManager.
std::vector<Place> places_of(const std::vector<std::string>& run, const std::string& interface)
{
  std::vector<Place> all {};
  for (const std::string& directory : run)
    for (const char* name : global_names)
      all.push_back({ directory + "/" + name });
  for (const std::string& directory : run)
    if (!interface.empty()) all.push_back({ directory + "/wpa_supplicant/" + interface, false });
  // What must not be looked at may be there.
  std::erase_if(all, [](const Place& one)
                { return ::faccessat(AT_FDCWD, one.path.c_str(), F_OK, AT_EACCESS) != 0 && errno != EACCES; });
  return all;
}

} // namespace

bool Supplicant::connect()
{
  if (socket_) return true;
  if (path_ != "auto") return connect_to(path_, global_);
  const std::vector<Place> places = places_of(run_, interface_);
  if (places.empty())
    problem_ = "wpa_supplicant has no control socket (looked for /run/wpa_supplicant-global and /run/wpa_supplicant/"
               + (interface_.empty() ? "*" : interface_)
               + "): it runs not, or without `-g /run/wpa_supplicant-global`; see tandem(1), aps";
  // One that was killed leaves its socket behind, and one of them may be closed to us.
  std::string problem {};
  for (const Place& one : places)
  {
    if (connect_to(one.path, one.global))
    {
      global_ = one.global;
      return true;
    }
    if (problem.empty()) problem = problem_;
  }
  if (!problem.empty()) problem_ = problem;
  return false;
}

bool Supplicant::connect_to(const std::string& path, bool global)
{
  sockaddr_un there {};
  there.sun_family = AF_UNIX;
  if (path.size() >= sizeof there.sun_path)
  {
    problem_ = path + ": too long for the path of a socket";
    return false;
  }
  std::memcpy(there.sun_path, path.c_str(), path.size());
  kernel::Fd socket { ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
  // A name of the kernel's choosing, which is no file: the answer finds its way, and nothing stays behind.
  sockaddr_un here {};
  here.sun_family = AF_UNIX;
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here.sun_family) != 0
      || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0)
  {
    const int reason = errno;
    problem_ = "wpa_supplicant at " + path + ": " + std::strerror(reason);
    if (reason == EACCES)
      problem_ += "; the daemon's user must be in the group of its sockets (`wpa_supplicant -G netdev`)";
    if (reason == ECONNREFUSED || reason == ENOENT)
      problem_ += "; does it run, with " + (global ? "-g " + path : "this socket") + "?";
    return false;
  }
  socket_ = std::move(socket);
  return true;
}

std::optional<std::string> Supplicant::ask(const std::string& command)
{
  if (!connect()) return {};
  std::array<char, 8192> buffer;
  // Answers that came too late for their question.
  while (::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT) > 0)
  {
  }
  if (::send(socket_.get(), command.data(), command.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
  {
    problem_ = std::string { "wpa_supplicant takes no question: " } + std::strerror(errno);
    socket_.reset();
    return {};
  }
  pollfd readable { socket_.get(), POLLIN, 0 };
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(patience).count();
  const int ready = ::poll(&readable, 1, static_cast<int>(wait));
  const ssize_t length = ready > 0 ? ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT) : -1;
  if (length < 0)
  {
    problem_ = "wpa_supplicant does not answer";
    socket_.reset();
    return {};
  }
  problem_.clear();
  return std::string { buffer.data(), static_cast<std::size_t>(length) };
}

bool Supplicant::agrees(const std::string& command)
{
  const auto answer = ask(command);
  return answer && answer->starts_with("OK");
}

bool Supplicant::present(const std::string& interface)
{
  if (interface != interface_ && !global_) socket_.reset();
  interface_ = interface;
  if (!ask("PING")) return false;
  if (path_ == "auto" || kind_known_) return true;
  // Whoever names a socket may name that of an interface.
  const auto answer = ask("IFNAME=" + interface + " PING");
  kind_known_ = answer.has_value();
  if (answer) global_ = !answer->starts_with("UNKNOWN");
  return kind_known_;
}

std::string Supplicant::of(const std::string& interface) const
{
  return global_ ? "IFNAME=" + interface + " " : std::string {};
}

bool Supplicant::has(const std::string& interface)
{
  // The socket of an interface has its name.
  if (!global_) return path_ == "auto" || path_.ends_with("/" + interface);
  const auto all = ask("INTERFACES");
  return all && ("\n" + *all).find("\n" + interface + "\n") != std::string::npos;
}

std::optional<std::vector<KnownNetwork>> Supplicant::networks(const std::string& interface)
{
  // An answer has at most 4096 bytes, and ends with the last line that fits: LAST_ID asks for those after it. A line
  // has less than 256 bytes.
  constexpr std::size_t may_go_on = 4096 - 256;
  constexpr int most_pages = 64;
  const std::string question = of(interface) + "LIST_NETWORKS";
  auto answer = ask(question);
  if (!answer) return {};
  if (answer->starts_with("FAIL"))
  {
    problem_ = "wpa_supplicant does not say which networks it knows for " + interface;
    return {};
  }
  std::vector<KnownNetwork> all = parse_networks(*answer);
  int last = last_network(*answer);
  for (int page = 1; answer->size() >= may_go_on && page < most_pages; ++page)
  {
    answer = ask(question + " LAST_ID=" + std::to_string(last));
    if (!answer) return {};
    const int next = last_network(*answer);
    if (next <= last) break; // no more; or one that does not know LAST_ID, and begins anew
    last = next;
    const std::vector<KnownNetwork> more = parse_networks(*answer);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::string Supplicant::state(const std::string& interface)
{
  const auto answer = ask(of(interface) + "STATUS");
  return answer ? value_of(*answer, "wpa_state") : std::string {};
}

std::string Supplicant::unwanted(const std::string& interface, const std::string& network, const Mac& ap,
                                 unsigned frequency)
{
  for (const Limit& one : limits)
  {
    const std::string what = one.word;
    const auto answer = ask(of(interface) + "GET_NETWORK " + network + " " + what);
    if (!answer) return "reading \"" + what + "\" of " + interface + ": " + problem_;
    if (answer->starts_with("FAIL")) continue; // not set, or not known
    const bool listed = what == "freq_list" ? lists(*answer, frequency) : lists(*answer, ap);
    if (listed != one.wanted)
      return "the network of " + interface + " is not for this access point (" + what + " in wpa_supplicant"
             + (what == "freq_list" ? ": a band or channel was chosen)" : ")");
  }
  return {};
}

std::string Supplicant::associate(const std::string& station, const std::string& like, const KnownNetwork& network,
                                  const Mac& ap, unsigned frequency)
{
  if (!global_) return "wpa_supplicant has no global control socket, by which stations are added";
  if (std::string why = unwanted(like, std::to_string(network.id), ap, frequency); !why.empty()) return why;
  // Name, no file, driver, no socket of its own.
  if (!agrees("INTERFACE_ADD " + station + "\t\tnl80211\t"))
    return problem_.empty() ? "wpa_supplicant does not take " + station + " on; its log says why" : problem_;
  for (const std::string what : copied_of_interface)
  {
    const auto value = ask(of(like) + "GET " + what);
    if (!value) return "reading \"" + what + "\" of " + like + ": " + problem_;
    if (value->starts_with("FAIL")) continue;
    const std::string set = "SET " + what + " " + value->substr(0, value->find('\n'));
    if (!agrees(of(station) + set)) return "wpa_supplicant refuses \"" + set + "\" for " + station;
  }
  const auto added = ask(of(station) + "ADD_NETWORK");
  if (!added || added->starts_with("FAIL")) return "wpa_supplicant makes no network for " + station;
  const std::string id = added->substr(0, added->find('\n'));
  for (const char* what : copied)
  {
    const auto answer =
        ask("DUP_NETWORK " + like + " " + station + " " + std::to_string(network.id) + " " + id + " " + what);
    // It may be what tells the user's access points from others, and a password would go to one of these.
    if (!answer) return "copying \"" + std::string { what } + "\" to " + station + ": " + problem_;
    if (!answer->starts_with("OK") && std::string_view { what } == "ssid")
      return "wpa_supplicant cannot copy a network (DUP_NETWORK); its version 2.6 can";
  }
  const std::string set = of(station) + "SET_NETWORK " + id + " ";
  const std::string channel = std::to_string(frequency);
  for (const std::string& what : { "bssid " + feeder::text(ap), "scan_freq " + channel, "freq_list " + channel })
    if (!agrees(set + what)) return "wpa_supplicant refuses \"" + what + "\" for " + station;
  if (!agrees(of(station) + "SELECT_NETWORK " + id)) return "wpa_supplicant does not begin with " + station;
  return {};
}

void Supplicant::release(const std::string& station)
{
  if (global_) static_cast<void>(agrees("INTERFACE_REMOVE " + station));
}

bool Supplicant::scan(const std::string& interface, unsigned frequency)
{
  return agrees(of(interface) + "SCAN TYPE=ONLY" + (frequency == 0 ? "" : " freq=" + std::to_string(frequency)));
}

std::string Supplicant::against(const std::string& interface, const Mac& ap, unsigned frequency)
{
  const auto status = ask(of(interface) + "STATUS");
  if (!status) return problem_;
  const std::string id = value_of(*status, "id");
  return id.empty() ? id : unwanted(interface, id, ap, frequency);
}

std::string Supplicant::roam(const std::string& interface, const Mac& ap, unsigned frequency)
{
  // wpa_supplicant does as it is told here, whatever the network says.
  if (std::string why = against(interface, ap, frequency); !why.empty()) return why;
  const auto answer = ask(of(interface) + "ROAM " + feeder::text(ap));
  if (!answer) return problem_;
  if (answer->starts_with("OK")) return {};
  return "wpa_supplicant refuses to roam to " + feeder::text(ap)
         + ": it must have heard it lately, of the network that it is in now (answer: "
         + answer->substr(0, answer->find('\n')) + ")";
}

} // namespace tandem::association
