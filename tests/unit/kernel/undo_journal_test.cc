#include "src/kernel/mptcp/undo_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tandem::kernel
{
namespace
{

const JournalPlace here { .boot = "a-boot", .space = 4026531840 };

UndoJournal full()
{
  return { .own = { { .address = "192.0.2.1", .ifindex = 3, .id = 1 }, { .address = "2001:db8::1", .ifindex = 3 } },
           .flags = { { .address = "198.51.100.1", .id = 7, .before = false, .set = true } },
           .limit = UndoJournal::Limit { .before = { 1, 0 }, .set = { 2, 0 } } };
}

std::string with(const std::string& what, const std::string& instead)
{
  std::string text = render_journal(full(), here);
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), instead);
}

TEST(UndoJournal, ReadsWhatItWrote)
{
  EXPECT_EQ(parse_journal(render_journal(full(), here), here).journal, full());
  EXPECT_EQ(parse_journal(render_journal({}, here), here).journal, UndoJournal {});
}

TEST(UndoJournal, HoldsForOneBootAndOneNamespace)
{
  for (const JournalPlace& other : { JournalPlace { "other", here.space }, JournalPlace { here.boot, 1 } })
  {
    const ReadJournal read = parse_journal(render_journal(full(), here), other);
    EXPECT_TRUE(read.journal.empty());
    EXPECT_EQ(read.fault, "");
  }
}

TEST(UndoJournal, BadInputIsRefused)
{
  const std::string good = render_journal(full(), here);
  std::vector<std::string> bad { "", "{", "[]", "null", "7", good + "x", R"({"version": 1})" };
  for (std::size_t length = 1; length + 2 < good.size(); length += 7)
    bad.push_back(good.substr(0, length));
  bad.push_back(with("\"version\": 1", "\"version\": 2"));
  bad.push_back(with("192.0.2.1", "192.0.2.1/8"));
  bad.push_back(with("192.0.2.1", "; drop"));
  bad.push_back(with("\"id\": 1", "\"id\": 256"));
  bad.push_back(with("\"id\": 1", "\"id\": -1"));
  bad.push_back(with("\"id\": 1", "\"id\": 1.5"));
  bad.push_back(with("\"id\": 7", "\"id\": 0")); // of a foreign endpoint it is known
  bad.push_back(with("\"ifindex\": 3", "\"ifindex\": 99999999999"));
  bad.push_back(with("\"before\": false", "\"before\": 0"));
  bad.push_back(with("\"subflows\": 1", "\"subflows\": 9")); // the kernel has no such limit
  bad.push_back(with("\"own\"", "\"mine\""));
  for (const std::string& text : bad)
  {
    const ReadJournal read = parse_journal(text, here);
    EXPECT_NE(read.fault, "") << text;
    EXPECT_TRUE(read.journal.empty()) << text;
  }
}

class SteeringFile : public testing::Test
{
protected:
  void SetUp() override
  {
    std::string pattern = (std::filesystem::temp_directory_path() / "steering-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory = pattern;
    path = (directory / "steering.json").string();
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  std::filesystem::path directory {};
  std::string path {};
};

TEST_F(SteeringFile, ReplacesAndRemoves)
{
  EXPECT_EQ(read_journal(path).fault, "");
  EXPECT_EQ(write_journal(path, full()), "");
  EXPECT_EQ(read_journal(path).journal, full());
  EXPECT_EQ(write_journal(path, {}), "");
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(write_journal(path, {}), "");
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

TEST_F(SteeringFile, OthersCannotMakeTandemUndoThings)
{
  ASSERT_EQ(write_journal(path, full()), "");
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_NE(read_journal(path).fault, "");
  const std::string link = (directory / "link.json").string();
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  EXPECT_NE(read_journal(link).fault, "");
  EXPECT_NE(read_journal(directory.string()).fault, "");
  std::ofstream { path } << std::string(100'000, ' ');
  EXPECT_EQ(read_journal(path).fault, "too long");
}

TEST_F(SteeringFile, ADirectoryThatIsNotThereIsSaid)
{
  EXPECT_NE(write_journal((directory / "no" / "such").string(), full()), "");
}

} // namespace
} // namespace tandem::kernel
