#include "src/trace/recorded.h"

namespace tandem::trace
{
namespace
{

std::string message(const std::filesystem::path& file, std::optional<std::uint64_t> offset, const std::string& reason)
{
  return file.string() + ": " + (offset ? "offset " + std::to_string(*offset) + ": " : std::string {}) + reason;
}

} // namespace

BadFile::BadFile(const std::filesystem::path& file, std::optional<std::uint64_t> offset, const std::string& reason)
    : std::runtime_error { message(file, offset, reason) }, offset_ { offset }
{
}

} // namespace tandem::trace
