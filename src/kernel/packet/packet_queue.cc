#include "src/kernel/packet/packet_queue.h"

#include "src/kernel/check.h"
#include "src/kernel/clock.h"
#include "src/kernel/fd.h"
#include "src/kernel/netlink_dump.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <linux/capability.h>
#include <linux/if_ether.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>

namespace tandem::kernel
{

namespace
{

constexpr std::size_t batch = 32;                 // messages read by one system call
constexpr std::size_t slot_size = 0x10000 + 4096; // a packet of the largest copy range plus its attributes
constexpr std::size_t verdict_room = 192 * 1024;  // of one message to the kernel; its socket has room for it
// Sleeping and waking up cost a packet of a dialogue about five microseconds. So the next one is waited for awake, for
// a time that most answers on one machine or a fast LAN need, as long as the ones before came that soon.
constexpr Duration follows_soon = std::chrono::microseconds { 25 };
constexpr unsigned dialogue = 16; // packets that came alone
constexpr Duration poll_longest = std::chrono::microseconds { 20 };
constexpr std::size_t verdict_headroom = 128;         // headers of one verdict message
constexpr std::uint32_t release_sequence = 0x7e1ea5e; // tells the answers to release_waiting() from those to verdicts

// The service runs as a user of its own, with this capability.
bool may_administer_networks() noexcept
{
  __user_cap_header_struct of { .version = _LINUX_CAPABILITY_VERSION_3, .pid = 0 };
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets {};
  return ::syscall(SYS_capget, &of, sets.data()) == 0 && (sets[0].effective & (1u << CAP_NET_ADMIN)) != 0;
}

// What a run of verdicts has in common, so that one message can carry them all.
struct Run
{
  bool open = false;
  bool drop = false;
  std::optional<std::uint32_t> mark {};
  std::uint32_t last_id = 0;
  std::uint32_t count = 0;
};

} // namespace

struct PacketQueue::Parts
{
  std::size_t wanted = 1;   // messages asked for at once
  unsigned alone = 0;       // packets in a row that came one at a time: a dialogue, not a transfer
  bool found_empty = false; // since the packet before
  bool polls = false;       // the next packet is waited for awake
  Tick finished {};         // when the last verdicts were sent

  QueueOptions options {};
  QueueStats stats {};
  Fd socket {};
  std::byte* slots = nullptr; // batch * slot_size; untouched pages cost nothing
  std::array<mmsghdr, batch> messages {};
  std::array<iovec, batch> vectors {};
  std::array<char, verdict_room> verdicts {};
  std::size_t verdicts_used = 0;
  bool unanswered = false; // verdicts have been lost
  Run run {};

  ~Parts()
  {
    if (slots) munmap(slots, batch * slot_size);
  }

  // Sends one configuration message and returns the kernel's answer as an errno.
  int configure(nlmsghdr* message)
  {
    static std::uint32_t sequence = 0;
    message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
    message->nlmsg_seq = ++sequence;
    if (::send(socket.get(), message, message->nlmsg_len, 0) < 0) return errno;
    alignas(nlmsghdr) std::array<char, 8192> answer;
    while (true)
    {
      ssize_t length = ::recv(socket.get(), answer.data(), answer.size(), MSG_TRUNC);
      if (length < 0) return errno;
      const auto* header = reinterpret_cast<const nlmsghdr*>(answer.data());
      if (header->nlmsg_type != NLMSG_ERROR || header->nlmsg_seq != message->nlmsg_seq) continue;
      return -static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(header))->error;
    }
  }

  int bind_once()
  {
    alignas(nlmsghdr) std::array<char, 512> buffer {};
    nlmsghdr* message = nfq_nlmsg_put(buffer.data(), NFQNL_MSG_CONFIG, options.number);
    nfq_nlmsg_cfg_put_cmd(message, AF_UNSPEC, NFQNL_CFG_CMD_BIND);
    return configure(message);
  }

