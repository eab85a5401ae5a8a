// What each request of the control API is answered with. Knows nothing of sockets, nor of how HTTP is written.
#pragma once

#include "src/control/backend.h"

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace tandem::control
{

struct Request
{
  std::string_view method; // "GET"
  std::string_view target; // path and query
  std::string_view host;   // the Host header
  const std::string& body;
  bool local = false; // came by the Unix socket
  std::string who;    // for the log
};

struct Answer
{
  unsigned status = 200;
  std::string type { "application/json" };
  std::string body;
  std::string allow {}; // with 405
};

// A JSON object with one sentence.
Answer error(unsigned status, const std::string& words);

class Router
{
public:
  using Doctor = std::function<nlohmann::json()>; // answers GET /v1/doctor; empty: 404
  // A line: who changed what, and the module that it is about, if any; may be empty.
  using Log = std::function<void(const std::string& line, const std::string& module)>;

  Router(Backend& backend, Doctor doctor, Log log)
      : backend_ { backend }, doctor_ { std::move(doctor) }, log_ { std::move(log) }
  {
  }

  // Faults of the backend become answers.
  Answer answer(const Request& request);
  // Whether that may take seconds, as the doctor does; then it may be called in another thread, too, one at a time.
  static bool takes_long(const Request& request);

private:
  void log(const Request& request, const std::string& what, const std::string& module = {}) const;
  Answer route(const Request& request);
  Answer metrics();
  Answer recording(const Request& request);
  Answer announce(const Request& request);
  Answer add_trap(const Request& request);
  Answer remove_trap(const Request& request);
  Answer forget(const Request& request);
  Answer exclude(const Request& request, bool add);
  Answer forget_saved(const Request& request);
  Answer aps(const Request& request, const std::string& what);
  Answer put_module(const Request& request, const std::string& module);
  Answer put_knob(const Request& request, const std::string& module, const std::string& knob);

  Backend& backend_;
  Doctor doctor_;
  Log log_;
  std::string taker_; // of the latest recording
};

} // namespace tandem::control
