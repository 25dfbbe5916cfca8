// The messages of the time-travel protocol.
#include "linux/calendar.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "linux/wire.h"

namespace twin {
namespace {

enum Operation : std::uint32_t {
  kAck = 0,
  kStart = 1,
  kRequest = 2,
  kWait = 3,
  kGet = 4,
  kUpdate = 5,
  kRun = 6,
  kFreeUntil = 7,
  kGetTimeOfDay = 8,
  kEarlierClockPage = 256,  // with fewer members
  kClockPage = 257,
};

}  // namespace

Nanoseconds Calendar::share(std::uint64_t address) {
  if (!memory_) return 0;
  auto* const page = static_cast<Page*>(memory_(address, sizeof(Page)));
  // keeps the page's time: the guest has advanced it since its last message, and look() reads it at the next message
  page->free_until = static_cast<std::uint64_t>(limit_);
  page->request = static_cast<std::uint64_t>(guest_next_);
  page_ = page;
  return 1;
}

void Calendar::look() {
  if (page_ == nullptr) return;
  const auto now = static_cast<Nanoseconds>(page_->now);
  if (now < now_ || now > std::max(now_, limit_) || now > kNever / 2) {
    throw std::runtime_error("the guest's clock has an impossible value: a program of the guest has written to it");
  }
  now_ = now;
}

void Calendar::serve() {
  Message message{};
  receive(socket_, &message, sizeof message);
  const auto time = static_cast<Nanoseconds>(message.time);
  Nanoseconds reply = 0;
  switch (message.operation) {
    case kAck:
      if (acknowledged_ == sent_ || message.sequence != acknowledged_ + 1) {
        throw std::runtime_error("the guest acknowledges a message that was not sent");
      }
      ++acknowledged_;
      return;
    case kStart:
      break;
    case kRequest:
      guest_next_ = time;
      break;
    case kWait:
      waits_ = true;
      if (page_ == nullptr) break;
      look();
      return see_request();
    case kGet:
      reply = now_;
      break;
    case kUpdate:
      if (time < now_) throw std::runtime_error("the guest's clock goes back");
      now_ = time;
      break;
    case kGetTimeOfDay:
      reply = time_of_day_ns_ + now_;
      break;
    case kClockPage:
      reply = share(message.time);
      break;
    case kEarlierClockPage:
      throw std::runtime_error(
          "an earlier version of this package built the kernel. Build the kernel again: ./reproduce.sh linux");
    default:
      throw std::runtime_error("the guest sends the unknown time travel message " + std::to_string(message.operation));
  }
  const Message ack{kAck, message.sequence, static_cast<std::uint64_t>(reply)};
  send_all(socket_, &ack, sizeof ack);
}

void Calendar::advance_to(Nanoseconds when) {
  now_ = when;
  if (page_ != nullptr) page_->now = static_cast<std::uint64_t>(when);
}

void Calendar::see_request() {
  if (page_ != nullptr) guest_next_ = std::max(now_, static_cast<Nanoseconds>(page_->request));
}

void Calendar::charge(Nanoseconds call_ns, Nanoseconds fault_ns) {
  if (page_ == nullptr) throw std::runtime_error("this kernel cannot charge time: give --call-ns 0 --fault-ns 0");
  page_->call_ns = static_cast<std::uint64_t>(call_ns);
  page_->fault_ns = static_cast<std::uint64_t>(fault_ns);
}

Calendar::Work Calendar::work() const {
  return page_ == nullptr ? Work{} : Work{page_->calls, page_->faults, page_->loops};
}

Calendar::Program Calendar::program() const {
  return page_ == nullptr ? Program{} : Program{page_->program, page_->runs};
}

void Calendar::force() {
  if (page_ != nullptr) page_->forced = 1;
}

void Calendar::run_guest(Nanoseconds limit) {
  // The guest forgets its limit whenever it waits. Both messages are sent together, so that one process switch
  // suffices.
  limit_ = limit;
  guest_next_ = kNever;
  waits_ = false;
  if (page_ != nullptr) {
    page_->free_until = static_cast<std::uint64_t>(limit);
    const Message run{kRun, 0, static_cast<std::uint64_t>(now_)};
    return send_all(socket_, &run, sizeof run);
  }
  const Message messages[] = {{kFreeUntil, ++sent_, static_cast<std::uint64_t>(limit)},
                              {kRun, ++sent_, static_cast<std::uint64_t>(now_)}};
  send_all(socket_, messages, sizeof messages);
  // serve() takes the acknowledgements, which precede the guest's next message
}

void Calendar::shorten(Nanoseconds limit) {
  if (limit >= limit_) return;
  limit_ = limit;
  if (page_ != nullptr) {
    page_->free_until = static_cast<std::uint64_t>(limit);
    return;
  }
  const Message message{kFreeUntil, ++sent_, static_cast<std::uint64_t>(limit)};
  send_all(socket_, &message, sizeof message);
  while (acknowledged_ != sent_) serve();
}

}  // namespace twin
