// The two sides of the link: a device that serves commands, and the host that gets them back.
#pragma once

#include "core/units.h"
#include "drive/request.h"

namespace twin {

// A device: SSD or hard disk. Commands arrive here once the link has carried them (for a write: with their data), and
// go back through Link::respond(). At most the link's queue slots are in the device at a time.
class Device {
 public:
  virtual ~Device() = default;
  virtual void start(Nanoseconds now, Command& command) = 0;
};

// The host's end of the link.
class Initiator {
 public:
  // The command is over; the device and the link hold it no longer.
  virtual void completed(Nanoseconds now, Command& command) = 0;

 protected:
  ~Initiator() = default;
};

}  // namespace twin
