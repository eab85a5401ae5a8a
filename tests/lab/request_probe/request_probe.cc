// LinkRequests what its knobs say of the link that they name, whenever a flow has something to say, and tells what it
// saw.
#include <tandem/knob_table.h>
#include <tandem/module.h>

#include <array>

namespace tandem
{
namespace
{

struct Knobs
{
  double link = 3; // wifi_link(1)
  double ce_rate = 0;
  double backup = 0;
  double endpoint = 1;
};

constexpr Knob first { .name = "link",
                       .type = KnobType::integer,
                       .minimum = 0,
                       .maximum = link_count - 1,
                       .initial = 3,
                       .help = "number of the link that is requested about" };
constexpr std::array<KnobRow<Knobs>, 3> rows {
  KnobRow<Knobs> { { .name = "ce_rate", .type = KnobType::real, .maximum = 1, .help = "share of marks" },
                   &Knobs::ce_rate },
  KnobRow<Knobs> { { .name = "backup", .type = KnobType::boolean, .maximum = 1, .help = "backup" }, &Knobs::backup },
  KnobRow<Knobs> { { .name = "endpoint", .type = KnobType::boolean, .maximum = 1, .help = "there is to be one" },
                   &Knobs::endpoint },
};
constexpr auto all = knob_table(first, rows);

struct Seen
{
  std::uint64_t arriving = 0, leaving = 0, queued = 0, elsewhere = 0;
};

class RequestProbe final : public FlowModule<Seen>
{
public:
  std::string_view name() const override { return "request_probe"; }
  std::string_view summary() const override { return "For tests."; }
  std::string_view manual() const override { return "For tests."; }
  std::span<const Knob> knobs() const override { return all; }
  void set(std::string_view knob, double value) override
  {
    if (knob == first.name) knobs_.link = value;
    set_knob(knobs_, rows, knob, value);
  }
  double get(std::string_view knob) const override
  {
    return knob == first.name ? knobs_.link : get_knob(knobs_, rows, knob);
  }
  Interest interest() const override
  {
    return { .observe = traffic::egress_pure_ack | traffic::ingress_data, .radio = true, .every_link = true };
  }

  Plan decide(const Event& event, const FlowView& flow, Seen& seen) override
  {
    if (event.kind == EventKind::switched_off) return {};
    if (event.segment != nullptr)
    {
      ++(event.segment->direction == Direction::egress ? seen.leaving : seen.arriving);
      seen.queued += event.queued ? 1 : 0;
      seen.elsewhere += event.segment->link != flow.link ? 1 : 0;
    }
    const auto link = static_cast<Link>(knobs_.link);
    requests_ = { LinkRequest { RequestKind::ce_rate, link, knobs_.ce_rate },
                  LinkRequest { RequestKind::mptcp_backup, link, knobs_.backup },
                  LinkRequest { RequestKind::mptcp_endpoint, link, knobs_.endpoint } };
    return { .request = requests_, .why = "probe: as the knobs say" };
  }

  void describe(const FlowView&, const Seen& seen, Facts& facts) const override
  {
    facts.add("arriving", static_cast<double>(seen.arriving));
    facts.add("leaving", static_cast<double>(seen.leaving));
    facts.add("queued", static_cast<double>(seen.queued));
    facts.add("elsewhere", static_cast<double>(seen.elsewhere));
  }

private:
  Knobs knobs_ {};
  std::array<LinkRequest, 3> requests_ {};
};

TANDEM_MODULE(RequestProbe);

} // namespace
} // namespace tandem
