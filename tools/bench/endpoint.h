// Where the benches' programs listen and connect to.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace tandem::bench
{

// For bind() and connect(). Throws std::runtime_error with words for a user.
inline sockaddr_in endpoint(const std::string& address, std::uint16_t port)
{
  sockaddr_in place {};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  if (inet_pton(AF_INET, address.c_str(), &place.sin_addr) != 1)
    throw std::runtime_error { address + ": an IPv4 address is allowed" };
  return place;
}

} // namespace tandem::bench
