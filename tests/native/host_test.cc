// The block layer, its schedulers and the link: merging, splitting, order of requests, transfer times.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "host/block_layer.h"
#include "link/link.h"

namespace twin {
namespace {

// A device that serves one command after another, each in the same time, and stores their requests.
class SerialDevice final : public Device, private EventHandler {
 public:
  SerialDevice(Link& link, EventQueue& events, Nanoseconds time) : link_(link), events_(events), time_(time) {}

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

// A fast full-duplex link with one queue slot, so that all commands but one are queued in the scheduler.
LinkParameters fast_link() {
  LinkParameters parameters;
  parameters.rate = 1'000'000'000;
  parameters.full_duplex = true;
  return parameters;
}

// A host with a device that takes `device_time` for each command.
struct Host final : CompletionSink {
  explicit Host(Scheduler scheduler, const LinkParameters& link_parameters = fast_link(),
                std::int64_t nr_requests = 128, Nanoseconds device_time = 100 * kMicrosecond,
                std::int64_t submitter_burst = 0, std::uint64_t seed = 0)
      : link(link_parameters, events),
        layer(parameters_of(scheduler, nr_requests, submitter_burst), events, link, counters, *this, seed),
        device(link, events, device_time) {
    link.connect(layer, device);
  }

  static HostParameters parameters_of(Scheduler scheduler, std::int64_t nr_requests, std::int64_t submitter_burst) {
    HostParameters parameters;
    parameters.scheduler = scheduler;
    parameters.nr_requests = nr_requests;
    parameters.max_request = 65536;
    parameters.submitter_burst = submitter_burst;
    return parameters;
  }

  void completed(Nanoseconds when, std::uint64_t ticket) override {
    done.push_back(ticket);
    now = when;
  }

  void submit(Operation operation, std::uint64_t block, std::uint64_t blocks = 1, std::uint32_t job = 0) {
    layer.submit(now, {operation, job, block * 4096, blocks * 4096}, tickets++);
  }

  void run() {
    while (events.next() != kNever) events.run_next();
  }

  // Returns the blocks in the order in which the device got them.
  [[nodiscard]] std::vector<std::uint64_t> order() const {
    std::vector<std::uint64_t> blocks;
    for (const Request& each : device.served) blocks.push_back(each.offset_bytes / 4096);
    return blocks;
  }

