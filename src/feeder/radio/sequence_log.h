// Which numbers of a sender's sequence never came. Pure.
#pragma once

#include <bitset>
#include <cstdint>

namespace tandem::feeder
{

// Sequence numbers have 12 bits (IEEE 802.11-2016, 9.2.4.4). A number counts as lost when frames so far ahead of it
// have come: none or a few without block acknowledgements (a beacon may go out between two attempts of a frame), else
// the window of those, 64.
class SequenceLog
{
public:
  struct Taken
  {
    bool fresh = false; // not seen before
    int lost = 0;       // numbers that count as lost from now on; -1: one that counted as lost has come after all
  };
  Taken take(std::uint16_t number);
  // A number that may be of another counter: it is taken when it comes soon after the highest one, else nothing
  // happens.
  Taken take_near(std::uint16_t number);
  // Frames come out of order from now on: block acknowledgements are in use.
  void expect_disorder() { ahead_ = block; }
  // How far ahead that is.
  unsigned ahead() const { return ahead_; }
  void forget() { started_ = false; }

private:
  static constexpr unsigned range = 4096;
  static constexpr unsigned block = 64;  // frames of a block acknowledgement
  static constexpr unsigned few = 4;     // out of order without block acknowledgements
  static constexpr unsigned known = 256; // numbers that are remembered

  Taken restart(std::uint16_t number);

  std::bitset<known> seen_ {};
  std::uint16_t highest_ = 0;
  std::uint16_t open_ = 0; // the first number that is not decided yet
  unsigned ahead_ = 0;
  bool started_ = false;
};

} // namespace tandem::feeder
