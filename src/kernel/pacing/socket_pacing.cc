// The program is a few instructions, written here by hand: a compiler for BPF would be a large dependency of the build.
// Nothing in it depends on the layout of a kernel's structures, so nothing has to be relocated: its context
// (bpf_iter__tcp: metadata, socket) is fixed, everything else is asked of helpers.
#include "src/kernel/pacing/socket_pacing.h"

#include "src/kernel/fd.h"
#include "src/kernel/pacing/interface_shaping.h"

#ifdef TANDEM_BPF
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#endif
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tandem::kernel
{

namespace
{

class None final : public SocketPacing
{
public:
  explicit None(std::string why) : why_ { std::move(why) } {}
  std::string why() const override { return why_; }
  std::string how() const override { return {}; }
  bool leaves_traces() const override { return true; }
  void apply(std::span<SocketPace>) override { throw std::runtime_error { why_ }; }

private:
  std::string why_;
};

#ifdef TANDEM_BPF

// A value of the map, by cookie.
struct Entry
{
  std::uint32_t set = 0, only_if = 0;     // as in SocketPace
  std::uint32_t found = 0, before = 0;    // written by the program
  std::int32_t read_error = 0, error = 0; // likewise
};

constexpr std::uint32_t map_size = 128;

namespace bpf
{

constexpr bpf_insn make(int code, int to, int from, int offset, int value)
{
  bpf_insn one {};
  one.code = static_cast<__u8>(code);
  one.dst_reg = static_cast<__u8>(to & 15);
  one.src_reg = static_cast<__u8>(from & 15);
  one.off = static_cast<__s16>(offset);
  one.imm = value;
  return one;
}
constexpr bpf_insn load(int size, int to, int from, int offset)
{
  return make(BPF_LDX | size | BPF_MEM, to, from, offset, 0);
}
constexpr bpf_insn store(int size, int to, int offset, int from)
{
  return make(BPF_STX | size | BPF_MEM, to, from, offset, 0);
}
constexpr bpf_insn put(int to, int offset, int value)
{
  return make(BPF_ST | BPF_W | BPF_MEM, to, 0, offset, value);
}
constexpr bpf_insn copy(int to, int from)
{
  return make(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}
constexpr bpf_insn is(int to, int value)
{
  return make(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}
constexpr bpf_insn add(int to, int value)
{
  return make(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value);
}
constexpr bpf_insn call(int helper)
{
  return make(BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}
// To the end; over how many instructions is said last.
constexpr bpf_insn out_if_zero(int what)
{
  return make(BPF_JMP | BPF_JEQ | BPF_K, what, 0, 0, 0);
}
constexpr bpf_insn out_if_not_zero(int what)
{
  return make(BPF_JMP | BPF_JNE | BPF_K, what, 0, 0, 0);
}
constexpr bpf_insn out_if_differ(int one, int other)
{
  return make(BPF_JMP | BPF_JNE | BPF_X, one, other, 0, 0);
}

} // namespace bpf

// r6: the socket, r7: its entry. At fp-8: the cookie, at fp-16: the option's value.
std::vector<bpf_insn> instructions(int map)
{
  using namespace bpf;
  constexpr int fp = BPF_REG_10, cookie = -8, value = -16;
  std::vector<bpf_insn> program {};
  const auto then = [&program](std::initializer_list<bpf_insn> more)
  { program.insert(program.end(), more.begin(), more.end()); };
  const auto option = [&](int helper)
  {
    then({ copy(1, 6), is(2, SOL_SOCKET), is(3, SO_MAX_PACING_RATE), copy(4, fp), add(4, value), is(5, 4),
           call(helper) });
  };
  then({
      load(BPF_DW, 6, 1, 8), // bpf_iter__tcp::sk_common; zero after the last socket
      out_if_zero(6),
      copy(1, 6),
      call(BPF_FUNC_get_socket_cookie),
      store(BPF_DW, fp, cookie, 0),
      make(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map),
      make(0, 0, 0, 0, 0), // its second half
      copy(2, fp),
      add(2, cookie),
      call(BPF_FUNC_map_lookup_elem),
      out_if_zero(0),
      copy(7, 0),
      // A socket that has ended, or is not one yet, refuses: bpf_getsockopt looks for a full one.
      put(fp, value, 0),
  });
  option(BPF_FUNC_getsockopt);
  then({
      store(BPF_W, 7, offsetof(Entry, read_error), 0),
      put(7, offsetof(Entry, found), 1),
      out_if_not_zero(0),
      load(BPF_W, 1, fp, value),
      store(BPF_W, 7, offsetof(Entry, before), 1),
      load(BPF_W, 2, 7, offsetof(Entry, set)),
      out_if_zero(2),
      load(BPF_W, 3, 7, offsetof(Entry, only_if)),
      out_if_differ(1, 3),
      store(BPF_W, fp, value, 2),
  });
  option(BPF_FUNC_setsockopt);
  then({
      store(BPF_W, 7, offsetof(Entry, error), 0),
      is(0, 0),
      make(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
  });
  const std::size_t end = program.size() - 2;
  for (std::size_t i = 0; i < program.size(); ++i)
  {
    const int operation = program[i].code & 0xf0;
    const bool jumps = (program[i].code & 7) == BPF_JMP && (operation == BPF_JEQ || operation == BPF_JNE);
    if (jumps) program[i].off = static_cast<__s16>(end - i - 1);
  }
  return program;
}

std::string because(const char* what, int code)
{
  const std::string reason = std::strerror(code);
  if (code == EPERM || code == EACCES)
    return std::string { what } + ": " + reason
           + "; loading needs CAP_BPF and CAP_PERFMON, which the packaged service does not have (docs/confinement.md)";
  return std::string { what } + ": " + reason;
}

class Iterator final : public SocketPacing
{
public:
  explicit Iterator(const PacingProgram& program) : map_ { program.map }, link_ { program.link } {}
  std::string why() const override { return {}; }
  std::string how() const override { return "BPF"; }
  bool leaves_traces() const override { return true; }
  std::string recovered() const override { return recovered_; }

  void apply(std::span<SocketPace> sockets) override
  {
    for (std::size_t done = 0; done < sockets.size(); done += map_size)
      some(sockets.subspan(done, std::min<std::size_t>(map_size, sockets.size() - done)));
  }

private:
  void some(std::span<SocketPace> sockets)
  {
    for (const SocketPace& one : sockets)
    {
      const Entry entry { .set = one.set, .only_if = one.only_if };
      if (bpf_map_update_elem(map_, &one.cookie, &entry, BPF_ANY) == 0) continue;
      const int code = errno;
      // The next walk must not set what is not asked for any more.
      for (const SocketPace& named : sockets)
        bpf_map_delete_elem(map_, &named.cookie);
      throw std::runtime_error { because("bpf: name a socket", code) };
    }
    const int failure = walk();
    for (SocketPace& one : sockets)
    {
      Entry entry {};
      if (bpf_map_lookup_elem(map_, &one.cookie, &entry) == 0)
      {
        one.found = entry.found != 0 && entry.read_error == 0;
        one.before = entry.before;
        if (entry.error != 0) one.error = std::strerror(-entry.error);
      }
      bpf_map_delete_elem(map_, &one.cookie);
    }
    if (failure != 0) throw std::runtime_error { because("bpf: look at the sockets", failure) };
  }

  // Runs the program on each TCP socket of this network namespace. Returns an errno.
  int walk() const
  {
    const Fd iterator { bpf_iter_create(link_) };
    if (!iterator) return errno;
    std::array<char, 64> nothing {}; // is what the program writes
    for (;;)
    {
      const ssize_t count = ::read(iterator.get(), nothing.data(), nothing.size());
      if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR))) continue;
      return count == 0 ? 0 : errno;
    }
  }

  int map_, link_;
  std::string recovered_ = clear_shaping();
};

#endif

std::unique_ptr<SocketPacing> at_the_interface(const std::string& why_not_by_program)
try
{
  return make_interface_shaping();
}
catch (const std::exception& error)
{
  return std::make_unique<None>(why_not_by_program + "; nor at the interface: " + error.what());
}

} // namespace

#ifdef TANDEM_BPF

namespace
{

// Before 6.4 the iterator locks sockets with bottom halves off, which can deadlock or stall the kernel ("bpf: tcp:
// Avoid taking fast sock lock in iterator"): no bound of an upload is worth that.
bool iterator_is_sound()
{
  utsname names {};
  int major = 0, minor = 0;
  if (::uname(&names) != 0 || std::sscanf(names.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 4);
}

} // namespace

PacingProgram load_pacing_program() noexcept
try
{
  if (!iterator_is_sound()) return { .why = "the BPF iterator over TCP sockets is not safe before Linux 6.4" };
  libbpf_set_print(nullptr); // what it has to say is said by `why`
  const int target = libbpf_find_vmlinux_btf_id("tcp", BPF_TRACE_ITER);
  if (target < 0)
    return { .why = "this kernel tells no types of its own (CONFIG_DEBUG_INFO_BTF), or has no BPF iterator over TCP "
                    "sockets (CONFIG_BPF_SYSCALL)" };
  Fd map { bpf_map_create(BPF_MAP_TYPE_HASH, "tandem_pace", sizeof(std::uint64_t), sizeof(Entry), map_size, nullptr) };
  if (!map) return { .why = because("bpf: make a map", errno) };
  const auto program = instructions(map.get());
  bpf_prog_load_opts options {}; // what LIBBPF_OPTS does by an extension of C
  options.sz = sizeof options;
  options.expected_attach_type = BPF_TRACE_ITER;
  options.attach_btf_id = static_cast<__u32>(target);
  // Tandem's licence (docs/decisions/0020); the helpers that read and set options ask for it.
  const Fd loaded { bpf_prog_load(BPF_PROG_TYPE_TRACING, "tandem_pace", "GPL", program.data(), program.size(),
                                  &options) };
  if (!loaded) return { .why = because("bpf: load the program", errno) };
  Fd link { bpf_link_create(loaded.get(), 0, BPF_TRACE_ITER, nullptr) };
  if (!link) return { .why = because("bpf: attach the program", errno) };
  return { .map = map.release(), .link = link.release() };
}
catch (const std::exception&)
{
  return { .why = "out of memory" };
}

std::unique_ptr<SocketPacing> make_socket_pacing(const PacingProgram& program)
{
  if (program.map < 0 || program.link < 0) return at_the_interface(program.why);
  return std::make_unique<Iterator>(program);
}

#else

PacingProgram load_pacing_program() noexcept
{
  return { .why = "built without libbpf" };
}

std::unique_ptr<SocketPacing> make_socket_pacing(const PacingProgram& program)
{
  return at_the_interface(program.why);
}

#endif

} // namespace tandem::kernel
