#include "src/kernel/packet/bpf.h"

#include <tandem/module.h>

#include <linux/if_packet.h>

#include <stdexcept>

namespace tandem::kernel
{

namespace
{

constexpr std::uint32_t fin = 0x01, syn = 0x02, rst = 0x04;
constexpr std::uint32_t protocol_tcp = 6;

// Forward jumps by label: an instruction names where to go, finish() turns names into offsets.
class Assembler
{
public:
  using Label = std::size_t;
  static constexpr Label next = static_cast<Label>(-1); // fall through

  Label label()
  {
    places_.push_back(unset);
    return places_.size() - 1;
  }
  void place(Label l) { places_[l] = code_.size(); }

  void op(std::uint16_t code, std::uint32_t k = 0) { code_.push_back({ { code, 0, 0, k }, next, next }); }
  void jump_if(std::uint16_t comparison, std::uint32_t k, Label yes, Label no)
  {
    code_.push_back({ { static_cast<std::uint16_t>(BPF_JMP | comparison), 0, 0, k }, yes, no });
  }
  void go(Label there) { jump_if(BPF_JEQ | BPF_K, 0, there, there); }

  BpfProgram finish() const
  {
    BpfProgram program;
    for (std::size_t i = 0; i < code_.size(); ++i)
    {
      sock_filter instruction = code_[i].instruction;
      instruction.jt = offset(i, code_[i].yes);
      instruction.jf = offset(i, code_[i].no);
      program.push_back(instruction);
    }
    return program;
  }

private:
  struct Line
  {
    sock_filter instruction;
    Label yes;
    Label no;
  };
  static constexpr std::size_t unset = static_cast<std::size_t>(-1);

  std::uint8_t offset(std::size_t from, Label to) const
  {
    if (to == next) return 0;
    std::size_t place = places_[to];
    if (place == unset || place <= from || place - from - 1 > 255) throw std::logic_error { "bpf: jump out of reach" };
    return static_cast<std::uint8_t>(place - from - 1);
  }

