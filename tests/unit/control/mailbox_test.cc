#include "src/control/mailbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace tandem::control
{
namespace
{

using namespace std::chrono_literals;

// A packet thread as the engine has one: it sleeps until notified, then runs what waits.
class PacketThread
{
public:
  explicit PacketThread(std::size_t capacity = 64)
      : box { [this]
              {
                const std::lock_guard lock { mutex_ };
                woken_ = true;
                wake_.notify_one();
              },
              capacity }
  {
    thread_ = std::thread { [this] { run(); } };
  }
  ~PacketThread() { end(); }

  void end()
  {
    stop_ = true;
    {
      const std::lock_guard lock { mutex_ };
      woken_ = true;
      wake_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

  Mailbox box;

private:
  void run()
  {
    box.bind_to_this_thread();
    while (!stop_)
    {
      {
        std::unique_lock lock { mutex_ };
        wake_.wait(lock, [this] { return woken_; });
        woken_ = false;
      }
      while (box.run_pending() > 0)
      {
      }
    }
    box.close();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = false;
  std::atomic<bool> stop_ { false };
  std::thread thread_;
};

TEST(Mailbox, runs_in_the_packet_thread_and_brings_the_result_back)
{
  PacketThread packets;
  const auto there = packets.box.ask([] { return std::this_thread::get_id(); });
  EXPECT_NE(there, std::this_thread::get_id());
  EXPECT_EQ(packets.box.ask([] { return std::string { "withheld" }; }), "withheld");
}

TEST(Mailbox, work_without_a_result_and_with_a_move_only_one)
{
  PacketThread packets;
  int touched = 0;
  packets.box.ask([&] { touched = 7; });
  EXPECT_EQ(touched, 7);
  EXPECT_EQ(*packets.box.ask([] { return std::make_unique<int>(3); }), 3);
}

TEST(Mailbox, asking_from_the_packet_thread_itself_does_not_wait_for_itself)
{
  PacketThread packets;
  EXPECT_EQ(packets.box.ask([&] { return packets.box.ask([] { return 5; }); }), 5);
}

TEST(Mailbox, a_refusal_keeps_its_kind_and_words)
{
  PacketThread packets;
  try
  {
    packets.box.ask([]() -> int { throw Refused { Refused::Kind::bad_request, "no module named rocket" }; });
    FAIL() << "the refusal was lost";
  }
  catch (const Refused& refused)
  {
    EXPECT_EQ(refused.kind, Refused::Kind::bad_request);
    EXPECT_STREQ(refused.what(), "no module named rocket");
  }
}

TEST(Mailbox, another_exception_becomes_a_conflict)
{
  PacketThread packets;
  try
  {
    packets.box.ask([] { throw std::runtime_error { "no route" }; });
    FAIL() << "the exception was lost";
  }
  catch (const Refused& refused)
  {
    EXPECT_EQ(refused.kind, Refused::Kind::conflict);
    EXPECT_STREQ(refused.what(), "no route");
  }
}

TEST(Mailbox, a_packet_thread_that_does_not_answer_is_busy_and_the_work_never_begins)
{
  Mailbox box { [] {} };
  bool ran = false;
  const auto before = std::chrono::steady_clock::now();
  try
  {
    box.ask([&] { ran = true; }, 20ms);
    FAIL() << "nobody was there to answer";
  }
  catch (const Refused& refused)
  {
    EXPECT_EQ(refused.kind, Refused::Kind::busy);
  }
  EXPECT_GE(std::chrono::steady_clock::now() - before, 20ms);
  EXPECT_EQ(box.run_pending(), 1u); // the abandoned task is still taken out ...
  EXPECT_FALSE(ran);                // ... but what it refers to is gone, so it must not run
}

TEST(Mailbox, work_that_has_begun_is_waited_for_beyond_the_timeout)
{
  PacketThread packets;
  EXPECT_EQ(packets.box.ask(
                []
                {
                  std::this_thread::sleep_for(60ms);
                  return 1;
                },
                20ms),
            1);
}

TEST(Mailbox, is_bounded)
{
  Mailbox box { [] {}, 3 };
  int ran = 0;
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(box.post([&] { ++ran; }));
  EXPECT_FALSE(box.post([&] { ++ran; }));
  EXPECT_THROW(box.ask([] {}, 1s), Refused);
  EXPECT_EQ(box.run_pending(2), 2u);
  EXPECT_TRUE(box.pending());
  EXPECT_TRUE(box.post([&] { ++ran; }));
  EXPECT_EQ(box.run_pending(10), 2u);
  EXPECT_EQ(ran, 4);
  EXPECT_FALSE(box.pending());
}

TEST(Mailbox, keeps_the_order)
{
  Mailbox box { [] {}, 4 };
  std::string seen;
  for (const char letter : std::string { "abcdefgh" })
  {
    box.post([&seen, letter] { seen += letter; });
    if (letter == 'c' || letter == 'f') box.run_pending();
  }
  box.run_pending();
  EXPECT_EQ(seen, "abcdefgh");
}

TEST(Mailbox, a_posted_task_that_throws_does_not_end_the_packet_loop)
{
  Mailbox box { [] {} };
  bool after = false;
  box.post([] { throw std::runtime_error { "fault" }; });
  box.post([&] { after = true; });
  EXPECT_EQ(box.run_pending(), 2u);
  EXPECT_TRUE(after);
}

TEST(Mailbox, a_closed_box_refuses)
{
  PacketThread packets;
  packets.end();
  EXPECT_FALSE(packets.box.post([] {}));
  try
  {
    packets.box.ask([] {});
    FAIL() << "the box is closed";
  }
  catch (const Refused& refused)
  {
    EXPECT_EQ(refused.kind, Refused::Kind::busy);
    EXPECT_STREQ(refused.what(), "the daemon is stopping");
  }
}

// The test that matters under ThreadSanitizer: many askers, one packet thread with state of its own, a close amid it.
TEST(Mailbox, many_askers_and_a_close_amid_them)
{
  PacketThread packets { 4 };
  long counter = 0; // touched by the packet thread only
  std::atomic<long> answered { 0 };
  std::atomic<long> refused { 0 };
  std::array<std::thread, 4> askers;
  for (auto& asker : askers)
    asker = std::thread { [&]
                          {
                            for (int i = 0; i < 2000; ++i)
                            {
                              try
                              {
                                if (packets.box.ask([&] { return ++counter; }, i % 7 == 0 ? 1us : 1s) > 0) ++answered;
                              }
                              catch (const Refused&)
                              {
                                ++refused;
                              }
                            }
                          } };
  while (answered < 500)
    std::this_thread::yield();
  packets.end();
  for (auto& asker : askers)
    asker.join();
  EXPECT_EQ(counter, answered);
  EXPECT_EQ(answered + refused, 4 * 2000);
}

} // namespace
} // namespace tandem::control
