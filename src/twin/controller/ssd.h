// The controller of an SSD: decodes commands, manages the write buffer, the read cache and read-ahead, and passes to
// the FTL what needs the flash.
//
// RCD, DRA and WCE (ReadCacheParameters, ReadAheadParameters, WriteBufferParameters) are independent. With read-ahead
// off, a sequential reader is not served faster than a random one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "controller/controller_parameters.h"
#include "controller/read_ahead.h"
#include "controller/read_cache.h"
#include "controller/unit_table.h"
#include "controller/write_buffer.h"
#include "core/device.h"
#include "core/event_queue.h"
#include "core/random.h"
#include "core/slot_pool.h"
#include "ftl/ftl.h"
#include "link/link.h"

namespace twin {

class Ssd final : public Device, private EventHandler, private FtlClient {
 public:
  // Creates the FTL of the drive, whose client is the controller.
  using MakeFtl = std::function<std::unique_ptr<Ftl>(FtlClient&)>;

  // Link, queue and counters must outlive the drive. `seed` decides the order of commands with reordering. Throws
  // std::invalid_argument, naming the parameter, for parameters that contradict each other.
  Ssd(const SsdParameters& parameters, std::uint64_t capacity_bytes, const MakeFtl& make_ftl, Link& link,
      EventQueue& events, Counters& counters, std::uint64_t seed);

  void start(Nanoseconds now, Command& command) override;

  [[nodiscard]] const Ftl& ftl() const { return *ftl_; }

 private:
  // What the controller stores about a command, by Command::index.
  struct State {
    Command* command = nullptr;
    int stream = ReadAhead::kNoStream;
    std::uint64_t covered_bytes = 0;  // of a read: data prefetched or being prefetched
    std::uint64_t arrived_bytes = 0;  // of a read: data in memory that do not fill a transfer to the host yet
    Nanoseconds in_memory_until = 0;  // of a read: when its data so far have passed through the buffer memory
    bool is_done = false;             // of a read: complete, but behind others of its queue
    std::uint64_t flush_target = 0;   // of a flush: WriteBuffer::units_removed() at which it is complete
  };

  // The queue of a job, as far as its reads are concerned.
  struct ReadQueue {
    std::deque<Command*> outstanding;  // in order of arrival; empty without a completion window
    std::uint64_t last_unit = 0;       // of the last piece that was read from flash
    std::uint32_t last_units = 0;      // number of its units
  };

  // A command that needs data for which another command already reads the flash.
  struct PieceWaiter {
    Command* command = nullptr;
    std::uint64_t size_bytes = 0;
  };

  // Units, from `first` to before `end`, that are being read from flash for a read command.
  struct Piece {
    Command* command = nullptr;
    std::uint64_t first = 0, end = 0;
    std::uint64_t skip_bytes = 0;  // data before those that the command needs, still to arrive
    std::vector<PieceWaiter> waiters;
  };

  void on_event(Nanoseconds now, std::uint64_t what) override;
  void read_progress(Nanoseconds now, std::uint64_t token, std::uint64_t size_bytes) override;
  void read_done(Nanoseconds now, std::uint64_t token) override;
  void write_done(Nanoseconds now, std::uint64_t token) override;

  void accept(Nanoseconds now, Command& command);
  void accept_next(Nanoseconds now);
  void begin_read(Nanoseconds now, Command& command);
  void read_range(Nanoseconds now, Command& command, std::uint64_t begin_bytes, std::uint64_t end_bytes);
  void read_piece(Nanoseconds now, Command& command, std::uint64_t first, std::uint64_t end, std::uint64_t skip_bytes,
                  std::uint64_t size_bytes);
  [[nodiscard]] std::uint64_t place_of(std::uint64_t unit, std::uint32_t units, std::uint32_t job);
  void complete_piece(Nanoseconds now, std::uint32_t piece);
  void remove_read_units(std::uint64_t first, std::uint64_t end);
  void data_in_memory(Nanoseconds now, Command& command, std::uint64_t size_bytes);
  void transfer_to_host(Nanoseconds now, Command& command, std::uint64_t size_bytes);
  void complete_part(Nanoseconds now, Command& command);
  void prefetch(Nanoseconds now, int stream);
  void complete_prefetch(Nanoseconds now, std::uint64_t token);

  void begin_write(Nanoseconds now, Command& command);
  void read_rest_of_unit(Nanoseconds now, Command& command, std::uint64_t unit);
  void complete_rest_of_unit(Nanoseconds now, Command& command);
  bool buffer_write(Nanoseconds now, Command& command);
  void write_through(Nanoseconds now, Command& command);
  void destage(Nanoseconds now, bool partial);
  void begin_flush(Nanoseconds now, Command& command);
  void complete_flushes(Nanoseconds now);
  void begin_discard(Nanoseconds now, Command& command);
  void respond(Nanoseconds now, Command& command);
  void end_read(Nanoseconds now, Command& command);
  ReadQueue& read_queue(std::uint32_t job);

  [[nodiscard]] std::uint64_t first_unit(std::uint64_t offset_bytes) const { return offset_bytes / unit_bytes_; }
  [[nodiscard]] std::uint64_t end_unit(std::uint64_t end_bytes) const {
    return (end_bytes + unit_bytes_ - 1) / unit_bytes_;
  }

  SsdParameters parameters_;
  Link& link_;
  EventQueue& events_;
  Counters& counters_;
  std::unique_ptr<Ftl> ftl_;
  std::uint64_t unit_bytes_;
  std::uint64_t block_bytes_;
  ReadCache read_cache_;
  ReadAhead read_ahead_;
  WriteBuffer buffer_;
  UnitTable piece_of_unit_;  // pieces that are being read, if there is a read cache
  SlotPool<Piece> pieces_;
  bool write_back_;
  Nanoseconds accepts_from_ = 0;      // when the next command is accepted
  std::uint64_t reorder_threshold_;   // a random number below it means that not the oldest command is accepted
  std::uint64_t locality_threshold_;  // a random number below it means that a read is beside the previous one
  Random random_;
  std::vector<Command*> waiting_;  // commands that are not accepted yet, in order of arrival; empty without reordering
  std::vector<State> states_;
  std::vector<ReadQueue> read_queues_;   // by job
  std::vector<std::uint64_t> batch_;     // units on their way to the FTL
  std::deque<Command*> blocked_writes_;  // writes that found the buffer full, in order of arrival
  std::deque<Command*> flushes_;         // in order of arrival
  std::int64_t commands_ = 0;            // commands in the drive
  bool destage_timer_ = false;           // whether a kDestage event is scheduled
  bool idle_timer_ = false;              // whether a kIdle event is scheduled
  Nanoseconds last_activity_ = 0;
};

}  // namespace twin
