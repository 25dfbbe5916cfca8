// The messages of time travel.
#include "linux/calendar.h"

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
};

}  // namespace

void Calendar::answer(const Message& message, Nanoseconds time) {
  const Message ack{kAck, message.sequence, static_cast<std::uint64_t>(time)};
  send_all(socket_, &ack, sizeof ack);
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
      answer(message, 0);
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
    default:
      throw std::runtime_error("the guest sends the unknown time travel message " + std::to_string(message.operation));
  }
}

void Calendar::run_guest(Nanoseconds limit) {
  // The guest forgets its limit whenever it waits. It reads both messages one after the other, so one switch suffices.
  const Message messages[] = {{kFreeUntil, ++sent_, static_cast<std::uint64_t>(limit)},
                              {kRun, ++sent_, static_cast<std::uint64_t>(now_)}};
  limit_ = limit;
  guest_next_ = kNever;
  waits_ = false;
  send_all(socket_, messages, sizeof messages);
  // the acknowledgements come before the guest's next message, and nothing has to wait for them
}

void Calendar::shorten(Nanoseconds limit) {
  if (limit >= limit_) return;
  limit_ = limit;
  const Message message{kFreeUntil, ++sent_, static_cast<std::uint64_t>(limit)};
  send_all(socket_, &message, sizeof message);
  while (acknowledged_ != sent_) serve();
}

}  // namespace twin
