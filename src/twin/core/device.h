// The interfaces between host, link and drive. The three layers know these interfaces, not each other.
#pragma once

#include <cstdint>

#include "core/request.h"
#include "core/units.h"

namespace twin {

// The host's end of the link: sends commands to the drive.
class CommandPort {
 public:
  // Returns whether one of the drive's queue slots is free.
  [[nodiscard]] virtual bool has_free_slot() const = 0;
  // Returns the number of commands that the drive holds.
  [[nodiscard]] virtual std::uint32_t outstanding() const = 0;
  // Returns whether commands of this operation can be queued. A command that cannot be queued may be sent only while
  // the drive holds no other command, and no other command may be sent before it is complete.
  [[nodiscard]] virtual bool can_queue(Operation operation) const = 0;
  // Sends a command, with the data of a write, to the drive. A slot must be free.
  virtual void send(Nanoseconds now, Command& command) = 0;

 protected:
  ~CommandPort() = default;
};

// An SSD or a hard disk. A command starts when the link has transferred it, with the data of a write. The device
// answers it with Link::respond(). It never holds more commands than the link has queue slots.
class Device {
 public:
  virtual ~Device() = default;
  virtual void start(Nanoseconds now, Command& command) = 0;
};

// The host as the link sees it.
class Initiator {
 public:
  // Called when a command is complete. Device and link no longer refer to the command.
  virtual void completed(Nanoseconds now, Command& command) = 0;

 protected:
  ~Initiator() = default;
};

}  // namespace twin
