#include "actors/messages/messages.h"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/message.hpp>
#include <caf/scoped_actor.hpp>
#include <limits>
#include <numeric>

#include "actors/messages/control_plane.h"
#include "actors/messages/message_checks.h"

// CAF drops a message silently if its type is not registered or cannot be read back: every type
// that crosses a process border is written and read here, inside a message as on the wire.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(messages_test)

namespace {

struct System {
  ControlPlaneConfig config{1};
  caf::actor_system system{config};
};

template <typename T>
std::vector<char> written(caf::actor_system& system, const T& value) {
  std::vector<char> bytes;
  caf::binary_serializer sink{system, bytes};
  BOOST_REQUIRE(!sink(caf::make_message(value)));
  return bytes;
}

template <typename T>
T round_trip(caf::actor_system& system, const T& value) {
  std::vector<char> bytes = written(system, value);
  caf::message copy;
  caf::binary_deserializer source{system, bytes};
  BOOST_REQUIRE(!source(copy));
  BOOST_REQUIRE(copy.match_elements<T>());
  return copy.get_as<T>(0);
}

std::uint64_t bits_of(double number) {
  return std::bit_cast<std::uint64_t>(number);
}

ConfigurationHeader some_configuration() {
  return {
      .number = 3,
      .shape = {.mesh = {.pp = 2, .dp = 2},
                .schedule = {.kind = "csv", .chunks = 1, .csv = "0F0,0B0\n"},
                .layout = {.stages = 2,
                           .chunks = {{.first_layer = 0, .end_layer = 4, .stage = 0}, {4, 6, 1}}}}};
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(configuration_orders_survive_the_wire, System) {
  const auto copy =
      round_trip(system, BeginConfiguration{.configuration = some_configuration(),
                                            .start = {.state = {.step = 4, .from_memory = true},
                                                      .checkpoint = "c",
                                                      .weights_only = true,
                                                      .sample_origin = -7,
                                                      .saves_only = true,
                                                      .digest = 9}});
  BOOST_TEST(copy.configuration.number == 3u);
  BOOST_TEST((copy.configuration.shape == some_configuration().shape));
  BOOST_TEST(copy.start.state.step == 4);
  BOOST_TEST(copy.start.state.from_memory);
  BOOST_TEST(copy.start.weights_only);
  BOOST_TEST(copy.start.sample_origin == -7);
  BOOST_TEST(copy.start.saves_only);
  BOOST_TEST(copy.start.digest == 9u);
  const std::vector<StateMove> some{{.unit = 2, .from = 1, .to = 0, .copy_of = 3, .part = 4}};
  const auto moves = round_trip(system, Moves{.configuration = 3, .moves = some});
  BOOST_TEST(moves.configuration == 3u);
  BOOST_TEST((moves.moves == some));
  const auto peers =
      round_trip(system, Peers{.configuration = 3,
                               .members = {{7,
                                            {.id = 1,
                                             .incarnation = ~0ull,
                                             .pid = 42,
                                             .host = "h",
                                             .address = std::string("\0\xff", 2),
                                             .gpu = {.index = 3, .name = "G", .uuid = "u"}}}}});
  BOOST_TEST(peers.configuration == 3u);
  BOOST_TEST(peers.members.at(7).address == std::string("\0\xff", 2));
  BOOST_TEST(peers.members.at(7).incarnation == ~0ull);
  BOOST_TEST((peers.members.at(7).gpu == WorkerGpu{.index = 3, .name = "G", .uuid = "u"}));
}

BOOST_FIXTURE_TEST_CASE(what_a_takeover_needs_survives_the_wire, System) {
  const Rejoin whole{.token = "t",
                     .member = {.id = 4, .incarnation = ~0ull, .pid = 9, .host = "h"},
                     .configuration = 5,
                     .held = {{.header = some_configuration(), .rank = 3, .reached = true}},
                     .commits = {{.step = 8,
                                  .loss = std::numeric_limits<double>::infinity(),
                                  .grad_norm = 0.1,
                                  .targets = 64}}};
  const Rejoin copy = round_trip(system, whole);
  BOOST_TEST(copy.member.incarnation == ~0ull);
  BOOST_TEST((copy.held.at(0).header.shape == some_configuration().shape));
  BOOST_TEST((copy.held.at(0).header.number == 3u && copy.held.at(0).rank == 3));
  BOOST_TEST((copy.held.at(0).reached && copy.configuration == 5u));
  const CommittedStep& commit = copy.commits.at(0);
  BOOST_TEST(bits_of(commit.loss) == bits_of(whole.commits[0].loss));
  BOOST_TEST((commit.step == 8 && commit.grad_norm == 0.1 && commit.targets == 64));
  BOOST_TEST(fault_in(copy) == "");
  const auto refused = [&](auto change) {
    Rejoin changed = whole;
    change(changed);
    return fault_in(changed);
  };
  BOOST_TEST(refused([](Rejoin& r) { r.held[0].rank = 4; }) == "a worker that is rank 4 of 4");
  BOOST_TEST(refused([](Rejoin& r) { r.configuration = 2; }) != "");
  BOOST_TEST(refused([](Rejoin& r) { r.held[0].header.shape.mesh.pp = 1 << 30; }) != "");
  BOOST_TEST(refused([](Rejoin& r) { r.commits[0].step = 0; }) != "");
  BOOST_TEST(refused([](Rejoin& r) { r.member.id = -1; }) != "");

  const auto taken = round_trip(
      system,
      TakenOver{.hello = {.host = {.name = "h1", .slots = 2}, .door = 29600}, .workers = {~0ull}});
  BOOST_TEST((taken.hello.host.name == "h1" && taken.hello.door == 29600));
  BOOST_TEST(taken.workers == std::vector<std::uint64_t>{~0ull});
  const auto state =
      round_trip(system, AgentState{.term = 3, .is_orphaned = true, .silent_s = 8.5});
  BOOST_TEST((state.term == 3u && state.is_orphaned && state.silent_s == 8.5));
  const auto begin = round_trip(system, RunBegins{.term = 2,
                                                  .wait_s = 120,
                                                  .silent_s = 3,
                                                  .token = "d",
                                                  .address = "10.0.0.1",
                                                  .port = 29600});
  BOOST_TEST((begin.term == 2u && begin.wait_s == 120 && begin.token == "d"));
  BOOST_TEST((begin.address == "10.0.0.1" && begin.port == 29600));
  BOOST_TEST(round_trip(system, NewDirector{.term = 2, .token = "d"}).token == "d");
  BOOST_TEST(round_trip(system, TakeOver{.token = "r", .term = 4}).term == 4u);
  BOOST_TEST(round_trip(system, AskAgent{.token = "r"}).token == "r");
  BOOST_TEST(round_trip(system, Resident{.incarnation = 7}).incarnation == 7u);
}

BOOST_FIXTURE_TEST_CASE(layouts_survive_the_wire, System) {
  const auto survives = [&](const Layout& layout) {
    BOOST_TEST((*chunks_of(runs_of(layout)) == layout.chunks));
    const ClusterShape shape{.mesh = {}, .schedule = {}, .layout = layout};
    const auto copy = round_trip(system, WarmUp{.order = 1, .rank = 0, .shape = shape});
    BOOST_TEST((copy.shape == shape));
  };
  survives({.stages = 1, .chunks = {}});
  survives(layout_of({1}, {0}));
  survives(layout_of({2, 2, 1, 1, 3}, {0, 1, 2, 3, 4}));
  survives(layout_of({1, 1, 1, 1, 1, 1}, {0, 1, 2, 0, 1, 2}));              // interleaved
  survives(layout_of({1, 1, 1, 1, 1, 1}, {0, 1, 2, 2, 1, 0}));              // v
  survives(layout_of({2, 1, 2}, {0, 1, 2, 2, 1, 0}));                       // two copies
  survives(layout_of({1, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 1, 1, 0, 0, 3, 2}));  // some plan
}

BOOST_AUTO_TEST_CASE(a_layout_of_many_stages_is_few_runs) {
  std::vector<int> ranks(5000);
  std::iota(ranks.begin(), ranks.end(), 0);
  BOOST_TEST(runs_of(layout_of(std::vector<int>(5000, 2), ranks)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(runs_that_are_no_layout_are_refused) {
  constexpr int kMost = std::numeric_limits<int>::max();
  const ChunkRun run{.first = {.first_layer = kMost, .end_layer = -kMost, .stage = kMost},
                     .stage_step = kMost};
  for (const int chunks : {0, -1, kMost})
    BOOST_TEST(!chunks_of({{.first = run.first, .stage_step = 1, .chunks = chunks}}));
  BOOST_TEST(chunks_of({run, run})->size() == 2u);  // meaningless, but of an allowed size
}

BOOST_FIXTURE_TEST_CASE(orders_survive_the_wire, System) {
  BOOST_TEST(round_trip(system, Hello{.version = 7, .token = "t"}).token == "t");
  caf::scoped_actor director{system};
  const Welcome welcome{.manifest = "[run]\n", .director = caf::actor_cast<caf::actor>(director)};
  BOOST_TEST(round_trip(system, welcome).manifest == "[run]\n");
  BOOST_TEST((round_trip(system, welcome).director == welcome.director));
  BOOST_TEST(round_trip(system, Join{.token = "t", .member = {.id = 2}}).member.id == 2);
  const TapRequest tap{
      .from = 1, .to = 2, .backward = true, .every = 3, .dump = true, .samples = 4};
  const auto step =
      round_trip(system, RunStep{.configuration = 1, .step = 1ll << 40, .taps = {tap}});
  BOOST_TEST(step.step == 1ll << 40);
  BOOST_TEST((step.taps == std::vector{tap}));
  BOOST_TEST(
      round_trip(system, Commit{.configuration = 1, .step = 2, .clip_factor = 0.1}).clip_factor ==
      0.1);
  BOOST_TEST(round_trip(system, Save{.configuration = 1, .step = 2, .dir = "d"}).dir == "d");
  BOOST_TEST(round_trip(system, Evaluate{.configuration = 1, .step = 2, .batch = 3}).batch == 3);
  BOOST_TEST(round_trip(system, Finish{.reason = "r"}).reason == "r");
}

BOOST_FIXTURE_TEST_CASE(counts_of_every_size_survive_the_wire, System) {
  const std::size_t of_none = written(system, DirectorBeat{}).size();
  for (int bits = 0; bits <= 64; ++bits) {
    const std::uint64_t most = bits == 0 ? 0 : ~std::uint64_t{0} >> (64 - bits);
    const DirectorBeat beat{.beat = most};
    BOOST_TEST(round_trip(system, beat).beat == most, bits);
    const std::size_t bytes = (static_cast<std::size_t>(bits) + 7) / 8;
    BOOST_TEST(written(system, beat).size() == of_none + bytes, bits);
  }
}

BOOST_FIXTURE_TEST_CASE(answers_survive_the_wire_with_every_bit_of_their_numbers, System) {
  const double inf = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  const auto copy =
      round_trip(system, Prepared{.configuration = 1,
                                  .step = 5,
                                  .rank = 3,
                                  .loss_sum = inf,
                                  .targets = 1ll << 40,
                                  .sources = {{}, {.loss_sum = nan, .targets = 1ll << 39}},
                                  .bad_microbatch = 2,
                                  .squared_norms = {nan, -0.0, 5e-324},
                                  .busy_s = 1.5,
                                  .wall_s = 2.5,
                                  .host_bytes = 1ull << 50,
                                  .network_bytes = 1ull << 51,
                                  .sent = {{.to = 1, .bytes = 1ull << 50}},
                                  .collectives = {{.group = "g", .bytes = 1ll << 50}},
                                  .large = {{.bucket = 4, .norm = nan}}});
  BOOST_TEST(bits_of(copy.loss_sum) == bits_of(inf));
  BOOST_REQUIRE(copy.squared_norms.size() == 3u);
  BOOST_TEST(bits_of(copy.squared_norms[0]) == bits_of(nan));
  BOOST_TEST(bits_of(copy.squared_norms[1]) == bits_of(-0.0));
  BOOST_TEST(bits_of(copy.squared_norms[2]) == bits_of(5e-324));
  BOOST_TEST(copy.targets == 1ll << 40);
  BOOST_REQUIRE(copy.sources.size() == 2u);
  BOOST_TEST(bits_of(copy.sources[1].loss_sum) == bits_of(nan));
  BOOST_TEST(copy.sources[1].targets == 1ll << 39);
  BOOST_TEST(copy.bad_microbatch == 2);
  BOOST_TEST(copy.sent.at(0).bytes == 1ull << 50);
  BOOST_TEST((copy.host_bytes == 1ull << 50 && copy.network_bytes == 1ull << 51));
  BOOST_TEST(copy.collectives.at(0).group == "g");
  BOOST_TEST(copy.collectives.at(0).bytes == 1ll << 50);
  BOOST_TEST(copy.large.at(0).bucket == 4);
  BOOST_TEST(bits_of(copy.large.at(0).norm) == bits_of(nan));
  const Ready ready =
      round_trip(system, Ready{.configuration = 1,
                               .rank = 0,
                               .digest = 8,
                               .parameters = {4, 5},
                               .difference = {.parameter = "p", .count = 2, .reference = 1}});
  BOOST_TEST(ready.parameters.at(1) == 5u);
  BOOST_TEST((ready.difference.parameter == "p" && ready.difference.count == 2 &&
              ready.difference.reference == 1));
  Tapped tapped{.rank = 3, .body = {.to = 4, .summary = {.norm = nan}, .file = "f", .error = ""}};
  tapped.body.summary.histogram[1] = 2;
  const TensorTapped tensor = round_trip(system, tapped).body;
  BOOST_TEST((tensor.to == 4 && tensor.file == "f"));
  BOOST_TEST(bits_of(tensor.summary.norm) == bits_of(nan));
  BOOST_TEST(tensor.summary.histogram == tapped.body.summary.histogram);
  const ParametersSeen::Row sent{
      .tensor = "w",
      .is_gradient = true,
      .whole = 9,
      .part = {
          .elements = 8, .not_finite = 1, .min = -1, .squares = nan, .counts = {{-3, 5}, {4, 6}}}};
  const auto histograms =
      round_trip(system, ParameterHistograms{.body = {.rows = {sent}}}).body.rows.at(0);
  BOOST_TEST((histograms.tensor == "w" && histograms.is_gradient && histograms.whole == 9));
  BOOST_TEST((histograms.part.elements == 8 && histograms.part.not_finite == 1));
  BOOST_TEST(histograms.part.min == -1);
  BOOST_TEST(bits_of(histograms.part.max) == bits_of(-inf));
  BOOST_TEST(bits_of(histograms.part.squares) == bits_of(nan));
  BOOST_TEST((histograms.part.counts == sent.part.counts));
  const ActionsTraced traced =
      round_trip(system, TracedActions{.body = {.actions = {{.name = "1F0", .busy_s = 1.5}},
                                                .collectives = {{.group = "g", .end_s = inf}},
                                                .complete = true}})
          .body;
  BOOST_TEST((traced.actions.at(0).name == "1F0" && traced.actions.at(0).busy_s == 1.5));
  BOOST_TEST((traced.collectives.at(0).group == "g" && traced.collectives.at(0).end_s == inf));
  BOOST_TEST(traced.complete);
  const Copied copied = round_trip(system, Copied{.configuration = 1, .step = 2, .rank = 3});
  BOOST_TEST(copied.configuration == 1u);
  BOOST_TEST(copied.step == 2);
  BOOST_TEST(copied.rank == 3);
  const Saved saved =
      round_trip(system, Saved{.configuration = 1, .step = 2, .rank = 3, .for_good = true});
  BOOST_TEST(saved.rank == 3);
  BOOST_TEST(saved.for_good);
  const auto evaluated = round_trip(
      system, Evaluated{.configuration = 1, .step = 2, .rank = 3, .loss_sum = 6, .targets = 7});
  BOOST_TEST((evaluated.loss_sum == 6 && evaluated.targets == 7));
  BOOST_TEST(round_trip(system, Failed{.configuration = 1, .kind = 65, .message = "m"}).kind == 65);
  const auto agent = round_trip(system, AgentBeat{.cpu_seconds = {{~0ull, 0.5}},
                                                  .sent_s = 2.5,
                                                  .clock = {.seconds = -1e6, .error_s = nan}});
  BOOST_TEST((agent.cpu_seconds.at(~0ull) == 0.5 && agent.sent_s == 2.5));
  BOOST_TEST((agent.clock.seconds == -1e6 && !agent.clock.is_possible()));
  BOOST_TEST(!round_trip(system, AgentBeat{}).clock.is_possible());
  const auto answer = round_trip(system, DirectorBeat{.beat = 1, .asked_s = 2.5, .sent_s = 3.5});
  BOOST_TEST((answer.asked_s == 2.5 && answer.sent_s == 3.5));
  const auto beat = round_trip(system, Heartbeat{.state = "s",
                                                 .waiting_for = "w",
                                                 .allocated = {.stage = {.weights = 1,
                                                                         .gradients = 2,
                                                                         .optimizer = 3,
                                                                         .activations = 4,
                                                                         .packed = 5},
                                                               .buckets = 6,
                                                               .collectives = 7,
                                                               .pools = 8}});
  BOOST_TEST(beat.waiting_for == "w");
  const AllocatedMemory& allocated = beat.allocated;
  BOOST_TEST((allocated.stage.weights == 1 && allocated.stage.gradients == 2 &&
              allocated.stage.optimizer == 3 && allocated.stage.activations == 4 &&
              allocated.stage.packed == 5));
  BOOST_TEST((allocated.buckets == 6 && allocated.collectives == 7 && allocated.pools == 8));
}

BOOST_FIXTURE_TEST_CASE(surveys_survive_the_wire, System) {
  const auto begun =
      round_trip(system, SurveyBegun{.survey = 1, .secret = "s", .ports = "1-2", .looks = true});
  BOOST_TEST((begun.survey == 1u && begun.secret == "s" && begun.ports == "1-2" && begun.looks));
  const auto surveyed = round_trip(system, HostSurveyed{.survey = 1,
                                                        .port = 2,
                                                        .fault = "f",
                                                        .facts = {.interface = "eth0",
                                                                  .free_ports = 3,
                                                                  .shm_bytes = 4,
                                                                  .needs_shm = true,
                                                                  .locked_bytes = 5,
                                                                  .flops = 6}});
  BOOST_TEST((surveyed.port == 2 && surveyed.fault == "f"));
  const HostFacts& facts = surveyed.facts;
  BOOST_TEST((facts.interface == "eth0" && facts.free_ports == 3 && facts.shm_bytes == 4 &&
              facts.needs_shm && facts.locked_bytes == 5 && facts.flops == 6));
  const auto order = round_trip(
      system,
      ProbeLinks{.survey = 1, .targets = {{"h1", "::1", 7}}, .patience_s = 8, .measures = true});
  BOOST_TEST((order.targets.at(0).host == "h1" && order.targets.at(0).address == "::1" &&
              order.targets.at(0).port == 7 && order.patience_s == 8 && order.measures));
  const auto probed = round_trip(system, LinksProbed{.survey = 1,
                                                     .links = {{.host = "h1",
                                                                .to = "t",
                                                                .connected = true,
                                                                .fault = "f",
                                                                .round_trip_s = 1,
                                                                .bytes_per_s = 2,
                                                                .clock_ahead_s = -3,
                                                                .clock_error_s = 4}}});
  const LinkProbe& link = probed.links.at(0);
  BOOST_TEST((link.host == "h1" && link.to == "t" && link.connected && link.fault == "f"));
  BOOST_TEST((link.round_trip_s == 1 && link.bytes_per_s == 2 && link.clock_ahead_s == -3 &&
              link.clock_error_s == 4));
  BOOST_TEST(round_trip(system, SurveyEnded{.survey = 9}).survey == 9u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
