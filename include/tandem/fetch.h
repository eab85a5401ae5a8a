// Bytes of a plaintext download fetched a second time, over the cellular link: all that a module says and hears of it.
//
// It takes a service beside the daemon (docs/decisions/0007), which is loaded while an enabled module's
// Interest::content asks for it: flows on the configured ports are followed, and FlowView::content is kept while a
// cellular link is there. A module then
//   asks    by Plan::fetch, for a hole of the download;
//   hears   by EventKind::fetched and a FetchResult what became of it;
//   closes  the hole by a InjectedKind::fill of a range for which the result said ok.
// The guard's part is src/chain/guard_fetch.h.
#pragma once

#include <tandem/seq.h>
#include <tandem/units.h>

#include <cstdint>
#include <string_view>

namespace tandem
{

// What is known of the answer that the flow carries now, for Interest::content.
enum class Content : std::uint8_t
{
  unknown, // nothing was looked at: another port, no module wants it, or the answer has not begun
  http,    // a plaintext HTTP/1.1 download, followed byte for byte: Plan::fetch may ask for parts of it
  refused, // looked at, and nothing is to be fetched of it
};

constexpr std::string_view name(Content content)
{
  switch (content)
  {
  case Content::unknown:
    return "unknown";
  case Content::http:
    return "http";
  case Content::refused:
    return "refused";
  }
  return "?";
}

// How bytes are got a second time, over the cellular link (docs/decisions/0007).
enum class FetchHow : std::uint8_t
{
  range,  // an HTTP Range request of its own
  replay, // the request once more on a mirror connection, everything else acknowledged unread
};

constexpr std::string_view name(FetchHow how)
{
  return how == FetchHow::range ? "range" : "replay";
}

// The request to have the bytes [from, to) of the flow's download. The answer is one EventKind::fetched for each, by
// the deadline or soon after. Only while FlowView::content is http.
struct Fetch
{
  FetchHow how = FetchHow::range;
  Seq from {};      // a hole: behind bytes that this host holds
  Seq to {};        // and before some
  Tick deadline {}; // the bytes are of no use later
};

// What became of a Fetch.
struct FetchResult
{
  FetchHow how = FetchHow::range;
  Seq from {}; // as asked for
  Seq to {};
  bool ok = false; // the bytes are here, compared with what arrived on both sides: InjectedKind::fill may use them
  std::string_view why {}; // literal: the reason when not ok
  // Not ok, and no Fetch of this download by the same way ever will be.
  bool final = false;
  Duration took {}; // from asking to having
};

// A InjectedKind::fill is fetched bytes as one segment of the server handed to the LOCAL TCP: closes a hole. Of the
// InjectedSegment `seq`, `length` and `timestamps` count; value: FlowView::ts_recent, so that the ACK it causes echoes
// nothing younger than the last one did; echo: 0 or a TSval that left. `ack` and `window` are the last the server sent,
// whatever is written there. Only of a range for which EventKind::fetched said ok.
//
// One segment is one IP packet over the loopback interface.
constexpr std::uint32_t longest_fill = 32768; // bytes

} // namespace tandem
