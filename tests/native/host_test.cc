// The block layer, its schedulers and the link: what is merged, split, preferred, and that nothing is lost.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "host/block_layer.h"
#include "link/link.h"

namespace twin {
namespace {

// A device that serves one command after another, each in the same time, and remembers them.
class Slow final : public Device, private EventHandler {
 public:
  Slow(Link& link, EventQueue& events, Nanoseconds time) : link_(link), events_(events), time_(time) {}

  void start(Nanoseconds now, Command& command) override {
    served.push_back(command.request);
    commands_.push_back(&command);
    free_ = std::max(free_, now) + time_;
    events_.schedule(free_, *this, commands_.size() - 1);
  }

  std::vector<Request> served;

 private:
  void on_event(Nanoseconds now, std::uint64_t what) override { link_.respond(now, *commands_[what]); }

  Link& link_;
  EventQueue& events_;
  Nanoseconds time_;
  Nanoseconds free_ = 0;
  std::vector<Command*> commands_;
};

// A host with a slow device that takes one command at a time, so that the others wait in the scheduler.
struct Host final : CompletionSink {
  explicit Host(Scheduler scheduler, std::int64_t nr_requests = 128, LinkParameters with = {}) : link_parameters(with) {
    parameters.scheduler = scheduler;
    parameters.nr_requests = nr_requests;
    parameters.max_request = 65536;
    link_parameters.rate = 1'000'000'000;
    link_parameters.full_duplex = true;
    link = std::make_unique<Link>(link_parameters, events);
    layer = std::make_unique<BlockLayer>(parameters, events, *link, counters, *this);
    device = std::make_unique<Slow>(*link, events, 100 * kMicrosecond);
    link->connect(*layer, *device);
  }

  void completed(Nanoseconds when, std::uint64_t ticket) override {
    done.push_back(ticket);
    now = when;
  }

  void submit(Operation operation, std::uint64_t block, std::uint64_t blocks = 1, std::uint32_t job = 0) {
    layer->submit(now, {operation, job, block * 4096, blocks * 4096}, tickets++);
  }

  void run() {
    while (events.next() != kNever) events.run_next();
  }

  // The blocks in the order in which the device got them.
  [[nodiscard]] std::vector<std::uint64_t> order() const {
    std::vector<std::uint64_t> blocks;
    for (const Request& each : device->served) blocks.push_back(each.offset_bytes / 4096);
    return blocks;
  }

