// The way between host and drive.
#pragma once

#include "core/fields.h"
#include "core/units.h"

namespace twin {

struct LinkParameters {
  std::int64_t rate = 1;
  Nanoseconds command_time = 0;
  std::int64_t queue_slots = 1;
  bool full_duplex = false;
  std::int64_t frame = 0;
  Nanoseconds frame_time = 0;
  Nanoseconds turnaround_time = 0;
  bool queues_data_alone = false;  // follows from the drive's transport: see parse_parameters()

  void visit(FieldVisitor& v) {
    v.number("rate", rate, Unit::kBytesPerSecond, 1'000'000, 1'000'000'000'000, "payload rate in one direction");
    v.number("command_time", command_time, Unit::kNanoseconds, 0, kSecond,
             "time that a command and its status hold the link, beside the data");
    v.number("queue_slots", queue_slots, Unit::kCount, 1, 65536,
             "commands that the drive holds at once (SATA NCQ: 32)");
    v.toggle("full_duplex", full_duplex, "whether data flow both ways at once (SAS, PCIe) or by turns (SATA)");
    v.number("frame", frame, Unit::kBytes, 0, 1LL << 30,
             "the most data that go over the link at once; 0: a command's data go as a whole");
    v.number("frame_time", frame_time, Unit::kNanoseconds, 0, kSecond,
             "how long the link waits before each further frame of a command's data, for room on the other side");
    v.number("turnaround_time", turnaround_time, Unit::kNanoseconds, 0, kSecond,
             "how long a half-duplex link takes to turn from reading to writing, and back");
  }
};

}  // namespace twin