  std::vector<Line> code_ {};
  std::vector<std::size_t> places_ {};
};

constexpr std::uint32_t flags_slot = 0; // scratch memory

// Leaves the TCP flags in scratch memory and jumps to `payload` or `empty`; to `reject` for what is no whole first TCP
// header.
void split_v4(Assembler& a, Assembler::Label payload, Assembler::Label empty, Assembler::Label reject)
{
  a.op(BPF_LD | BPF_B | BPF_ABS, 9);
  a.jump_if(BPF_JEQ | BPF_K, protocol_tcp, Assembler::next, reject);
  a.op(BPF_LD | BPF_H | BPF_ABS, 6);
  a.jump_if(BPF_JSET | BPF_K, 0x1fff, reject, Assembler::next); // a later fragment has no TCP header
  a.op(BPF_LDX | BPF_B | BPF_MSH, 0);                           // X = IP header length
  a.op(BPF_LD | BPF_B | BPF_IND, 13);
  a.op(BPF_ST, flags_slot);
  a.op(BPF_LD | BPF_B | BPF_IND, 12);
  a.op(BPF_ALU | BPF_RSH | BPF_K, 2);
  a.op(BPF_ALU | BPF_AND | BPF_K, 0x3c);
  a.op(BPF_ALU | BPF_ADD | BPF_X);
  a.op(BPF_MISC | BPF_TAX); // X = both headers
  a.op(BPF_LD | BPF_H | BPF_ABS, 2);
  a.jump_if(BPF_JEQ | BPF_K, 0, payload, Assembler::next); // beyond 65535 bytes the field holds zero
  a.jump_if(BPF_JGT | BPF_X, 0, payload, empty);
}

void split_v6(Assembler& a, Assembler::Label payload, Assembler::Label empty, Assembler::Label reject)
{
  a.op(BPF_LD | BPF_B | BPF_ABS, 6);
  a.jump_if(BPF_JEQ | BPF_K, protocol_tcp, Assembler::next, reject);
  a.op(BPF_LD | BPF_B | BPF_ABS, 53);
  a.op(BPF_ST, flags_slot);
  a.op(BPF_LD | BPF_B | BPF_ABS, 52);
  a.op(BPF_ALU | BPF_RSH | BPF_K, 2);
  a.op(BPF_ALU | BPF_AND | BPF_K, 0x3c);
  a.op(BPF_MISC | BPF_TAX);
  a.op(BPF_LD | BPF_H | BPF_ABS, 4);
  a.jump_if(BPF_JEQ | BPF_K, 0, payload, Assembler::next); // jumbogram
  a.jump_if(BPF_JGT | BPF_X, 0, payload, empty);
}

} // namespace

BpfProgram traffic_filter(std::uint32_t traffic, bool egress, bool v6)
{
  const bool data = traffic & (egress ? traffic::egress_data : traffic::ingress_data);
  const bool bare = traffic & (egress ? traffic::egress_pure_ack : traffic::ingress_ack);
  // Arriving FIN and RST count as "without payload"; leaving ones have a bit of their own.
  const bool closing = egress ? (traffic & traffic::egress_closing) != 0 : bare;

  Assembler a;
  auto payload = a.label(), empty = a.label(), yes = a.label(), no = a.label();
  if (v6)
    split_v6(a, payload, empty, no);
  else
    split_v4(a, payload, empty, no);

  a.place(payload);
  a.op(BPF_LD | BPF_MEM, flags_slot);
  a.jump_if(BPF_JSET | BPF_K, syn, no, Assembler::next);
  if (data)
    a.go(yes);
  else if (egress && closing)
    a.jump_if(BPF_JSET | BPF_K, fin | rst, yes, no);
  else
    a.go(no);

  a.place(empty);
  a.op(BPF_LD | BPF_MEM, flags_slot);
  a.jump_if(BPF_JSET | BPF_K, syn, no, Assembler::next);
  a.jump_if(BPF_JSET | BPF_K, fin | rst, closing ? yes : no, bare ? yes : no);

  a.place(yes);
  a.op(BPF_RET | BPF_K, 1);
  a.place(no);
  a.op(BPF_RET | BPF_K, 0);
  return a.finish();
}

BpfProgram observer_filter(const Sampling& sampling, std::uint32_t snap)
{
  Assembler a;
  auto v6 = a.label(), payload = a.label(), empty = a.label(), yes = a.label(), no = a.label();
  auto version_else = a.label();
  a.op(BPF_LD | BPF_B | BPF_ABS, 0);
  a.op(BPF_ALU | BPF_RSH | BPF_K, 4);
  a.jump_if(BPF_JEQ | BPF_K, 4, Assembler::next, version_else);
  split_v4(a, payload, empty, no);
  a.place(version_else);
  a.jump_if(BPF_JEQ | BPF_K, 6, v6, no);
  a.place(v6);
  split_v6(a, payload, empty, no);

  auto sample = [&](std::uint32_t one_in)
  {
    if (one_in <= 1)
    {
      a.go(one_in == 1 ? yes : no);
      return;
    }
    a.op(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_RANDOM));
    a.jump_if(BPF_JGT | BPF_K, 0xffff'ffffu / one_in, no, yes);
  };
  auto judge = [&](std::uint32_t leaving, std::uint32_t arriving)
  {
    a.op(BPF_LD | BPF_MEM, flags_slot);
    a.jump_if(BPF_JSET | BPF_K, syn | fin | rst, yes, Assembler::next);
    auto out = a.label(), in = a.label();
    a.op(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE));
    a.jump_if(BPF_JEQ | BPF_K, PACKET_OUTGOING, out, in);
    a.place(out);
    sample(leaving);
    a.place(in);
    sample(arriving);
  };
  a.place(payload);
  judge(sampling.egress_data, sampling.ingress_data);
  a.place(empty);
  judge(sampling.egress_ack, sampling.ingress_ack);

  a.place(yes);
  a.op(BPF_RET | BPF_K, snap);
  a.place(no);
  a.op(BPF_RET | BPF_K, 0);
  return a.finish();
}

std::string bytecode(const BpfProgram& program)
{
  std::string text = std::to_string(program.size());
  for (const sock_filter& i : program)
    text += "," + std::to_string(i.code) + " " + std::to_string(i.jt) + " " + std::to_string(i.jf) + " "
            + std::to_string(i.k);
  return text;
}

} // namespace tandem::kernel