  EventQueue events;
  Counters counters;
  Link link;
  BlockLayer layer;
  SerialDevice device;
  Nanoseconds now = 0;
  std::uint64_t tickets = 0;
  std::vector<std::uint64_t> done;
};

using Blocks = std::vector<std::uint64_t>;
constexpr Scheduler kAll[] = {Scheduler::kNone, Scheduler::kNoop, Scheduler::kDeadline, Scheduler::kCfq};

TEST_CASE("every request completes once, with each scheduler, whether or not flushes can be queued") {
  for (int turn = 0; turn < 8; ++turn) {
    LinkParameters link = fast_link();
    link.queue_slots = turn < 4 ? 1 : 8;
    link.queues_only_data = turn >= 4;
    Host host(kAll[turn % 4], link, 16);
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

TEST_CASE("none sends requests in order of arrival; noop also merges adjacent requests") {
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

TEST_CASE("a command that cannot be queued is alone in the drive, other commands are not") {
  for (const bool only_data : {true, false}) {
    for (const Operation operation : {Operation::kFlush, Operation::kDiscard}) {
      LinkParameters parameters = fast_link();
      parameters.queue_slots = 32;
      parameters.queues_only_data = only_data;
      Host host(Scheduler::kNone, parameters);
      for (const std::uint64_t block : {1, 2, 3}) host.submit(Operation::kWrite, block);
      host.submit(operation, 4);
      for (const std::uint64_t block : {5, 6}) host.submit(Operation::kRead, block);
      // by command: number of other commands in the drive when it starts
      std::vector<std::uint32_t> others;
      while (host.events.next() != kNever) {
        const std::size_t served = host.device.served.size();
        host.events.run_next();
        if (host.device.served.size() > served) others.push_back(host.link.outstanding() - 1);
      }
      CHECK(host.order() == Blocks{1, 2, 3, 4, 5, 6});
      CHECK(host.done == Blocks{0, 1, 2, 3, 4, 5});
      if (only_data) {
        CHECK(others == std::vector<std::uint32_t>{2, 2, 2, 0, 1, 1});
      } else {
        CHECK(others == std::vector<std::uint32_t>{5, 5, 5, 5, 5, 5});
      }
    }
  }
}

TEST_CASE("a request larger than the limit is sent in parts, and completes once") {
  Host host(Scheduler::kNone);
  host.submit(Operation::kRead, 0, 40);
  host.run();
  CHECK(host.order() == Blocks{0, 16, 32});
  CHECK(host.done == Blocks{0});
}

TEST_CASE("deadline sends reads first, in order of offsets, and lets no write starve") {
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

TEST_CASE("cfq serves one process at a time") {
  Host host(Scheduler::kCfq);
  host.submit(Operation::kRead, 0, 1, 0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    host.submit(Operation::kRead, 100 + 20 * i, 1, 1);
    host.submit(Operation::kRead, 500 + 20 * i, 1, 2);
  }
  host.run();
  CHECK(host.order() == Blocks{0, 100, 120, 140, 160, 500, 520, 540, 560});
}

TEST_CASE("requests beyond nr_requests are not sorted among the queued ones") {
  Host host(Scheduler::kDeadline, fast_link(), 2);
  for (const std::uint64_t block : {0, 90, 80, 10}) host.submit(Operation::kRead, block);
  host.run();
  CHECK(host.order() == Blocks{0, 80, 90, 10});
}

TEST_CASE("submitters beyond nr_requests go on in order of arrival, or job by job in bursts") {
  const auto served = [](std::int64_t burst, std::uint64_t seed) {
    Host host(Scheduler::kNone, fast_link(), 1, kMicrosecond, burst, seed);
    for (std::uint32_t i = 0; i < 400; ++i) host.submit(Operation::kRead, i, 1, i % 4);
    host.run();
    std::sort(host.done.begin(), host.done.end());
    REQUIRE(host.done.size() == 400);
    REQUIRE(std::adjacent_find(host.done.begin(), host.done.end()) == host.done.end());
    return host.device.served;
  };
  const auto changes_of_job = [](const std::vector<Request>& requests) {
    int changes = 0;
    for (std::size_t i = 1; i < requests.size(); ++i) changes += requests[i].job != requests[i - 1].job;
    return changes;
  };
  const auto blocks = [](const std::vector<Request>& requests, std::uint32_t job) {
    Blocks found;
    for (const Request& each : requests) {
      if (each.job == job) found.push_back(each.offset_bytes);
    }
    return found;
  };
  CHECK(changes_of_job(served(0, 1)) == 399);
  CHECK(changes_of_job(served(20, 1)) < 40);
  CHECK(changes_of_job(served(2, 1)) > 100);
  const std::vector<Request> bursts = served(20, 1);
  for (std::uint32_t job = 0; job < 4; ++job) {  // the requests of a job stay in order
    const Blocks of_job = blocks(bursts, job);
    CHECK(std::is_sorted(of_job.begin(), of_job.end()));
  }
  CHECK(blocks(bursts, 2).size() == 100);
  const auto jobs = [](const std::vector<Request>& requests) {
    std::vector<std::uint32_t> found;
    for (const Request& each : requests) found.push_back(each.job);
    return found;
  };
  CHECK(jobs(bursts) == jobs(served(20, 1)));
  CHECK(jobs(bursts) != jobs(served(20, 2)));
}

TEST_CASE("a link transfers at its rate, in one direction at a time if it is half duplex") {
  for (const bool full_duplex : {true, false}) {
    LinkParameters parameters = fast_link();
    parameters.queue_slots = 32;
    parameters.full_duplex = full_duplex;
    Host host(Scheduler::kNone, parameters, 128, 0);
    for (std::uint64_t i = 0; i < 400; ++i) {
      host.submit(i % 2 == 0 ? Operation::kRead : Operation::kWrite, i * 16, 16);
    }
    host.run();
    const double bytes = 400.0 * 65536;
    const double rate = bytes / static_cast<double>(host.now) * 1e9;
    CHECK(rate <= (full_duplex ? 2.0 : 1.0) * 1.001e9);
    CHECK(rate > (full_duplex ? 1.5e9 : 0.9e9));
  }
}

// Returns the time for requests one after another, over a link with these parameters and a device that takes no time.
Nanoseconds one_by_one(const LinkParameters& parameters, const std::vector<Request>& requests) {
  Host host(Scheduler::kNone, parameters, 128, 0);
  for (const Request& request : requests) {
    host.layer.submit(host.now, request, 0);
    host.run();
  }
  return host.now;
}

TEST_CASE("a link waits between the frames of a command's data, also if the data are transferred in parts") {
  LinkParameters parameters = fast_link();
  parameters.full_duplex = false;
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

TEST_CASE("a half-duplex link takes time to change from reading to writing and back") {
  LinkParameters parameters = fast_link();
  parameters.full_duplex = false;
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
