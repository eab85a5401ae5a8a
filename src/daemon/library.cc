#include "src/daemon/library.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

namespace tandem::daemon
{

namespace
{

// Whether the file holds all that its program headers promise. dlopen() maps without looking: a torn file ends the
// daemon by SIGBUS.
bool is_whole_library(const std::filesystem::path& file)
{
  std::ifstream in { file, std::ios::binary | std::ios::ate };
  const auto size = static_cast<std::uint64_t>(std::max<std::streamoff>(in.tellg(), 0));
  in.seekg(0);
  Elf64_Ehdr head {};
  if (!in.read(reinterpret_cast<char*>(&head), sizeof head)) return false;
  if (!std::equal(head.e_ident, head.e_ident + SELFMAG, ELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64
      || head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum == 0)
    return false;
  in.seekg(static_cast<std::streamoff>(head.e_phoff));
  for (unsigned i = 0; i < head.e_phnum; ++i)
  {
    Elf64_Phdr part {};
    if (!in.read(reinterpret_cast<char*>(&part), sizeof part)) return false;
    if (part.p_offset > size || part.p_filesz > size - part.p_offset) return false;
  }
  return true;
}

std::string torn(const std::filesystem::path& file)
{
  return file.string() + ": is not a whole shared library (torn or of another kind); install it again";
}

} // namespace

std::string insecure(const std::filesystem::path& path)
{
  struct stat info
  {
  };
  if (stat(path.c_str(), &info) != 0) return path.string() + ": cannot be read";
  if (info.st_uid != 0)
    return path.string() + ": belongs to user " + std::to_string(info.st_uid)
           + ", not to root; use `chown root` if you trust it";
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return path.string() + ": others than root may write it; use `chmod go-w`";
  return {};
}

std::string library_problem(const std::filesystem::path& file)
{
  std::string problem = insecure(file);
  return problem.empty() && !is_whole_library(file) ? torn(file) : problem;
}

void* open_library(const std::filesystem::path& file, std::string& problem)
{
  problem = is_whole_library(file) ? std::string {} : torn(file);
  if (!problem.empty()) return nullptr;
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) problem = file.string() + ": " + dlerror();
  return handle;
}

} // namespace tandem::daemon