  void bind_queue()
  {
    // A keeper that is just cleaning up after a killed daemon still holds the queue for some milliseconds.
    // To whoever may listen the kernel says "not permitted" of a queue that another program has.
    const bool permitted = may_administer_networks();
    int code = 0;
    for (int attempt = 0; attempt < 20; ++attempt)
    {
      code = bind_once();
      if (code != EBUSY && code != EPERM) break;
      if (code == EPERM && !permitted) break;
      std::this_thread::sleep_for(std::chrono::milliseconds { 50 });
    }
    const std::string what = "bind netfilter queue " + std::to_string(options.number);
    if (code == EBUSY || (code == EPERM && permitted))
      fail(what + " (another program listens on it: stop that one or choose another queue number)", code);
    if (code == EPERM) fail(what + " (needs root or CAP_NET_ADMIN)", code);
    if (code == EINVAL || code == EPROTONOSUPPORT) fail(what + " (kernel without nfnetlink_queue)", code);
    check_code(what, code);

    alignas(nlmsghdr) std::array<char, 512> buffer {};
    nlmsghdr* message = nfq_nlmsg_put(buffer.data(), NFQNL_MSG_CONFIG, options.number);
    nfq_nlmsg_cfg_put_params(message, NFQNL_COPY_PACKET, static_cast<int>(options.copy_range));
    nfq_nlmsg_cfg_put_qmaxlen(message, options.max_length);
    std::uint32_t flags = NFQA_CFG_F_FAIL_OPEN;
    if (options.gso) flags |= NFQA_CFG_F_GSO;
    mnl_attr_put_u32(message, NFQA_CFG_FLAGS, htonl(flags));
    mnl_attr_put_u32(message, NFQA_CFG_MASK, htonl(flags));
    check_code("set the parameters of netfilter queue " + std::to_string(options.number), configure(message));
    // Rules are loaded after the queue is up; should a stray one have fed it meanwhile, its packets were read as
    // answers.
    release_waiting(socket.get(), options.number);
  }

  // Whether to look again instead of sleeping: what comes that soon costs less time waited for than slept for.
  bool may_poll()
  {
    polls = polls && now() - finished < poll_longest;
    found_empty = true;
    return polls;
  }

  // Each side of a dialogue waits for the other, so that a processor is free; a transfer needs it for itself.
  void note_arrival(std::size_t count)
  {
    // Two that happen to meet end no dialogue, twice in a row they do.
    alone = count == 1 && found_empty ? std::min(alone + 1, 4 * dialogue) : alone / 4;
    polls = polls && alone >= dialogue;
    found_empty = false;
  }

  // Reads up to `wanted` messages; returns how many, or -1 with errno. A lone one by the call that costs least.
  int receive() noexcept
  {
    if (wanted > 1)
      return recvmmsg(socket.get(), messages.data(), static_cast<unsigned>(wanted), MSG_DONTWAIT, nullptr);
    const ssize_t length = ::recv(socket.get(), slots, slot_size, MSG_DONTWAIT);
    if (length < 0) return -1;
    messages[0].msg_len = static_cast<unsigned>(length);
    return 1;
  }

  void flush_verdicts() noexcept
  {
    if (verdicts_used == 0) return;
    if (::send(socket.get(), verdicts.data(), verdicts_used, 0) < 0)
    {
      ++stats.verdict_errors;
      unanswered = true;
    }
    verdicts_used = 0;
  }

  // Packets whose verdicts the kernel did not take (no memory) would wait forever: they pass as they are.
  void let_unanswered_pass() noexcept
  {
    if (unanswered && release_waiting(socket.get(), options.number)) unanswered = false;
  }

  nlmsghdr* new_verdict(int type, std::uint32_t id, bool drop, std::size_t payload)
  {
    if (verdicts_used + payload + verdict_headroom > verdicts.size()) flush_verdicts();
    nlmsghdr* message = nfq_nlmsg_put(verdicts.data() + verdicts_used, type, options.number);
    nfq_nlmsg_verdict_put(message, static_cast<int>(id), drop ? NF_DROP : NF_ACCEPT);
    ++stats.verdict_messages;
    return message;
  }

  void close_run() noexcept
  {
    if (!run.open) return;
    // A batch verdict covers every waiting packet up to this id; those before the run have theirs already.
    int type = run.count == 1 ? NFQNL_MSG_VERDICT : NFQNL_MSG_VERDICT_BATCH;
    nlmsghdr* message = new_verdict(type, run.last_id, run.drop, 0);
    if (run.mark) nfq_nlmsg_verdict_put_mark(message, *run.mark);
    verdicts_used += MNL_ALIGN(message->nlmsg_len);
    run.open = false;
  }

