// Scenario texts as files for a test's length.
#pragma once

#include "tools/lab/emulator/load_scenario.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tandem::lab::test
{

inline const std::vector<std::filesystem::path> profiles { TANDEM_PROFILES };

class Folder
{
public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("tandem-scenario-" + std::to_string(::getpid())))
  {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  std::filesystem::path write(const std::string& name, const std::string& text) const
  {
    std::ofstream(path_ / name) << text;
    return path_ / name;
  }
  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

inline Scenario load(const std::string& text, const std::vector<std::string>& overrides = {})
{
  const Folder folder;
  return load_scenario(folder.write("s.toml", text), overrides, profiles);
}

// The message of the refusal without the folder's name, or "accepted".
inline std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {})
{
  const Folder folder;
  try
  {
    load_scenario(folder.write("s.toml", text), overrides, profiles);
  }
  catch (const BadInput& e)
  {
    std::string message = e.what();
    const std::string prefix = folder.path().string() + "/";
    for (auto at = message.find(prefix); at != std::string::npos; at = message.find(prefix))
      message.erase(at, prefix.size());
    return message;
  }
  return "accepted";
}

} // namespace tandem::lab::test
