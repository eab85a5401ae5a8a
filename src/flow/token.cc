#include "src/flow/token.h"

#include <nettle/sha1.h>
#include <nettle/sha2.h>

#include <array>

namespace tandem::flow
{

std::uint32_t token_of(std::uint64_t key, std::uint8_t version)
{
  std::array<std::uint8_t, 8> wire {};
  for (std::size_t i = 0; i < wire.size(); ++i)
    wire[i] = static_cast<std::uint8_t>(key >> (8 * (wire.size() - 1 - i)));
  std::array<std::uint8_t, 4> digest {};
  if (version == 0)
  {
    sha1_ctx context;
    sha1_init(&context);
    sha1_update(&context, wire.size(), wire.data());
    sha1_digest(&context, digest.size(), digest.data());
  }
  else
  {
    sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, wire.size(), wire.data());
    sha256_digest(&context, digest.size(), digest.data());
  }
  return std::uint32_t { digest[0] } << 24 | std::uint32_t { digest[1] } << 16 | std::uint32_t { digest[2] } << 8
         | digest[3];
}

} // namespace tandem::flow
