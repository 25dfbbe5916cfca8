// Parameters of the link between host and drive.
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
  bool queues_only_data = false;  // set by parse_parameters() according to the drive's transport

  void visit(FieldVisitor& v) {
    v.rate("rate", rate, 1'000'000, 1'000'000'000'000, "payload rate in one direction");
    v.time("command_time", command_time, kSecond,
           "time for which a command and its status occupy the link, in addition to the data");
    v.count("queue_slots", queue_slots, 1, 65536, "number of commands that the drive holds at once (SATA NCQ: 32)");
    v.toggle("full_duplex", full_duplex,
             "whether data are transferred in both directions at once (SAS, PCIe) or in one at a time (SATA)");
    v.size("frame", frame, 0, 1LL << 30,
           "largest amount of data transferred in one piece; 0: all data of a command are one piece");
    v.time("frame_time", frame_time, kSecond,
           "time for which the link waits for buffer space before each further frame of a command's data");
    v.time("turnaround_time", turnaround_time, kSecond,
           "time of a half-duplex link to change between reading and writing");
  }
};

}  // namespace twin
