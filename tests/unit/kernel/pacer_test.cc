#include "src/kernel/pacing/pacer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

namespace tandem::kernel
{
namespace
{

constexpr std::uint32_t unlimited = pacing_unlimited;

// Sockets as the kernel keeps them.
struct Kernel
{
  std::map<std::uint64_t, std::uint32_t> rates {};
  int walks = 0;
  int untidy = 0;   // so many looks without a bound socket until it is tidy
  int fail_at = -1; // this walk changes everything, and then fails
  std::string refuse {};
  std::string why {};
  bool traces = true;
};

class Fake final : public SocketPacing
{
public:
  explicit Fake(Kernel& kernel) : kernel_ { kernel } {}
  std::string why() const override { return kernel_.why; }
  std::string how() const override { return "a map"; }
  bool leaves_traces() const override { return kernel_.traces; }
  bool untidy() const override { return kernel_.untidy > 0; }
  void apply(std::span<SocketPace> sockets) override
  {
    if (sockets.empty()) --kernel_.untidy;
    for (SocketPace& one : sockets)
    {
      const auto at = kernel_.rates.find(one.cookie);
      if (at == kernel_.rates.end()) continue;
      one.found = true;
      one.before = at->second;
      if (one.set == 0 || one.only_if != at->second) continue;
      if (!kernel_.refuse.empty())
        one.error = kernel_.refuse;
      else
        at->second = one.set;
    }
    if (kernel_.walks++ == kernel_.fail_at) throw std::runtime_error { "out of sockets" };
  }

private:
  Kernel& kernel_;
};

struct Pacing : testing::Test
{
  Pacing() : file { std::filesystem::temp_directory_path() / ("pacer_test-" + std::to_string(::getpid())) }
  {
    kernel.rates = { { 1, unlimited }, { 2, unlimited }, { 3, 1000 } };
  }
  ~Pacing() override { std::filesystem::remove(file); }
  std::unique_ptr<Pacer> make() { return std::make_unique<Pacer>(file.string(), std::make_unique<Fake>(kernel)); }
  std::string noted() const
  {
    std::ifstream in { file };
    return { std::istreambuf_iterator<char> { in }, {} };
  }
  // As after kill -9: what the killed pacer knew is in the file alone.
  void kill(std::unique_ptr<Pacer> pacer)
  {
    const auto rates = kernel.rates;
    const std::string text = noted();
    pacer.reset();
    kernel.rates = rates;
    std::ofstream { file } << text;
    std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }

  Kernel kernel {};
  std::filesystem::path file;
};

TEST_F(Pacing, bounds_those_sockets_alone_and_puts_back_what_was_there)
{
  auto pacer = make();
  pacer->carry_out({ { { 1, 500 } } });
  EXPECT_EQ(kernel.rates, (std::map<std::uint64_t, std::uint32_t> { { 1, 500 }, { 2, unlimited }, { 3, 1000 } }));
  EXPECT_TRUE(pacer->in_force());
  pacer->carry_out({ { { 1, 700 }, { 2, 600 } } });
  EXPECT_EQ(kernel.rates[1], 700u);
  EXPECT_EQ(kernel.rates[2], 600u);
  pacer->carry_out({});
  EXPECT_EQ(kernel.rates[1], unlimited);
  EXPECT_EQ(kernel.rates[2], unlimited);
  EXPECT_EQ(pacer->state().begun, 2u);
  EXPECT_EQ(pacer->state().restored, 2u);
  EXPECT_EQ(noted(), "");
  EXPECT_FALSE(pacer->in_force());
}

TEST_F(Pacing, never_raises_a_bound_of_the_application)
{
  auto pacer = make();
  pacer->carry_out({ { { 3, 5000 } } });
  EXPECT_EQ(kernel.rates[3], 1000u);
  EXPECT_EQ(pacer->state().lower, 1u);
  pacer->carry_out({});
  pacer->carry_out({ { { 3, 400 } } });
  EXPECT_EQ(kernel.rates[3], 400u);
  pacer->carry_out({ { { 3, 5000 } } });
  EXPECT_EQ(kernel.rates[3], 1000u) << "the lower one of both holds";
  pacer.reset();
  EXPECT_EQ(kernel.rates[3], 1000u);
}

TEST_F(Pacing, what_the_application_sets_meanwhile_stays)
{
  auto pacer = make();
  pacer->carry_out({ { { 1, 500 } } });
  kernel.rates[1] = 900;
  pacer->carry_out({ { { 1, 550 } } });
  EXPECT_EQ(kernel.rates[1], 900u);
  EXPECT_EQ(pacer->state().taken, 1u);
  pacer.reset();
  EXPECT_EQ(kernel.rates[1], 900u);
}

TEST_F(Pacing, a_socket_that_ended_is_forgotten)
{
  auto pacer = make();
  pacer->carry_out({ { { 1, 500 }, { 77, 500 } } });
  kernel.rates.erase(1);
  pacer->carry_out({ { { 1, 600 } } });
  EXPECT_EQ(pacer->state().gone, 1u);
  EXPECT_FALSE(pacer->in_force());
  EXPECT_EQ(noted(), "");
}

TEST_F(Pacing, what_a_killed_run_left_behind_is_lifted_at_the_next_start)
{
  auto pacer = make();
  pacer->carry_out({ { { 1, 500 }, { 2, 600 } } });
  kernel.rates[2] = 800; // the application's, since
  kill(std::move(pacer));
  EXPECT_EQ(kernel.rates[1], 500u);
  pacer = make();
  EXPECT_EQ(kernel.rates[1], unlimited);
  EXPECT_EQ(kernel.rates[2], 800u);
  EXPECT_NE(pacer->state().recovered, "");
  EXPECT_EQ(noted(), "");
}

TEST_F(Pacing, a_walk_that_fails_in_the_middle_loses_nothing)
{
  auto pacer = make();
  pacer->carry_out({ { { 1, 500 } } });
  kernel.fail_at = kernel.walks + 1; // reads, changes, fails
  pacer->carry_out({ { { 1, 700 } } });
  EXPECT_NE(pacer->state().last_error, "");
  EXPECT_EQ(kernel.rates[1], 700u);
  pacer->carry_out({});
  EXPECT_EQ(kernel.rates[1], unlimited);
  EXPECT_EQ(pacer->state().last_error, "");
}

TEST_F(Pacing, a_socket_that_refuses_is_told_and_keeps_its_value)
{
  auto pacer = make();
  kernel.refuse = "it is busy";
  pacer->carry_out({ { { 1, 500 } } });
  EXPECT_EQ(kernel.rates[1], unlimited);
  EXPECT_NE(pacer->state().last_error.find("it is busy"), std::string::npos);
  EXPECT_EQ(pacer->state().paced, 0u);
  EXPECT_EQ(pacer->state().begun, 0u);
  EXPECT_EQ(noted(), "");
  kernel.refuse.clear();
  pacer->carry_out({ { { 1, 510 } } });
  EXPECT_EQ(kernel.rates[1], 510u) << "asked again";
  EXPECT_EQ(pacer->state().begun, 1u);
}

TEST_F(Pacing, one_that_refuses_to_be_let_go_is_not_forgotten)
{
  auto pacer = make();
  pacer->carry_out({ { { 1, 500 } } });
  kernel.refuse = "it is busy";
  pacer->carry_out({});
  EXPECT_TRUE(pacer->in_force());
  EXPECT_NE(noted(), "");
  kernel.refuse.clear();
  pacer->carry_out({});
  EXPECT_EQ(kernel.rates[1], unlimited);
  EXPECT_EQ(noted(), "");
}

TEST_F(Pacing, notes_nothing_of_what_is_known_without_and_keeps_the_note_of_who_needs_it)
{
  auto pacer = make();
  pacer->carry_out({ { { 1, 500 } } });
  kill(std::move(pacer));
  const std::string note = noted();
  kernel.traces = false;
  pacer = make();
  EXPECT_NE(pacer->state().recovered, "");
  pacer->carry_out({ { { 2, 500 } } });
  EXPECT_EQ(kernel.rates[2], 500u);
  pacer.reset();
  EXPECT_EQ(kernel.rates[2], unlimited);
  EXPECT_EQ(noted(), note);
}

TEST_F(Pacing, is_lifted_while_the_packet_loop_hangs)
{
  auto pacer = make();
  pacer->carry_out({ { { 1, 500 } } });
  pacer->suspend();
  EXPECT_EQ(kernel.rates[1], unlimited);
  pacer->resume();
  EXPECT_EQ(kernel.rates[1], 500u);
}

TEST_F(Pacing, what_could_not_be_taken_away_at_once_goes_later)
{
  auto pacer = make();
  pacer->carry_out({ { { 1, 500 } } });
  pacer->carry_out({});
  kernel.untidy = 2; // the interface is busy
  EXPECT_TRUE(pacer->untidy());
  pacer->carry_out({});
  EXPECT_EQ(kernel.untidy, 1) << "a plan is a look";
  EXPECT_TRUE(pacer->untidy());
  pacer->tidy();
  EXPECT_FALSE(pacer->untidy());
  const int walks = kernel.walks;
  pacer->tidy();
  pacer->carry_out({});
  EXPECT_EQ(kernel.walks, walks) << "no look without need";
}

TEST_F(Pacing, does_nothing_where_it_cannot_and_keeps_the_note_for_who_can)
{
  auto pacer = make();
  pacer->carry_out({ { { 1, 500 } } });
  kill(std::move(pacer));
  kernel.why = "no BPF";
  pacer = make();
  pacer->carry_out({ { { 2, 500 } } });
  EXPECT_EQ(kernel.rates[2], unlimited);
  EXPECT_NE(pacer->state().recovered, "");
  pacer.reset();
  kernel.why.clear();
  pacer = make();
  EXPECT_EQ(kernel.rates[1], unlimited);
}

TEST(pacing_plan, refuses_what_cannot_be_meant)
{
  EXPECT_THROW(validate({ { { 0, 5 } } }), std::invalid_argument);
  EXPECT_THROW(validate({ { { 1, 0 } } }), std::invalid_argument);
  EXPECT_THROW(validate({ { { 1, pacing_unlimited } } }), std::invalid_argument);
  EXPECT_THROW(parse_bound("{}"), std::exception);
  EXPECT_TRUE(parse_bound("").empty());
}

} // namespace
} // namespace tandem::kernel
