// The server through real sockets, spoken to byte by byte: a client library would not send what a hostile one does.
#include "src/control/server.h"
#include "tests/unit/control/fake_backend.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tandem::control
{
namespace
{

using namespace std::chrono_literals;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class Connection
{
public:
  explicit Connection(const std::filesystem::path& path) : fd_ { ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) }
  {
    sockaddr_un address {};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof address.sun_path - 1);
    connected = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  explicit Connection(std::uint16_t port) : fd_ { ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) }
  {
    sockaddr_in address {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Connection() { ::close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(const std::string& bytes) const
  {
    // A server that has hung up already is seen in what it said.
    [[maybe_unused]] const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  // All until the server closes.
  std::string rest() const
  {
    std::string all;
    std::array<char, 65536> some {};
    ssize_t count = 0;
    while ((count = ::recv(fd_, some.data(), some.size(), 0)) > 0)
      all.append(some.data(), static_cast<std::size_t>(count));
    return all;
  }

  // Has the server something to say, or hung up, within `timeout`?
  bool readable(std::chrono::milliseconds timeout) const
  {
    pollfd ready { fd_, POLLIN, 0 };
    return ::poll(&ready, 1, static_cast<int>(timeout.count())) > 0;
  }

  bool connected = false;

private:
  int fd_;
};

struct Reply
{
  int status = 0;
  std::string head;
  std::string body;
};

Reply parsed(const std::string& text)
{
  Reply reply;
  const std::size_t end = text.find("\r\n\r\n");
  if (text.size() < 12 || end == std::string::npos) return reply;
  reply.status = std::stoi(text.substr(9, 3));
  reply.head = text.substr(0, end);
  reply.body = text.substr(end + 4);
  return reply;
}

class ServerTest : public testing::Test
{
protected:
  FakeBackend backend;
  std::filesystem::path directory;
  std::filesystem::path socket;
  std::mutex mutex;
  std::vector<std::string> logged;
  std::unique_ptr<Server> server;

  void SetUp() override
  {
    std::string pattern = testing::TempDir() + "server_test.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory = pattern;
    socket = directory / "run" / "control.sock";
  }
  void TearDown() override
  {
    server.reset();
    std::filesystem::remove_all(directory);
  }

  ServerOptions options()
  {
    ServerOptions chosen { .socket = socket };
    chosen.doctor = [] { return json { { "health", "ok" }, { "checks", json::array() } }; };
    chosen.log = [this](const std::string& line, const std::string& module)
    {
      const std::lock_guard lock { mutex };
      logged.push_back(line + (module.empty() ? "" : " [" + module + "]"));
    };
    return chosen;
  }
  void start(const ServerOptions& chosen) { server = std::make_unique<Server>(backend, chosen); }
  void start() { start(options()); }

  Reply ask(const std::string& method, const std::string& target, const std::string& body = "",
            const std::string& header = "") const
  {
    const Connection connection { socket };
    EXPECT_TRUE(connection.connected);
    connection.send(method + " " + target + " HTTP/1.1\r\nHost: tandem\r\nConnection: close\r\n" + header
                    + (body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n") + "\r\n" + body);
    return parsed(connection.rest());
  }
  static std::string words(const Reply& reply) { return json::parse(reply.body).at("error"); }
};

TEST_F(ServerTest, gives_out_what_the_daemon_knows)
{
  start();
  const Reply status = ask("GET", "/v1/status");
  EXPECT_EQ(status.status, 200);
  EXPECT_THAT(status.head, HasSubstr("Content-Type: application/json"));
  EXPECT_EQ(json::parse(status.body), backend.status());
  EXPECT_EQ(json::parse(ask("GET", "/v1/modules").body), backend.modules());
  EXPECT_EQ(json::parse(ask("GET", "/v1/flows?ignored=query").body), backend.flows());
  EXPECT_EQ(json::parse(ask("GET", "/v1/doctor").body).at("health"), "ok");
  EXPECT_THAT(ask("GET", "/v1/modules/offload/manual").body, StartsWith("# offload"));
  EXPECT_EQ(ask("GET", "/v1/recording").body, backend.recording({}));
  EXPECT_EQ(ask("GET", "/v1/recording?last_s=1.5").body, "the last 1.500000");
  EXPECT_EQ(ask("GET", "/v1/recording?after=0").body, "after 0");
  EXPECT_EQ(ask("GET", "/v1/recording?after=70000000000").body, "after 70000000000");
  for (const char* wrong : { "?last_s=", "?last_s=0", "?last_s=-1", "?last_s=nan", "?last_s=9999", "?last_s=1s", "?",
                             "?all", "?after=", "?after=-1", "?after=1.5", "?after=99999999999999999999" })
    EXPECT_EQ(ask("GET", std::string { "/v1/recording" } + wrong).status, 400) << wrong;
  EXPECT_THAT(ask("GET", "/metrics").body, HasSubstr("# TYPE tandem_flows gauge\ntandem_flows 1\n"));
  EXPECT_THAT(ask("GET", "/").body, HasSubstr("<title>Tandem</title>"));
}

TEST_F(ServerTest, who_takes_the_recording_again_is_not_logged_again)
{
  start();
  ask("GET", "/v1/recording");
  ask("GET", "/v1/recording");
  EXPECT_THAT(logged, ElementsAre(HasSubstr("takes the recording")));
}

TEST_F(ServerTest, head_has_the_length_but_no_body)
{
  start();
  const Reply reply = ask("HEAD", "/v1/status");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, IsEmpty());
  EXPECT_THAT(reply.head, HasSubstr("Content-Length: "));
}

TEST_F(ServerTest, saves_what_is_to_be_saved_and_forgets_it)
{
  start();
  EXPECT_EQ(ask("PUT", "/v1/modules/offload", R"({"enabled": true, "save": true})").status, 200);
  EXPECT_EQ(ask("PUT", "/v1/modules/offload", R"({"enabled": true, "save": false})").status, 200);
  EXPECT_EQ(ask("PUT", "/v1/modules/offload/knobs/window_threshold", R"({"save": true, "value": 20})").status, 200);
  EXPECT_EQ(json::parse(ask("GET", "/v1/saved").body).at("saved").at(0).at("name"), "mirror");
  EXPECT_EQ(ask("POST", "/v1/saved/forget", R"({"name": "mirror"})").status, 200);
  EXPECT_EQ(ask("POST", "/v1/saved/forget", R"({"all": true})").status, 200);
  EXPECT_THAT(backend.calls(),
              ElementsAre("enable offload on save", "enable offload on", "set offload.window_threshold 20 save",
                          "forget saved mirror", "forget all saved"));
  for (const char* body :
       { R"({"save": true})", R"({"enabled": true, "save": 1})", R"({"enabled": true, "save": true, "more": 1})" })
    EXPECT_EQ(ask("PUT", "/v1/modules/offload", body).status, 400) << body;
  for (const char* body : { "", "{}", R"({"all": false})", R"({"name": 1})", R"({"name": "mirror", "all": true})",
                            R"({"name": "rocket"})" })
    EXPECT_EQ(ask("POST", "/v1/saved/forget", body).status, 400) << body;
  EXPECT_EQ(ask("PUT", "/v1/saved", "{}").status, 405);
  EXPECT_EQ(ask("GET", "/v1/saved/forget").status, 405);
  backend.disk_full = true;
  const Reply full = ask("PUT", "/v1/modules/offload", R"({"enabled": true, "save": true})");
  EXPECT_EQ(full.status, 409);
  EXPECT_THAT(full.body, HasSubstr("is not saved: no space left"));
}

TEST_F(ServerTest, switches_modules_and_sets_knobs_and_logs_who_did)
{
  start();
  EXPECT_EQ(ask("PUT", "/v1/modules/offload", R"({"enabled": false})").status, 200);
  EXPECT_EQ(ask("PUT", "/v1/modules/offload/knobs/window_threshold", R"({"value": 20})").status, 200);
  EXPECT_EQ(ask("PUT", "/v1/modules/offload/knobs/window_threshold", R"({"value": "30"})").status, 200);
  EXPECT_THAT(backend.calls(),
              ElementsAre("enable offload off", "set offload.window_threshold 20", "set offload.window_threshold 30"));
  const std::string who = "control: uid " + std::to_string(::getuid()) + " (pid " + std::to_string(::getpid()) + ") ";
  EXPECT_THAT(logged, ElementsAre(who + "switches module \"offload\" off [offload]",
                                  who + "sets \"offload.window_threshold\" to \"20\" [offload]",
                                  who + "sets \"offload.window_threshold\" to \"30\" [offload]"));
}

TEST_F(ServerTest, refusals_keep_their_kind_and_words)
{
  start();
  const Reply unknown = ask("PUT", "/v1/modules/rocket", R"({"enabled": true})");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_EQ(words(unknown), "no module named rocket; loaded: freeze, offload");
  const Reply outside = ask("PUT", "/v1/modules/offload/knobs/window_threshold", R"({"value": 0})");
  EXPECT_EQ(outside.status, 400);
  EXPECT_THAT(words(outside), HasSubstr("from 1 to 1000 MSS"));
  backend.busy = true;
  EXPECT_EQ(ask("GET", "/v1/status").status, 503);
  backend.busy = false;
  backend.stopping = true;
  EXPECT_EQ(ask("GET", "/v1/status").status, 409);
  EXPECT_THAT(logged, IsEmpty()) << "what was refused changed nothing";
}

TEST_F(ServerTest, bad_bodies_get_400_with_words)
{
  start();
  for (const char* body : { "", "{", "no json", "[]", "\"on\"", "{}", R"({"enabled": "yes"})", R"({"enabled": 1})",
                            R"({"enabled": true, "more": 1})", R"({"Enabled": true})", "{\"enabled\": true}}",
                            "\xff\xfe", "{\"enabled\": \"\xff\"}" })
  {
    const Reply reply = ask("PUT", "/v1/modules/offload", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_THAT(words(reply), HasSubstr("needed")) << body;
  }
  for (const char* body : { R"({"value": null})", R"({"value": [1]})", R"({"value": {}})", R"({"v": 1})" })
    EXPECT_EQ(ask("PUT", "/v1/modules/offload/knobs/window_threshold", body).status, 400) << body;
  EXPECT_EQ(ask("PUT", "/v1/modules/offload", std::string(10000, '[')).status, 400);
  EXPECT_THAT(backend.calls(), IsEmpty());
}

TEST_F(ServerTest, forgets_networks_by_name_or_all)
{
  start();
  EXPECT_EQ(ask("GET", "/v1/networks").status, 200);
  EXPECT_EQ(ask("POST", "/v1/networks/forget", R"({"name": "home"})").status, 200);
  EXPECT_EQ(ask("POST", "/v1/networks/forget", R"({"all": true})").status, 200);
  for (const char* wrong :
       { "", "{}", "[]", R"({"all": false})", R"({"name": 1})", R"({"name": "home", "all": true})" })
    EXPECT_EQ(ask("POST", "/v1/networks/forget", wrong).status, 400) << wrong;
  EXPECT_EQ(ask("POST", "/v1/networks/forget", R"({"name": "elsewhere"})").status, 400);
  EXPECT_EQ(ask("GET", "/v1/networks/forget").status, 405);
  EXPECT_THAT(backend.calls(), ElementsAre("forget home", "forget all", "forget elsewhere"));
}

TEST_F(ServerTest, adds_and_removes_exclusions)
{
  start();
  EXPECT_EQ(ask("GET", "/v1/exclusions").status, 200);
  EXPECT_EQ(ask("POST", "/v1/exclusions", R"({"kind": "to", "what": "203.0.113.0/24"})").status, 200);
  EXPECT_EQ(ask("POST", "/v1/exclusions", R"({"kind": "to", "what": "nonsense/99"})").status, 400);
  EXPECT_EQ(ask("POST", "/v1/exclusions/remove", R"({"kind": "to", "what": "203.0.113.0/24"})").status, 200);
  EXPECT_THAT(backend.calls(),
              ElementsAre("exclude to 203.0.113.0/24", "exclude to nonsense/99", "include to 203.0.113.0/24"));
  ASSERT_EQ(logged.size(), 2u);
  EXPECT_THAT(logged[0], testing::EndsWith("excludes \"to 203.0.113.0/24\""));
  for (const char* target : { "/v1/exclusions", "/v1/exclusions/remove" })
    for (const std::string& wrong :
         { std::string {}, std::string { "[]" }, std::string { R"({"kind": "to"})" },
           std::string { R"({"kind": 1, "what": "a"})" }, std::string { R"({"kind": "to", "what": "a", "more": 1})" },
           json { { "kind", "to" }, { "what", std::string(300, 'x') } }.dump() })
      EXPECT_EQ(ask("POST", target, wrong).status, 400) << target << wrong;
  EXPECT_EQ(ask("DELETE", "/v1/exclusions").status, 405);
  EXPECT_EQ(ask("GET", "/v1/exclusions/remove").status, 405);
}

TEST_F(ServerTest, access_points_are_listed_and_kept)
{
  start();
  EXPECT_EQ(ask("GET", "/v1/aps").status, 200);
  EXPECT_EQ(ask("PUT", "/v1/aps", R"({"keep": 2})").status, 200);
  const auto saved = ask("PUT", "/v1/aps", R"({"keep": 2, "save": true})");
  EXPECT_EQ(saved.status, 200);
  EXPECT_EQ(json::parse(saved.body), (json { { "keep", 2 }, { "several_channels", false }, { "saved", true } }));
  EXPECT_EQ(ask("PUT", "/v1/aps", R"({"keep": 2, "several_channels": true, "save": true})").status, 200);
  EXPECT_EQ(backend.calls().back(), "keep 2 on several channels, saving");
  EXPECT_EQ(ask("PUT", "/v1/aps", R"({"keep": 2, "several_channels": false})").status, 200);
  EXPECT_EQ(ask("PUT", "/v1/aps", R"({"keep": 2, "several_channels": 1})").status, 400);
  EXPECT_EQ(ask("PUT", "/v1/aps", R"({"several_channels": true})").status, 400);
  EXPECT_EQ(ask("PUT", "/v1/aps", R"({"keep": 2, "save": 1})").status, 400);
  EXPECT_EQ(ask("PUT", "/v1/aps", R"({"keep": 1})").status, 400);
  EXPECT_EQ(ask("PUT", "/v1/aps", R"({"keep": -2})").status, 400);
  EXPECT_EQ(ask("PUT", "/v1/aps", R"({"keep": 2, "more": 1})").status, 400);
  EXPECT_EQ(ask("POST", "/v1/aps").status, 405);
  EXPECT_EQ(ask("GET", "/v1/aps/other").status, 404);
}

TEST_F(ServerTest, access_points_are_roamed_to)
{
  start();
  EXPECT_EQ(ask("POST", "/v1/aps/scan").status, 200);
  EXPECT_EQ(ask("POST", "/v1/aps/roam", R"({"ap": "02:00:00:00:00:01"})").status, 200);
  EXPECT_EQ(ask("POST", "/v1/aps/roam", R"({"ap": "02:00:00:00:00:07"})").status, 409);
  EXPECT_EQ(ask("POST", "/v1/aps/roam", R"({"ap": 7})").status, 400);
  EXPECT_EQ(ask("GET", "/v1/aps/roam").status, 405);
}

TEST_F(ServerTest, sets_and_removes_traps)
{
  start();
  EXPECT_EQ(ask("GET", "/v1/traps").status, 200);
  const auto set = ask("POST", "/v1/traps", R"({"when": "flow.gap > 500ms", "save": true})");
  EXPECT_EQ(set.status, 200);
  EXPECT_EQ(json::parse(set.body), json({ { "id", 3 } }));
  EXPECT_EQ(ask("POST", "/v1/traps", R"({"when": "flow.gop > 1s"})").status, 400);
  EXPECT_EQ(ask("POST", "/v1/traps/remove", R"({"id": 1})").status, 200);
  EXPECT_EQ(ask("POST", "/v1/traps/remove", R"({"id": 9})").status, 400);
  EXPECT_THAT(backend.calls(),
              ElementsAre("trap flow.gap > 500ms save", "trap flow.gop > 1s", "remove trap 1", "remove trap 9"));
  ASSERT_EQ(logged.size(), 2u);
  EXPECT_THAT(logged[0], testing::EndsWith("sets trap 3: \"flow.gap > 500ms\", saving"));
  for (const char* wrong : { "", "{}", "[]", R"({"when": 1})", R"({"when": "flow.gap > 1s", "save": "yes"})",
                             R"({"when": "flow.gap > 1s", "more": 1})" })
    EXPECT_EQ(ask("POST", "/v1/traps", wrong).status, 400) << wrong;
  EXPECT_EQ(ask("POST", "/v1/traps", json { { "when", std::string(300, 'x') } }.dump()).status, 400);
  for (const char* wrong : { "", "{}", R"({"id": -1})", R"({"id": "1"})" })
    EXPECT_EQ(ask("POST", "/v1/traps/remove", wrong).status, 400) << wrong;
  EXPECT_EQ(ask("DELETE", "/v1/traps").status, 405);
  EXPECT_EQ(ask("GET", "/v1/traps/remove").status, 405);
}

TEST_F(ServerTest, takes_announcements_and_logs_who_made_them)
{
  start();
  EXPECT_EQ(ask("POST", "/v1/links/wifi/announce", R"({"what": "risk", "for_s": 1.5})").status, 200);
  EXPECT_EQ(ask("POST", "/v1/links/wifi/announce", R"({"what": "up"})").status, 200);
  EXPECT_THAT(backend.calls(), ElementsAre("announce risk for 1.500000", "announce up for 0.500000"));
  ASSERT_EQ(logged.size(), 2u);
  EXPECT_THAT(logged[0], testing::EndsWith("announces \"risk\""));
  for (const char* body : { "", "{", "[]", "{}", R"({"for_s": 1})", R"({"what": 1})", R"({"what": "sideways"})",
                            R"({"what": "up", "for_s": "1"})", R"({"what": "up", "more": 1})" })
  {
    const Reply reply = ask("POST", "/v1/links/wifi/announce", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_THAT(words(reply), HasSubstr("needed")) << body;
  }
  EXPECT_THAT(ask("GET", "/v1/links/wifi/announce").head, HasSubstr("Allow: POST"));
  EXPECT_EQ(ask("POST", "/v1/links/cell/announce", R"({"what": "up"})").status, 404);
  EXPECT_EQ(backend.calls().size(), 2u);
}

TEST_F(ServerTest, unknown_paths_and_wrong_methods)
{
  start();
  for (const char* path : { "/v1", "/v2/status", "/v1/status/", "/v1/modules/offload/knobs", "/../etc/passwd", "//",
                            "/v1/modules/offload/manual/x" })
    EXPECT_EQ(ask("GET", path).status, 404) << path;
  EXPECT_EQ(ask("GET", "v1/status").status, 400);
  const Reply post = ask("POST", "/v1/status", "{}");
  EXPECT_EQ(post.status, 405);
  EXPECT_THAT(post.head, HasSubstr("Allow: GET"));
  EXPECT_THAT(ask("DELETE", "/v1/modules/offload").head, HasSubstr("Allow: PUT"));
}

TEST_F(ServerTest, requests_are_limited_in_size)
{
  start();
  EXPECT_EQ(ask("PUT", "/v1/modules/offload", std::string((16u << 10) + 1, ' ')).status, 413);
  EXPECT_EQ(ask("GET", "/" + std::string(9000, 'a')).status, 431);
  EXPECT_EQ(ask("GET", "/v1/status", "", "X-Filler: " + std::string(9000, 'a') + "\r\n").status, 431);
  // A length that is too large is refused before the bytes come.
  const Connection liar { socket };
  liar.send("PUT /v1/modules/offload HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n");
  EXPECT_EQ(parsed(liar.rest()).status, 413);
}

TEST_F(ServerTest, what_is_not_http_gets_400_or_the_door)
{
  start();
  for (const std::string& bytes : { std::string { "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", 21 },
                                    std::string { "GET\r\n\r\n" }, std::string { "GET / HTTP/9.9\r\n\r\n" },
                                    std::string { "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n" } })
  {
    const Connection connection { socket };
    connection.send(bytes);
    EXPECT_EQ(parsed(connection.rest()).status, 400) << bytes;
  }
  EXPECT_EQ(ask("GET", "/v1/status").status, 200) << "the server must survive";
}

TEST_F(ServerTest, a_session_serves_several_requests)
{
  start();
  const Connection connection { socket };
  connection.send(
      "GET /metrics HTTP/1.1\r\nHost: t\r\n\r\nGET /metrics HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  const std::string both = connection.rest();
  EXPECT_NE(both.find("HTTP/1.1 200 OK"), both.rfind("HTTP/1.1 200 OK"));
}

TEST_F(ServerTest, a_client_that_trickles_is_shown_the_door)
{
  ServerOptions impatient = options();
  impatient.timeout = 200ms;
  start(impatient);
  const Connection slow { socket };
  const auto begun = std::chrono::steady_clock::now();
  // A byte every 20 ms would go on for minutes if each moved the deadline.
  bool ended = false;
  for (const char letter : "GET /v1/status HTTP/1.1\r\nX-Slow: " + std::string(2000, 'z'))
  {
    slow.send(std::string { letter });
    if ((ended = slow.readable(20ms))) break;
  }
  EXPECT_TRUE(ended);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s);
  EXPECT_EQ(ask("GET", "/v1/status").status, 200);
}

TEST_F(ServerTest, one_client_too_many_is_told_so)
{
  ServerOptions few = options();
  few.max_sessions = 3;
  start(few);
  std::vector<std::unique_ptr<Connection>> idle;
  for (int i = 0; i < 3; ++i)
    idle.push_back(std::make_unique<Connection>(socket));
  const Reply refused = ask("GET", "/v1/status");
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(words(refused), HasSubstr("too many clients"));
  idle.pop_back();
  // The server learns of the closed session when its loop comes around.
  int status = 0;
  for (int attempt = 0; attempt < 200 && status != 200; ++attempt)
  {
    status = ask("GET", "/v1/status").status;
    ::usleep(10'000);
  }
  EXPECT_EQ(status, 200);
}

// It starts programs, which may wait for others' locks: seconds in which a module, say, could not be switched off.
TEST_F(ServerTest, the_doctor_keeps_nobody_waiting)
{
  std::promise<void> begun {}, enough {};
  ServerOptions chosen = options();
  chosen.doctor = [&]
  {
    begun.set_value();
    enough.get_future().wait_for(10s);
    return json { { "health", "ok" } };
  };
  server = std::make_unique<Server>(backend, std::move(chosen));
  const Connection patient { socket }, other { socket };
  patient.send("GET /v1/doctor HTTP/1.1\r\nHost: tandem\r\nConnection: close\r\n\r\n");
  ASSERT_EQ(begun.get_future().wait_for(5s), std::future_status::ready);
  other.send("GET /v1/status HTTP/1.1\r\nHost: tandem\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(other.readable(3s)) << "while it examines";
  EXPECT_FALSE(patient.readable(0ms));
  enough.set_value();
  EXPECT_EQ(parsed(other.rest()).status, 200);
  EXPECT_EQ(parsed(patient.rest()).body, "{\"health\":\"ok\"}\n");
}

TEST_F(ServerTest, ends_while_the_doctor_examines)
{
  std::promise<void> begun {};
  std::atomic<int> examined { 0 };
  ServerOptions chosen = options();
  chosen.doctor = [&]
  {
    if (++examined == 1) begun.set_value();
    std::this_thread::sleep_for(200ms);
    return json { { "health", "ok" } };
  };
  server = std::make_unique<Server>(backend, std::move(chosen));
  std::vector<std::unique_ptr<Connection>> patients {};
  for (int i = 0; i < 20; ++i)
  {
    patients.push_back(std::make_unique<Connection>(socket));
    patients.back()->send("GET /v1/doctor HTTP/1.1\r\nHost: tandem\r\n\r\n");
  }
  ASSERT_EQ(begun.get_future().wait_for(5s), std::future_status::ready);
  const auto asked = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - asked, 2s) << "for no more than the one that has begun";
}

TEST_F(ServerTest, ends_while_clients_are_connected)
{
  start();
  const Connection idle { socket };
  const Connection half { socket };
  half.send("GET /v1/status HTT");
  EXPECT_EQ(ask("GET", "/v1/status").status, 200); // both are being served by now
  server.reset();
  EXPECT_THAT(idle.rest(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(socket));
}

TEST_F(ServerTest, ends_while_clients_connect)
{
  // They wait while it is busy, and it is told to end in the middle of accepting them, sooner or later: no session
  // begins then, and nothing is accepted any more.
  for (unsigned microseconds = 0; microseconds < 1500; microseconds += 25)
  {
    std::promise<void> asked {}, go {};
    ServerOptions slow = options();
    slow.doctor = [&]
    {
      asked.set_value();
      go.get_future().wait();
      return json { { "health", "ok" }, { "checks", json::array() } };
    };
    start(slow);
    const Connection busy { socket };
    busy.send("GET /v1/doctor HTTP/1.1\r\nHost: tandem\r\n\r\n");
    asked.get_future().wait();
    std::vector<std::unique_ptr<Connection>> waiting;
    for (int i = 0; i < 24; ++i)
      waiting.push_back(std::make_unique<Connection>(socket));
    go.set_value();
    ::usleep(microseconds);
    std::future<void> ended = std::async(std::launch::async, [this] { server.reset(); });
    if (ended.wait_for(10s) == std::future_status::ready) continue;
    ADD_FAILURE() << "it does not end, told to after " << microseconds << " us";
    std::abort(); // nothing else can end it
  }
}

// ---- The socket file ----

TEST_F(ServerTest, neither_directory_nor_socket_is_open_to_everyone)
{
  const mode_t before = ::umask(0);
  start();
  ::umask(before);
  struct stat status
  {
  };
  ASSERT_EQ(::stat(socket.parent_path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777u, 0750u);
  ASSERT_EQ(::stat(socket.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777u, 0600u) << "no group is named: not for that of the process, either";
  EXPECT_TRUE(S_ISSOCK(status.st_mode));
}

TEST_F(ServerTest, the_group_may_use_the_socket)
{
  if (::getuid() != 0) GTEST_SKIP() << "needs root to give a file to another group";
  ServerOptions shared = options();
  shared.group = "daemon"; // in every Debian
  start(shared);
  struct stat status
  {
  };
  ASSERT_EQ(::stat(socket.c_str(), &status), 0);
  EXPECT_NE(status.st_gid, 0u);
  EXPECT_EQ(status.st_mode & 07777u, 0660u);
  const gid_t group = status.st_gid;
  ASSERT_EQ(::stat(socket.parent_path().c_str(), &status), 0);
  EXPECT_EQ(status.st_gid, group);
}

std::string start_fault(FakeBackend& backend, const ServerOptions& options)
{
  try
  {
    const Server server { backend, options };
  }
  catch (const std::runtime_error& fault)
  {
    return fault.what();
  }
  return "started";
}

// As in the packaged service, whose user may give nothing away.
TEST_F(ServerTest, a_group_that_nothing_can_be_given_to_is_said_with_what_to_do)
{
  if (::getuid() != 0) GTEST_SKIP() << "needs root to become another user";
  constexpr uid_t other = 65534;
  ServerOptions shared = options();
  shared.group = "daemon";
  for (const bool there : { false, true })
  {
    ASSERT_EQ(::chown(directory.c_str(), other, other), 0);
    ASSERT_EQ(::seteuid(other), 0);
    if (there) std::filesystem::create_directory(socket.parent_path());
    const std::string fault = start_fault(backend, shared);
    ASSERT_EQ(::seteuid(0), 0);
    EXPECT_THAT(fault, HasSubstr("Operation not permitted; daemon.socket_group = \"daemon\": "));
    EXPECT_THAT(fault, HasSubstr("adduser NAME tandem"));
    EXPECT_FALSE(std::filesystem::exists(socket));
    std::filesystem::remove_all(socket.parent_path());
  }
}

TEST_F(ServerTest, a_live_daemon_is_not_pushed_aside)
{
  start();
  EXPECT_THAT(start_fault(backend, options()), HasSubstr("a daemon already answers on " + socket.string()));
  EXPECT_EQ(ask("GET", "/v1/status").status, 200);
}

TEST_F(ServerTest, the_socket_of_a_dead_daemon_is_replaced)
{
  std::filesystem::create_directories(socket.parent_path());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address {};
  address.sun_family = AF_UNIX;
  socket.string().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(fd); // the file stays, nobody listens
  ASSERT_TRUE(std::filesystem::exists(socket));
  start();
  EXPECT_EQ(ask("GET", "/v1/status").status, 200);
}

TEST_F(ServerTest, what_is_no_socket_is_left_alone)
{
  std::filesystem::create_directories(socket.parent_path());
  std::ofstream { socket } << "precious";
  EXPECT_THAT(start_fault(backend, options()), HasSubstr("exists and is not a socket"));
  EXPECT_EQ(std::filesystem::file_size(socket), 8u);
}

TEST_F(ServerTest, start_faults_say_what_to_do)
{
  ServerOptions wrong = options();
  wrong.group = "no-such-group";
  EXPECT_THAT(start_fault(backend, wrong), HasSubstr("no such group; create it"));
  wrong = options();
  wrong.socket = "relative.sock";
  EXPECT_THAT(start_fault(backend, wrong), HasSubstr("an absolute path"));
  wrong.socket = directory / "missing" / "deeper" / "c.sock";
  EXPECT_THAT(start_fault(backend, wrong), HasSubstr("No such file or directory"));
  std::filesystem::create_directory(directory / "open");
  ::chmod((directory / "open").c_str(), 0777);
  wrong.socket = directory / "open" / "c.sock";
  EXPECT_THAT(start_fault(backend, wrong), HasSubstr("writable by everyone"));
  wrong = options();
  wrong.tcp = { "0.0.0.0", 39871 };
  EXPECT_THAT(start_fault(backend, wrong), HasSubstr("not a loopback address"));
  EXPECT_FALSE(std::filesystem::exists(socket)) << "a failed start leaves no socket";
}

// ---- Loopback TCP ----

class TcpTest : public ServerTest
{
protected:
  std::uint16_t port = 0;

  void SetUp() override
  {
    ServerTest::SetUp();
    ServerOptions both = options();
    // Any free port: the test cannot ask for port 0, which the configuration does not allow either.
    for (port = 39000; port < 39100 && !server; ++port)
    {
      both.tcp = { "127.0.0.1", port };
      try
      {
        start(both);
        break;
      }
      catch (const std::runtime_error&)
      {
      }
    }
    ASSERT_TRUE(server);
  }

  Reply ask_tcp(const std::string& method, const std::string& target, const std::string& host = "127.0.0.1",
                const std::string& body = "") const
  {
    const Connection connection { port };
    EXPECT_TRUE(connection.connected);
    connection.send(method + " " + target + " HTTP/1.1\r\nHost: " + host
                    + "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return parsed(connection.rest());
  }
};

TEST_F(TcpTest, figures_and_nothing_of_anybodys_connections)
{
  EXPECT_EQ(ask_tcp("GET", "/metrics").status, 200);
  EXPECT_EQ(ask_tcp("GET", "/metrics", "localhost:" + std::to_string(port)).status, 200);
  for (const char* target :
       { "/", "/v1/status", "/v1/flows", "/v1/networks", "/v1/links", "/v1/modules", "/v1/doctor" })
    EXPECT_EQ(ask_tcp("GET", target).status, 403) << target;
  EXPECT_EQ(ask_tcp("PUT", "/v1/modules/offload", "127.0.0.1", R"({"enabled": false})").status, 403);
  EXPECT_EQ(ask_tcp("GET", "/v1/saved").status, 403);
  EXPECT_EQ(ask_tcp("POST", "/v1/saved/forget", "127.0.0.1", R"({"all": true})").status, 403);
  EXPECT_EQ(ask_tcp("GET", "/v1/recording").status, 403);
  EXPECT_THAT(backend.calls(), IsEmpty());
  EXPECT_EQ(ask("PUT", "/v1/modules/offload", R"({"enabled": false})").status, 200) << "the Unix socket does";
}

TEST_F(TcpTest, both_are_accepted_again_once_there_are_descriptors)
{
  // None is left but one for each client, and none for the server's end.
  rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few { std::min<rlim_t>(256, before.rlim_cur), before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> fillers {};
  for (int one = ::dup(STDIN_FILENO); one >= 0; one = ::dup(STDIN_FILENO))
    fillers.push_back(one);
  const auto make_room = [&]
  {
    ::close(fillers.back());
    fillers.pop_back();
  };
  make_room();
  const Connection local { options().socket };
  std::this_thread::sleep_for(40ms); // the server waits for a tenth of a second
  make_room();
  const Connection tcp { port };
  std::this_thread::sleep_for(40ms);
  while (!fillers.empty())
    make_room();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const Connection* one : { &local, &tcp })
  {
    ASSERT_TRUE(one->connected);
    one->send("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    EXPECT_TRUE(one->readable(5s)) << (one == &local ? "the socket" : "the TCP port") << " accepts no more";
  }
}

// Every user of the machine can connect by TCP: who fills it keeps nobody from the socket.
TEST_F(TcpTest, clients_by_tcp_leave_the_socket_its_places)
{
  std::vector<std::unique_ptr<Connection>> idle;
  for (std::size_t i = 0; i < options().max_sessions; ++i)
    idle.push_back(std::make_unique<Connection>(port));
  EXPECT_EQ(ask_tcp("GET", "/metrics").status, 503);
  EXPECT_EQ(ask("GET", "/v1/status").status, 200);
}

TEST_F(TcpTest, a_page_of_another_origin_gets_nothing)
{
  for (const char* host : { "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.0.2.1", "" })
    EXPECT_EQ(ask_tcp("GET", "/metrics", host).status, 403) << host;
  EXPECT_EQ(ask_tcp("GET", "/metrics", "[::1]:9101").status, 200);
}

} // namespace
} // namespace tandem::control