  HostParameters parameters;
  LinkParameters link_parameters;
  EventQueue events;
  Counters counters;
  std::unique_ptr<Link> link;
  std::unique_ptr<BlockLayer> layer;
  std::unique_ptr<Slow> device;
  Nanoseconds now = 0;
  std::uint64_t tickets = 0;
  std::vector<std::uint64_t> done;
};

using Blocks = std::vector<std::uint64_t>;
constexpr Scheduler kAll[] = {Scheduler::kNone, Scheduler::kNoop, Scheduler::kDeadline, Scheduler::kCfq};

TEST_CASE("every request is over once, whatever the scheduler, and whether or not flushes are queued") {
  for (int turn = 0; turn < 8; ++turn) {
    LinkParameters link;
    link.queue_slots = turn < 4 ? 1 : 8;
    link.queues_data_alone = turn >= 4;
    Host host(kAll[turn % 4], 16, link);
    std::mt19937 chance(3);
    std::uint64_t bytes = 0;
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t blocks = 1 + chance() % 40;
      bytes += blocks * 4096;
      host.submit(chance() % 2 == 0 ? Operation::kRead : Operation::kWrite, chance() % 5000, blocks, chance() % 4);
      if (chance() % 8 == 0) host.submit(Operation::kFlush, 0, 0);
      for (int step = 0; step < 20 && host.events.next() != kNever; ++step) host.events.run_next();
    }
    host.run();
    std::sort(host.done.begin(), host.done.end());
    REQUIRE(host.done.size() == host.tickets);
    REQUIRE(std::adjacent_find(host.done.begin(), host.done.end()) == host.done.end());
    CHECK(host.counters.read_bytes + host.counters.write_bytes == bytes);
  }
}

TEST_CASE("none sends what comes as it comes; noop sends as one what continues") {
  for (const Scheduler scheduler : {Scheduler::kNone, Scheduler::kNoop}) {
    Host host(scheduler);
    for (const std::uint64_t block : {50, 10, 11, 9, 30}) host.submit(Operation::kRead, block);
    host.run();
    if (scheduler == Scheduler::kNone) {
      CHECK(host.order() == Blocks{50, 10, 11, 9, 30});
    } else {
      CHECK(host.order() == Blocks{50, 9, 30});
      CHECK(host.counters.merged_requests == 2);
    }
    CHECK(host.done.size() == 5);
  }
}

TEST_CASE("a command that the drive does not queue has the drive for itself, others do not") {
  for (const bool data_alone : {true, false}) {
    for (const Operation operation : {Operation::kFlush, Operation::kDiscard}) {
      LinkParameters parameters;
      parameters.queue_slots = 32;
      parameters.queues_data_alone = data_alone;
      Host host(Scheduler::kNone, 128, parameters);
      for (const std::uint64_t block : {1, 2, 3}) host.submit(Operation::kWrite, block);
      host.submit(operation, 4);
      for (const std::uint64_t block : {5, 6}) host.submit(Operation::kRead, block);
      // how many commands the drive holds when each arrives there, beside itself
      std::vector<std::uint32_t> beside;
      while (host.events.next() != kNever) {
        const std::size_t served = host.device->served.size();
        host.events.run_next();
        if (host.device->served.size() > served) beside.push_back(host.link->outstanding() - 1);
      }
      CHECK(host.order() == Blocks{1, 2, 3, 4, 5, 6});
      CHECK(host.done == Blocks{0, 1, 2, 3, 4, 5});
      if (data_alone) {
        CHECK(beside == std::vector<std::uint32_t>{2, 2, 2, 0, 1, 1});
      } else {
        CHECK(beside == std::vector<std::uint32_t>{5, 5, 5, 5, 5, 5});
      }
    }
  }
}

TEST_CASE("a request larger than the limit is sent in parts, and over once") {
  Host host(Scheduler::kNone);
  host.submit(Operation::kRead, 0, 40);
  host.run();
  CHECK(host.order() == Blocks{0, 16, 32});
  CHECK(host.done == Blocks{0});
}

TEST_CASE("deadline goes by the order on the drive, reads first, and lets no write starve") {
  Host host(Scheduler::kDeadline);
  host.submit(Operation::kRead, 0);
  for (const std::uint64_t block : {70, 50, 60}) host.submit(Operation::kRead, block);
  host.submit(Operation::kWrite, 20);
  host.run();
  CHECK(host.order() == Blocks{0, 50, 60, 70, 20});

  Host busy(Scheduler::kDeadline);
  busy.submit(Operation::kWrite, 1);
  busy.submit(Operation::kWrite, 3);
  for (std::uint64_t i = 0; i < 200; ++i) busy.submit(Operation::kRead, 1000 + 10 * i);
  busy.run();
  const Blocks order = busy.order();
  CHECK(std::find(order.begin(), order.end(), 3) - order.begin() < 60);
}

TEST_CASE("cfq serves a process at a time") {
  Host host(Scheduler::kCfq);
  host.submit(Operation::kRead, 0, 1, 0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    host.submit(Operation::kRead, 100 + 20 * i, 1, 1);
    host.submit(Operation::kRead, 500 + 20 * i, 1, 2);
  }
  host.run();
  CHECK(host.order() == Blocks{0, 100, 120, 140, 160, 500, 520, 540, 560});
}

TEST_CASE("what exceeds nr_requests is not sorted among those that wait") {
  Host host(Scheduler::kDeadline, 2);
  for (const std::uint64_t block : {0, 90, 80, 10}) host.submit(Operation::kRead, block);
  host.run();
  CHECK(host.order() == Blocks{0, 80, 90, 10});
}

TEST_CASE("a link carries no more than its rate, and by turns where it is half duplex") {
  for (const bool full_duplex : {true, false}) {
    Host host(Scheduler::kNone);
    host.link_parameters.queue_slots = 32;
    host.link_parameters.full_duplex = full_duplex;
    Link link(host.link_parameters, host.events);
    Slow device(link, host.events, 0);
    BlockLayer layer(host.parameters, host.events, link, host.counters, host);
    link.connect(layer, device);
    for (std::uint64_t i = 0; i < 400; ++i) {
      layer.submit(0, {i % 2 == 0 ? Operation::kRead : Operation::kWrite, 0, i * 65536, 65536}, i);
    }
    host.run();
    const double bytes = 400.0 * 65536;
    const double rate = bytes / static_cast<double>(host.now) * 1e9;
    CHECK(rate <= (full_duplex ? 2.0 : 1.0) * 1.001e9);
    CHECK(rate > (full_duplex ? 1.5e9 : 0.9e9));
  }
}

// How long a host takes for requests one after the other, over a link with these parameters and a device without a
// time of its own.
Nanoseconds one_by_one(const LinkParameters& parameters, const std::vector<Request>& requests) {
  Host host(Scheduler::kNone);
  Link link(parameters, host.events);
  Slow device(link, host.events, 0);
  BlockLayer layer(host.parameters, host.events, link, host.counters, host);
  link.connect(layer, device);
  for (const Request& request : requests) {
    layer.submit(host.now, request, 0);
    host.run();
  }
  return host.now;
}

TEST_CASE("a link waits between the frames of a command's data, however they are carried") {
  LinkParameters parameters;
  parameters.rate = 1'000'000'000;
  parameters.frame = 16384;
  for (const std::uint64_t size : {4096, 16384, 20480, 32768, 65536}) {
    for (const Operation operation : {Operation::kRead, Operation::kWrite}) {
      parameters.frame_time = 0;
      const Nanoseconds without = one_by_one(parameters, {{operation, 0, 0, size}});
      parameters.frame_time = 20 * kMicrosecond;
      const Nanoseconds with = one_by_one(parameters, {{operation, 0, 0, size}});
      CHECK(with - without == static_cast<Nanoseconds>((size - 1) / 16384) * 20 * kMicrosecond);
    }
  }
  EventQueue events;
  Link link(parameters, events);
  Nanoseconds in_parts = 0;
  for (std::uint64_t carried = 0; carried < 65536; carried += 4096) in_parts += link.data_ns(4096, carried);
  CHECK(in_parts == link.data_ns(65536));
  parameters.frame = 0;
  CHECK(Link(parameters, events).data_ns(65536) == 65536);
}

TEST_CASE("a half-duplex link takes a time to turn from reading to writing, and back") {
  LinkParameters parameters;
  parameters.rate = 1'000'000'000;
  const Request read{Operation::kRead, 0, 0, 4096};
  const Request write{Operation::kWrite, 0, 0, 4096};
  const auto turns = [&](const std::vector<Request>& requests) {
    parameters.turnaround_time = 0;
    const Nanoseconds without = one_by_one(parameters, requests);
    parameters.turnaround_time = 15 * kMicrosecond;
    return (one_by_one(parameters, requests) - without) / (15 * kMicrosecond);
  };
  CHECK(turns({read, read, read}) == 0);
  CHECK(turns({write, write}) == 0);
  CHECK(turns({read, write, write, read}) == 2);
  CHECK(turns({read, {Operation::kFlush, 0, 0, 0}, read}) == 0);
  parameters.full_duplex = true;
  CHECK(turns({read, write, read}) == 0);
}

}  // namespace
}  // namespace twin