  void answer(std::uint32_t id, const Decision& decision) noexcept
  {
    if (!decision.drop && !decision.bytes.empty() && decision.bytes.size() <= 0xffff)
    {
      close_run();
      ++stats.replaced;
      nlmsghdr* message = new_verdict(NFQNL_MSG_VERDICT, id, false, decision.bytes.size());
      if (decision.mark) nfq_nlmsg_verdict_put_mark(message, *decision.mark);
      nfq_nlmsg_verdict_put_pkt(message, decision.bytes.data(), static_cast<std::uint32_t>(decision.bytes.size()));
      verdicts_used += MNL_ALIGN(message->nlmsg_len);
      return;
    }
    const std::optional<std::uint32_t> mark = decision.drop ? std::nullopt : decision.mark;
    ++(decision.drop ? stats.dropped : mark ? stats.marked : stats.accepted);
    if (run.open && (run.drop != decision.drop || run.mark != mark)) close_run();
    run = { .open = true, .drop = decision.drop, .mark = mark, .last_id = id, .count = run.open ? run.count + 1 : 1 };
  }
};

PacketQueue::PacketQueue(const QueueOptions& options) : parts_ { std::make_unique<Parts>() }
{
  Parts& p = *parts_;
  p.options = options;
  p.socket = Fd { static_cast<int>(
      check("open a netfilter socket", ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER))) };
  sockaddr_nl self {};
  self.nl_family = AF_NETLINK;
  check("bind a netfilter socket", ::bind(p.socket.get(), reinterpret_cast<sockaddr*>(&self), sizeof self));

  // A full socket must not turn into an error for us or a drop for the packet: the kernel lets it pass (fail-open).
  int one = 1;
  check("set NETLINK_NO_ENOBUFS", setsockopt(p.socket.get(), SOL_NETLINK, NETLINK_NO_ENOBUFS, &one, sizeof one));
  int size = options.receive_buffer;
  if (setsockopt(p.socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
    check("set the receive buffer of the netfilter socket",
          setsockopt(p.socket.get(), SOL_SOCKET, SO_RCVBUF, &size, sizeof size));

  // The kernel takes no message that is longer than the send buffer, and net.core.wmem_default may be any.
  const int verdicts = static_cast<int>(verdict_room);
  if (setsockopt(p.socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, &verdicts, sizeof verdicts) < 0)
    check("set the send buffer of the netfilter socket",
          setsockopt(p.socket.get(), SOL_SOCKET, SO_SNDBUF, &verdicts, sizeof verdicts));

  void* memory = mmap(nullptr, batch * slot_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc {};
  p.slots = static_cast<std::byte*>(memory);
  for (std::size_t i = 0; i < batch; ++i)
  {
    p.vectors[i] = { p.slots + i * slot_size, slot_size };
    p.messages[i].msg_hdr.msg_iov = &p.vectors[i];
    p.messages[i].msg_hdr.msg_iovlen = 1;
  }
  p.bind_queue();
}

PacketQueue::~PacketQueue()
{
  // Unbinding, rather than only closing, also ends the queue while the keeper still holds a copy of the socket.
  Parts& p = *parts_;
  alignas(nlmsghdr) std::array<char, 512> buffer {};
  nlmsghdr* message = nfq_nlmsg_put(buffer.data(), NFQNL_MSG_CONFIG, p.options.number);
  nfq_nlmsg_cfg_put_cmd(message, AF_UNSPEC, NFQNL_CFG_CMD_UNBIND);
  release_waiting(p.socket.get(), p.options.number);
  (void)::send(p.socket.get(), message, message->nlmsg_len, 0);
}

int PacketQueue::fd() const
{
  return parts_->socket.get();
}

const QueueOptions& PacketQueue::options() const
{
  return parts_->options;
}

const QueueStats& PacketQueue::stats() const
{
  return parts_->stats;
}

void PacketQueue::set_copy_range(std::uint32_t bytes) noexcept
{
  if (bytes == parts_->options.copy_range) return;
  parts_->options.copy_range = bytes;
  alignas(nlmsghdr) std::array<char, 512> buffer {};
  nlmsghdr* message = nfq_nlmsg_put(buffer.data(), NFQNL_MSG_CONFIG, parts_->options.number);
  nfq_nlmsg_cfg_put_params(message, NFQNL_COPY_PACKET, static_cast<int>(bytes));
  if (::send(parts_->socket.get(), message, message->nlmsg_len, 0) < 0) ++parts_->stats.verdict_errors;
}

std::size_t PacketQueue::drain(Call call, void* context, std::size_t limit) noexcept
{
  Parts& p = *parts_;
  std::size_t taken = 0;
  Tick arrival = now();
  // Packets that already waited when the last ones were answered come in batches. A lone packet is read by a call that
  // asks for no second one, which is a system call and most of a microsecond less for it.
  constexpr Duration at_once = std::chrono::microseconds { 3 };
  p.found_empty = arrival - p.finished >= at_once;
  p.polls = p.alone >= dialogue && arrival - p.finished < follows_soon;
  p.wanted = arrival - p.finished < at_once ? std::min(batch, p.wanted * 2) : std::max<std::size_t>(1, p.wanted / 2);
  while (taken < limit)
  {
    const int count = p.receive();
    if (count < 0)
    {
      if (errno == EINTR || (errno == EAGAIN && p.may_poll())) continue;
      if (errno == ENOBUFS)
      {
        ++p.stats.overruns;
        continue;
      }
      break;
    }
    p.note_arrival(static_cast<std::size_t>(count));
    if (taken > 0) arrival = now();
    for (int i = 0; i < count; ++i)
    {
      auto* message = reinterpret_cast<nlmsghdr*>(p.slots + static_cast<std::size_t>(i) * slot_size);
      int left = static_cast<int>(p.messages[static_cast<std::size_t>(i)].msg_len);
      for (; message_fits(message, left); message = mnl_nlmsg_next(message, &left))
      {
        if (message->nlmsg_type == NLMSG_ERROR)
        {
          const auto* error = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(message));
          int code = -error->error;
          if (error->msg.nlmsg_seq == release_sequence) continue; // nothing was waiting
          if (code == ENOENT)
            ++p.stats.late_verdicts;
          else if (code != 0)
            ++p.stats.verdict_errors;
          continue;
        }
        if (message->nlmsg_type != ((NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_PACKET)) continue;
        QueueMessage parsed;
        if (!parse(*message, parsed)) continue;
        ++p.stats.received;
        p.stats.bytes += parsed.packet.bytes.size();
        Decision decision {};
        if (parsed.packet.cut) ++p.stats.truncated;
        if (!parsed.readable)
          ++p.stats.unparsable;
        else
        {
          parsed.packet.arrival = arrival;
          try
          {
            decision = call(context, parsed.packet);
          }
          catch (...)
          {
            ++p.stats.sink_faults;
            decision = {};
          }
          // What was not seen whole cannot be sent on changed, and is not for us to drop.
          if (parsed.packet.cut) decision = { .mark = decision.mark };
        }
        p.answer(parsed.packet.id, decision);
      }
    }
    // The verdicts refer to the receive buffers' bytes only by copy, but a packet should not wait for the next batch.
    p.close_run();
    p.flush_verdicts();
    p.let_unanswered_pass();
    taken += static_cast<std::size_t>(count);
    p.finished = now();
    // Timers wait meanwhile, but not for longer than one batch takes.
    if (static_cast<std::size_t>(count) < batch && (!p.polls || taken >= batch)) break;
  }
  return taken;
}

std::optional<KernelQueueStats> PacketQueue::kernel_stats() const
{
  std::FILE* file = std::fopen("/proc/self/net/netfilter/nfnetlink_queue", "re");
  if (!file) return {};
  std::optional<KernelQueueStats> found;
  std::array<char, 256> line;
  while (std::fgets(line.data(), line.size(), file))
  {
    unsigned number, port, waiting, mode, range;
    unsigned long long queue_drops, user_drops, id;
    if (std::sscanf(line.data(), "%u %u %u %u %u %llu %llu %llu", &number, &port, &waiting, &mode, &range, &queue_drops,
                    &user_drops, &id)
            == 8
        && number == parts_->options.number)
      found = KernelQueueStats { waiting, queue_drops, user_drops, id };
  }
  std::fclose(file);
  return found;
}

bool release_waiting(int fd, std::uint16_t number) noexcept
{
  // A batch verdict reaches the ids up to half the number circle behind its own, so two cover the circle; the first is
  // repeated because the queue is walked in order of arrival and an id may wrap inside it.
  alignas(nlmsghdr) std::array<char, 512> buffer {};
  std::size_t used = 0;
  for (std::uint32_t id : { 0x7fff'ffffu, 0xffff'ffffu, 0x7fff'ffffu })
  {
    nlmsghdr* message = nfq_nlmsg_put(buffer.data() + used, NFQNL_MSG_VERDICT_BATCH, number);
    message->nlmsg_seq = release_sequence;
    nfq_nlmsg_verdict_put(message, static_cast<int>(id), NF_ACCEPT);
    used += MNL_ALIGN(message->nlmsg_len);
  }
  return ::send(fd, buffer.data(), used, MSG_DONTWAIT) >= 0;
}

} // namespace tandem::kernel
