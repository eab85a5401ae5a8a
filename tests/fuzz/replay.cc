// Runs every file of a corpus directory through a fuzz entry point, so that a defect once found stays found without
// clang.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace
{

int replay(const std::filesystem::path& corpus)
{
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator { corpus })
  {
    if (!entry.is_regular_file()) continue;
    std::ifstream in { entry.path(), std::ios::binary };
    // Exactly as large as the input: a read beyond it is an error that the sanitizers see.
    const std::vector<char> held { std::istreambuf_iterator<char> { in }, {} };
    if (!in.good() && !in.eof())
    {
      std::fprintf(stderr, "%s: cannot be read\n", entry.path().c_str());
      return 1;
    }
    std::fprintf(stderr, "%s\n", entry.path().filename().c_str());
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(held.data()), held.size());
    ++files;
  }
  std::printf("%zu inputs replayed from %s\n", files, corpus.c_str());
  return files == 0 ? 1 : 0;
}

} // namespace

int main(int argc, char** argv)
{
  if (argc != 2)
  {
    std::fprintf(stderr, "usage: %s CORPUS_DIRECTORY\n", argv[0]);
    return 2;
  }
  try
  {
    return replay(argv[1]);
  }
  catch (const std::exception& error)
  {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 1;
  }
}
