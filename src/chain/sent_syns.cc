#include "src/chain/sent_syns.h"

#include <algorithm>

namespace tandem::chain
{

void SentSyns::note(const Segment& syn, Tick now)
{
  const std::size_t whole = std::size_t { syn.ip_header_length } + syn.tcp_header_length + syn.payload_length;
  // In the place of an older one of the same flow, so that a long try does not crowd the others out.
  auto place =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.length != 0 && one.flow == syn.key; });
  if (syn.bytes.size() < whole || whole > longest || whole == 0)
  {
    // What is kept of the ports is of a connection that is over.
    if (place != kept_.end()) place->length = 0;
    return;
  }
  if (place == kept_.end())
  {
    place = kept_.begin() + static_cast<std::ptrdiff_t>(next_);
    next_ = (next_ + 1) % kept_.size();
  }
  place->flow = syn.key;
  place->sent = now;
  place->timestamps = syn.timestamps;
  place->length = static_cast<std::uint8_t>(whole);
  std::copy_n(syn.bytes.begin(), whole, place->packet.begin());
}

std::optional<SentSyns::Syn> SentSyns::find(const FlowKey& flow, Tick now) const
{
  for (const Kept& one : kept_)
    if (one.length != 0 && one.flow == flow && now - one.sent <= kept_for)
      return Syn { std::span { one.packet }.first(one.length), one.sent, one.timestamps };
  return {};
}

} // namespace tandem::chain
