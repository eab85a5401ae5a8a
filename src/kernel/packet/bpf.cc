#include "src/kernel/packet/bpf.h"

#include <tandem/classify.h>

#include <linux/if_packet.h>

#include <stdexcept>

namespace tandem::kernel
{

namespace
{

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

// Leaves the TCP flags in scratch memory and jumps to `payload` or `empty`; to `reject` for what is no whole segment
// right behind a plain IP header.
void split(Assembler& a, bool v6, Assembler::Label payload, Assembler::Label empty, Assembler::Label reject)
{
  const std::uint32_t tcp = v6 ? 40 : 20;
  if (!v6)
  {
    a.op(BPF_LD | BPF_B | BPF_ABS, 0);
    a.jump_if(BPF_JEQ | BPF_K, 0x45, Assembler::next, reject); // no IP options
    a.op(BPF_LD | BPF_H | BPF_ABS, 6);
    a.jump_if(BPF_JSET | BPF_K, 0x3fff, reject, Assembler::next); // no fragment, not the first one either
  }
  a.op(BPF_LD | BPF_B | BPF_ABS, v6 ? 6 : 9);
  a.jump_if(BPF_JEQ | BPF_K, protocol_tcp, Assembler::next, reject);
  a.op(BPF_LD | BPF_B | BPF_ABS, tcp + 13);
  a.op(BPF_ST, flags_slot);
  a.op(BPF_LD | BPF_B | BPF_ABS, tcp + 12);
  a.op(BPF_ALU | BPF_RSH | BPF_K, 2);
  a.op(BPF_ALU | BPF_AND | BPF_K, 0x3c);
  // IPv4's length counts its own header, that of IPv6 does not.
  if (!v6) a.op(BPF_ALU | BPF_ADD | BPF_K, tcp);
  a.op(BPF_MISC | BPF_TAX);
  a.op(BPF_LD | BPF_H | BPF_ABS, v6 ? 4 : 2);
  a.jump_if(BPF_JEQ | BPF_K, 0, payload, Assembler::next); // beyond 65535 bytes the field holds zero
  a.jump_if(BPF_JGT | BPF_X, 0, payload, empty);
}

// The rows of the table for one direction, with payload or without, as jumps: `where(rule)` is the label for a segment
// of that row.
template <class Where>
void judge(Assembler& a, Direction direction, bool payload, Where where)
{
  a.op(BPF_LD | BPF_MEM, flags_slot);
  for (const KindRule& rule : kind_rules)
  {
    if (!rule.concerns(direction, payload)) continue;
    const Assembler::Label there = where(rule);
    if (rule.flags == 0) return a.go(there);
    a.jump_if(BPF_JSET | BPF_K, rule.flags, rule.set ? there : Assembler::next, rule.set ? Assembler::next : there);
  }
}

} // namespace

BpfProgram traffic_filter(std::uint32_t traffic, bool egress, bool v6)
{
  const Direction direction = egress ? Direction::egress : Direction::ingress;
  Assembler a;
  auto payload = a.label(), empty = a.label(), yes = a.label(), no = a.label();
  const auto where = [&](const KindRule& rule) { return (traffic & rule.kind & ~traffic::handshake) != 0 ? yes : no; };
  split(a, v6, payload, empty, no);
  a.place(payload);
  judge(a, direction, true, where);
  a.place(empty);
  judge(a, direction, false, where);
  a.place(yes);
  a.op(BPF_RET | BPF_K, 1);
  a.place(no);
  a.op(BPF_RET | BPF_K, 0);
  return a.finish();
}

BpfProgram observer_filter(const Sampling& sampling, std::uint32_t snap)
{
  Assembler a;
  auto v4 = a.label(), v6 = a.label(), payload = a.label(), empty = a.label(), sample = a.label(), yes = a.label(),
       no = a.label();
  const auto where = [&](const KindRule& rule)
  {
    if ((sampling.queued & rule.kind) != 0) return no;
    if (rule.always_observed) return yes;
    return (sampling.kinds & rule.kind) != 0 ? sample : no;
  };
  const auto judge_both = [&](bool with_payload)
  {
    auto out = a.label(), in = a.label();
    a.op(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE));
    a.jump_if(BPF_JEQ | BPF_K, PACKET_OUTGOING, out, in);
    a.place(out);
    judge(a, Direction::egress, with_payload, where);
    a.place(in);
    judge(a, Direction::ingress, with_payload, where);
  };
  a.op(BPF_LD | BPF_B | BPF_ABS, 0);
  a.op(BPF_ALU | BPF_RSH | BPF_K, 4);
  a.jump_if(BPF_JEQ | BPF_K, 6, v6, v4);
  a.place(v4);
  split(a, false, payload, empty, no);
  a.place(v6);
  split(a, true, payload, empty, no);
  a.place(payload);
  judge_both(true);
  a.place(empty);
  judge_both(false);

  a.place(sample);
  if (sampling.one_in > 1)
  {
    a.op(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_RANDOM));
    a.jump_if(BPF_JGT | BPF_K, 0xffff'ffffu / sampling.one_in, no, yes);
  }
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
