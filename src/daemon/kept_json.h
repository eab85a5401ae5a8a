// What kept JSON lies in: {"KEY": VERSION, "BODY": ...} and nothing else.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace tandem::daemon
{

struct Envelope
{
  const char* key;
  int version;
  const char* body;
  nlohmann::json::value_t type; // of the body
  const char* content;          // what a user calls it

  // The same body gives the same text. What is no UTF-8 is replaced.
  std::string closed(nlohmann::json all) const;
  // Takes the body out of a text. Returns what is wrong with it; empty: nothing.
  std::string open(const std::string& text, nlohmann::json& into) const;
};

} // namespace tandem::daemon
