// What a host requests of a drive.
#pragma once

#include <cstdint>

#include "core/units.h"

namespace twin {

enum class Operation : std::uint8_t { kRead, kWrite, kFlush, kDiscard };

// Offset and size are multiples of kSectorBytes, and the range lies within the drive. Both are 0 for a flush.
struct Request {
  Operation operation = Operation::kRead;
  std::uint32_t job = 0;  // the process that made the request; the CFQ scheduler has a queue for each process
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

// A request on its way through the layers. The block layer creates it and gets it back at completion. Each layer stores
// in it what the layer must remember until then.
struct Command {
  Request request;
  std::uint64_t ticket = 0;             // chosen by the caller, and passed back at completion
  std::uint32_t index = 0;              // slot in the block layer's pool; events refer to the command by this number
  std::uint32_t pending = 0;            // number of parts (flash pages, buffer slots) that it waits for
  std::uint64_t cursor_bytes = 0;       // offset up to which a layer that serves it piecewise has come
  std::uint64_t transferred_bytes = 0;  // data of a read that the link has transferred before the response
  Command* next = nullptr;              // next command that waits for the same read-ahead piece
  Command* next_merged = nullptr;       // next in the chain of commands that the block layer merged into one
};

}  // namespace twin
