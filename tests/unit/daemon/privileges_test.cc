#include "src/daemon/privileges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::daemon
{
namespace
{

class State : public testing::Test
{
protected:
  State()
  {
    std::string name = testing::TempDir() + "state-XXXXXX";
    top = ::mkdtemp(name.data());
    std::filesystem::create_directories(top / "tandem" / "saved");
    std::filesystem::permissions(top, std::filesystem::perms::all);
  }
  ~State() override
  {
    std::filesystem::permissions(top / "tandem", std::filesystem::perms::owner_all);
    std::filesystem::remove_all(top);
  }

  // Told to somebody who is not root; empty: nothing is wrong.
  static std::string refusal(const std::vector<std::filesystem::path>& directories)
  {
    std::array<int, 2> told {};
    if (::pipe(told.data()) != 0) return "no pipe";
    const pid_t child = ::fork();
    if (child == 0)
    {
      std::string words {};
      if (::geteuid() == 0 && ::setuid(65534) != 0) words = "cannot be another user";
      try
      {
        require_state(directories);
      }
      catch (const std::runtime_error& error)
      {
        words += error.what();
      }
      [[maybe_unused]] const ssize_t written = ::write(told[1], words.data(), words.size());
      ::_exit(0);
    }
    ::close(told[1]);
    std::string words(4096, '\0');
    const ssize_t length = ::read(told[0], words.data(), words.size());
    words.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    ::close(told[0]);
    ::waitpid(child, nullptr, 0);
    return words;
  }

  std::filesystem::path top;
};

TEST_F(State, OfAnotherUserIsRefusedWithWhatToDo)
{
  std::filesystem::permissions(top / "tandem", std::filesystem::perms::none);
  const std::string said = refusal({ top / "tandem" / "saved" });
  EXPECT_THAT(said, testing::StartsWith((top / "tandem" / "saved").string() + ": Permission denied"));
  EXPECT_THAT(said, testing::HasSubstr("systemctl start tandemd"));
  EXPECT_NE(refusal({ top / "other", top / "tandem" }), "") << "each of them";
}

TEST_F(State, ThatIsNotThereYetIsNoHindrance)
{
  EXPECT_EQ(refusal({ top / "none" / "saved", top / "none" }), "");
}

TEST_F(State, OfOnesOwnIsFine)
{
  std::filesystem::permissions(top / "tandem" / "saved", std::filesystem::perms::all);
  EXPECT_EQ(refusal({ top / "tandem" / "saved" }), "");
}

} // namespace
} // namespace tandem::daemon
