// What a host asks of a drive.
#pragma once

#include <cstdint>

#include "core/units.h"

namespace twin {

enum class Operation : std::uint8_t { kRead, kWrite, kFlush, kDiscard };

// Offset and size are multiples of kSectorBytes and lie within the drive; a flush has neither.
struct Request {
  Operation operation = Operation::kRead;
  std::uint32_t job = 0;  // who asks: schedulers with a queue per process go by it
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

// A request on its way through the layers. The host makes it and gets it back; each layer keeps in it what it must
// remember until then.
struct Command {
  Request request;
  std::uint64_t ticket = 0;         // chosen by the caller, who is told it when the request is complete
  Nanoseconds submitted_ns = 0;     // when the host handed it to the block layer
  std::uint32_t index = 0;          // its slot in the host's pool; events refer to the command by it
  std::uint32_t pending = 0;        // how many parts (flash pages, buffer slots) it still waits for
  std::uint64_t cursor_bytes = 0;   // how far a layer that serves it piecewise has come
  std::uint64_t carried_bytes = 0;  // of a read's data, what the link has carried before the response
  Command* next = nullptr;          // the next command in the queue in which this one waits
  Command* merged = nullptr;        // requests that the block layer merged into this one, a chain
};

}  // namespace twin
