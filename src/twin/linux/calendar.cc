// The messages of time travel.
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
  kClockPage = 256,
};

}  // namespace

void Calendar::answer(const Message& message, Nanoseconds time) {
  const Message ack{kAck, message.sequence, static_cast<std::uint64_t>(time)};
  send_all(socket_, &ack, sizeof ack);
}

Nanoseconds Calendar::share(std::uint64_t address) {
  if (!memory_) return 0;
  auto* const page = static_cast<Page*>(memory_(address, sizeof(Page)));
  // the time in it is the guest's, which has run on since it last told it, and is read when it next waits or kicks
  page->free_until = static_cast<std::uint64_t>(limit_);
  page->request = static_cast<std::uint64_t>(guest_next_);
  page_ = page;
  return 1;
}

void Calendar::look() {
  if (page_ == nullptr) return;
  const auto now = static_cast<Nanoseconds>(page_->now);
  if (now < now_ || now > std::max(now_, limit_) || now > kNever / 2) {
    throw std::runtime_error("the guest's clock is not where it can be: a program has written to it");
  }
  now_ = now;
}

void Calendar::serve() {
  Message message{};
  receive(socket_, &message, sizeof message);
  const auto time = static_cast<Nanoseconds>(message.time);
  switch (message.operation) {
    case kAck:
      if (acknowledged_ == sent_ || message.sequence != acknowledged_ + 1) {
        throw std::runtime_error("the guest acknowledges what it was not sent");
      }
      ++acknowledged_;
      break;
    case kStart:
      answer(message, 0);
      break;
    case kRequest:
      guest_next_ = time;
      answer(message, 0);
      break;
    case kWait:
      waits_ = true;
      if (page_ == nullptr) {
        answer(message, 0);
      } else {
        look();
        see_request();
      }
      break;
    case kGet:
      answer(message, now_);
      break;
    case kUpdate:
      if (time < now_) throw std::runtime_error("the guest's clock goes back");
      now_ = time;
      answer(message, 0);
      break;
    case kGetTimeOfDay:
      answer(message, time_of_day_ns_ + now_);
      break;
    case kClockPage:
      answer(message, share(message.time));
      break;
    default:
      throw std::runtime_error("the guest sends the unknown time travel message " + std::to_string(message.operation));
  }
}

void Calendar::advance_to(Nanoseconds when) {
  now_ = when;
  if (page_ != nullptr) page_->now = static_cast<std::uint64_t>(when);
}

void Calendar::see_request() {
  if (page_ != nullptr) guest_next_ = std::max(now_, static_cast<Nanoseconds>(page_->request));
}

void Calendar::run_guest(Nanoseconds limit) {
  // The guest forgets its limit whenever it waits. It reads both messages one after the other, so one switch suffices.
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
  // the acknowledgements come before the guest's next message, and nothing has to wait for them
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
