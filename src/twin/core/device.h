// The interfaces on either side of the link: the host's way to the drive, the drive itself, and the host that gets its
// commands back. The layers know these and not each other.
#pragma once

#include <cstdint>

#include "core/request.h"
#include "core/units.h"

namespace twin {

// What the host sends commands through.
class CommandPort {
 public:
  // Whether the drive holds fewer commands than it has queue slots.
  [[nodiscard]] virtual bool has_slot() const = 0;
  // How many commands the drive holds.
  [[nodiscard]] virtual std::uint32_t outstanding() const = 0;
  // Whether the drive takes a command of this operation beside others. One that it does not take so needs the drive for
  // itself: it must hold no other command, and is sent none until that one is complete.
  [[nodiscard]] virtual bool queues(Operation operation) const = 0;
  // Takes a command, with the data of a write, to the drive. There must be a free slot.
  virtual void send(Nanoseconds now, Command& command) = 0;

 protected:
  ~CommandPort() = default;
};

// An SSD or a hard disk. Commands arrive here once the link has carried them (for a write: with their data), and go
// back through Link::respond(). The device never holds more of them than the link has queue slots.
class Device {
 public:
  virtual ~Device() = default;
  virtual void start(Nanoseconds now, Command& command) = 0;
};

// The host's end of the link.
class Initiator {
 public:
  // The command is complete; device and link no longer refer to it.
  virtual void completed(Nanoseconds now, Command& command) = 0;

 protected:
  ~Initiator() = default;
};

}  // namespace twin
