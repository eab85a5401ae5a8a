// A queue whose kernel refuses: verdicts for which there is no room or no memory, and a number that another program
// has. A binary of its own, because it replaces the system calls of netlink sockets.
#include "src/kernel/packet/packet_queue.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <set>
#include <string>
#include <system_error>
#include <vector>

namespace
{

using Bytes = std::vector<char>;

constexpr std::uint16_t of_queue = NFNL_SUBSYS_QUEUE << 8;
constexpr std::size_t small_send_buffer = 64 * 1024; // net.core.wmem_default of whoever saves memory

std::deque<Bytes> to_read {};
std::set<std::uint32_t> waiting {};  // ids of packets without a verdict
std::set<std::uint32_t> replaced {}; // whose verdict brought other bytes
std::size_t send_buffer = 0;
int without_memory = 0; // so many messages are refused
int refusals = 0;       // of the order to bind, as many
uid_t user = 0;

template <class Value>
void append(Bytes& to, const Value& value)
{
  const auto* bytes = reinterpret_cast<const char*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

void say_ended(const nlmsghdr& order, int code)
{
  Bytes answer {};
  append(answer, nlmsghdr { NLMSG_LENGTH(sizeof(nlmsgerr)), NLMSG_ERROR, 0, order.nlmsg_seq, order.nlmsg_pid });
  append(answer, nlmsgerr { .error = -code, .msg = order });
  to_read.push_back(answer);
}

// The attribute of that type; nullptr: there is none.
const nlattr* attribute(const nlmsghdr* message, int type)
{
  std::size_t at = NLMSG_LENGTH(sizeof(nfgenmsg));
  while (at + sizeof(nlattr) <= message->nlmsg_len)
  {
    const auto* one = reinterpret_cast<const nlattr*>(reinterpret_cast<const char*>(message) + at);
    if (one->nla_type == type) return one;
    at += NLA_ALIGN(one->nla_len);
  }
  return nullptr;
}

void take_verdict(const nlmsghdr* message)
{
  nfqnl_msg_verdict_hdr verdict {};
  std::memcpy(&verdict, attribute(message, NFQA_VERDICT_HDR) + 1, sizeof verdict);
  const std::uint32_t id = ntohl(verdict.id);
  if (attribute(message, NFQA_PAYLOAD) != nullptr) replaced.insert(id);
  if (message->nlmsg_type == (of_queue | NFQNL_MSG_VERDICT_BATCH))
    std::erase_if(waiting, [id](std::uint32_t one) { return static_cast<std::int32_t>(one - id) <= 0; });
  else
    waiting.erase(id);
}

void take_message(const nlmsghdr* message)
{
  if (message->nlmsg_type == (of_queue | NFQNL_MSG_VERDICT)
      || message->nlmsg_type == (of_queue | NFQNL_MSG_VERDICT_BATCH))
    return take_verdict(message);
  if ((message->nlmsg_flags & NLM_F_ACK) != 0) say_ended(*message, refusals > 0 ? (--refusals, EPERM) : 0);
}

void packet_comes(std::uint32_t id, std::size_t length)
{
  const auto padded = static_cast<std::uint32_t>(NLA_ALIGN(length));
  Bytes bytes {};
  append(bytes, nlmsghdr { .nlmsg_len = static_cast<std::uint32_t>(NLMSG_LENGTH(sizeof(nfgenmsg)) + 12 + 4 + padded),
                           .nlmsg_type = of_queue | NFQNL_MSG_PACKET,
                           .nlmsg_flags = 0,
                           .nlmsg_seq = 0,
                           .nlmsg_pid = 0 });
  append(bytes, nfgenmsg {});
  append(bytes, nlattr { .nla_len = 4 + 7, .nla_type = NFQA_PACKET_HDR });
  append(bytes, nfqnl_msg_packet_hdr { .packet_id = htonl(id), .hw_protocol = htons(ETH_P_IP), .hook = 0 });
  bytes.push_back(0);
  append(bytes, nlattr { .nla_len = static_cast<std::uint16_t>(4 + length), .nla_type = NFQA_PAYLOAD });
  bytes.push_back(0x45);
  bytes.resize(bytes.size() + padded - 1);
  to_read.push_back(bytes);
  waiting.insert(id);
}

ssize_t read_one(void* to, std::size_t room)
{
  if (to_read.empty())
  {
    errno = EAGAIN;
    return -1;
  }
  const Bytes one = to_read.front();
  to_read.pop_front();
  const std::size_t length = std::min(room, one.size());
  std::memcpy(to, one.data(), length);
  return static_cast<ssize_t>(length);
}

} // namespace

extern "C"
{
  int socket(int, int, int)
  {
    send_buffer = small_send_buffer;
    return static_cast<int>(syscall(SYS_socket, AF_UNIX, SOCK_DGRAM, 0));
  }

  int bind(int, const sockaddr*, socklen_t)
  {
    return 0;
  }

  int setsockopt(int, int level, int option, const void* value, socklen_t size)
  {
    int number = 0;
    if (level == SOL_SOCKET && (option == SO_SNDBUF || option == SO_SNDBUFFORCE) && size == sizeof number)
    {
      std::memcpy(&number, value, sizeof number);
      send_buffer = 2 * static_cast<std::size_t>(number);
    }
    return 0;
  }

  // As netlink_sendmsg() of the kernel.
  ssize_t send(int, const void* bytes, std::size_t length, int)
  {
    errno = length > send_buffer - 32 ? EMSGSIZE : without_memory > 0 ? (--without_memory, ENOBUFS) : 0;
    if (errno != 0) return -1;
    for (std::size_t at = 0; at + sizeof(nlmsghdr) <= length;)
    {
      const auto* message = reinterpret_cast<const nlmsghdr*>(static_cast<const char*>(bytes) + at);
      take_message(message);
      at += NLMSG_ALIGN(message->nlmsg_len);
    }
    return static_cast<ssize_t>(length);
  }

  ssize_t recv(int, void* to, std::size_t room, int)
  {
    return read_one(to, room);
  }

  int recvmmsg(int, mmsghdr* messages, unsigned most, int, timespec*)
  {
    unsigned count = 0;
    for (; count < most && !to_read.empty(); ++count)
      messages[count].msg_len = static_cast<unsigned>(
          read_one(messages[count].msg_hdr.msg_iov->iov_base, messages[count].msg_hdr.msg_iov->iov_len));
    if (count > 0) return static_cast<int>(count);
    errno = EAGAIN;
    return -1;
  }

  uid_t geteuid() noexcept
  {
    return user;
  }
}

namespace tandem::kernel
{
namespace
{

class PacketQueueTest : public testing::Test
{
protected:
  void SetUp() override
  {
    to_read.clear();
    waiting.clear();
    replaced.clear();
    without_memory = refusals = 0;
    user = 0;
  }
};

// Edited in place, as it is.
constexpr auto edited = [](QueuedPacket& packet) { return Decision { .bytes = packet.bytes }; };

// net.core.wmem_default may be smaller than one super-packet.
TEST_F(PacketQueueTest, the_verdict_on_an_edited_super_packet_has_room)
{
  PacketQueue queue { {} };
  packet_comes(1, 65500);
  EXPECT_EQ(queue.receive(edited), 1u);
  EXPECT_THAT(waiting, testing::IsEmpty());
  EXPECT_THAT(replaced, testing::ElementsAre(1u));
  EXPECT_EQ(queue.stats().verdict_errors, 0u);
}

TEST_F(PacketQueueTest, a_packet_whose_verdict_is_lost_passes)
{
  PacketQueue queue { {} };
  packet_comes(1, 100);
  without_memory = 1;
  EXPECT_EQ(queue.receive(edited), 1u);
  EXPECT_THAT(waiting, testing::IsEmpty());
  EXPECT_THAT(replaced, testing::IsEmpty());
  EXPECT_EQ(queue.stats().verdict_errors, 1u);
}

TEST_F(PacketQueueTest, as_soon_as_the_kernel_has_memory_again)
{
  PacketQueue queue { {} };
  packet_comes(1, 100);
  without_memory = 2;
  queue.receive(edited);
  ASSERT_THAT(waiting, testing::ElementsAre(1u));
  packet_comes(2, 100);
  queue.receive(edited);
  EXPECT_THAT(waiting, testing::IsEmpty());
  EXPECT_THAT(replaced, testing::ElementsAre(2u));
}

// As the packaged service runs: a user of its own, with the capability.
class QueueOfAServiceTest : public PacketQueueTest
{
protected:
  void SetUp() override
  {
    PacketQueueTest::SetUp();
    static const bool permitted = syscall(SYS_geteuid) == 0 || ::unshare(CLONE_NEWUSER) == 0;
    if (!permitted) GTEST_SKIP() << "no capabilities here";
    user = 1000;
  }
};

TEST_F(QueueOfAServiceTest, a_queue_that_another_program_has_is_no_missing_permission)
{
  refusals = 1000;
  try
  {
    PacketQueue queue { {} };
    FAIL() << "it is taken";
  }
  catch (const std::system_error& error)
  {
    EXPECT_THAT(error.what(), testing::HasSubstr("another program listens on it"));
  }
}

TEST_F(QueueOfAServiceTest, it_waits_for_a_keeper_that_is_just_cleaning_up)
{
  refusals = 2;
  EXPECT_NO_THROW(PacketQueue { {} });
}

} // namespace
} // namespace tandem::kernel
