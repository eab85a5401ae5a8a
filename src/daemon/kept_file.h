// A file of what outlives the daemon. One that is torn, foreign or of another version is put aside, never overwritten.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace tandem::daemon
{

class KeptFile
{
public:
  // What a user is told of its content; literals.
  struct Words
  {
    std::string_view forgotten; // when it cannot be kept
    std::string_view anew;      // when what was there is put aside
    std::string_view unsaved;   // when it could not be saved this time
  };

  // The directory is made, for its owner alone, when it is not there.
  KeptFile(const std::filesystem::path& directory, std::string_view name, const Words& words);

  // Hands over the text, unless there is no such file; `take` returns what is wrong with it, empty: nothing. False:
  // it cannot be used, and problem() says why.
  bool load(std::size_t longest, const std::function<std::string(const std::string&)>& take);
  // False: problem() says why.
  bool save(const std::string& text);

  // Of the latest call that had one; empty: all is well.
  const std::string& problem() const { return problem_; }
  // It is another user's, who may have kept something in it that this process cannot know.
  bool forbidden() const { return forbidden_; }

private:
  void forbid(const std::filesystem::path& what);
  bool put_aside(const std::string& why);

  std::filesystem::path file_;
  Words words_;
  std::string problem_ {};
  bool usable_ = true; // what is there may be overwritten
  bool forbidden_ = false;
};

} // namespace tandem::daemon
