// The controller of an SSD: decodes commands, keeps the write buffer, the read cache and read-ahead, and sends to the
// FTL what needs the flash.
//
// RCD, DRA and WCE (ReadCacheParameters, ReadAheadParameters, WriteBufferParameters) are independent: with read-ahead
// off, nothing else serves a sequential reader faster than a random one.
#pragma once

#include <cstdint>
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
#include "core/slot_pool.h"
#include "ftl/ftl.h"
#include "link/link.h"

namespace twin {

class Ssd final : public Device, private EventHandler, private FtlClient {
 public:
  // Makes the FTL of the drive, whose client is the controller.
  using MakeFtl = std::function<std::unique_ptr<Ftl>(FtlClient&)>;

  // Link, queue and counters must outlive the drive. Throws std::invalid_argument for parameters that do not go
  // together.
  Ssd(const SsdParameters& parameters, std::uint64_t capacity_bytes, const MakeFtl& make_ftl, Link& link,
      EventQueue& events, Counters& counters);
  ~Ssd() override;

  void start(Nanoseconds now, Command& command) override;

  [[nodiscard]] const Ftl& ftl() const { return *ftl_; }

 private:
  // What the controller remembers of a command beside what is in it; kept by Command::index.
  struct State {
    Command* command = nullptr;
    int stream = ReadAhead::kNoStream;
    std::uint64_t covered_bytes = 0;  // of a read: what read-ahead has or has asked for
    Nanoseconds passing_until = 0;    // of a read: when its data so far have passed through the buffer memory
    std::uint64_t flush_target = 0;   // of a flush: how many units must have left the buffer
  };

  static constexpr std::uint32_t kNobody = 0xFFFFFFFF;

  // Units on their way from the flash for a read command.
  struct Piece {
    Command* command = nullptr;
    std::uint64_t first = 0, last = 0;  // the units from `first` to before `last`
    std::uint32_t waiting = kNobody;    // the first of those who wait for them as well
    std::uint32_t waiting_last = kNobody;
  };

  // A command that wants data which another one has asked the flash for.
  struct Waiting {
    Command* command = nullptr;
    std::uint64_t size_bytes = 0;
    std::uint32_t next = kNobody;
  };

  void on_event(Nanoseconds now, std::uint64_t what) override;
  void read_progress(Nanoseconds now, std::uint64_t token, std::uint64_t size_bytes) override;
  void read_done(Nanoseconds now, std::uint64_t token) override;
  void write_done(Nanoseconds now, std::uint64_t token, std::uint32_t count) override;

  void begin_read(Nanoseconds now, Command& command);
  void demand(Nanoseconds now, Command& command, std::uint64_t begin_bytes, std::uint64_t end_bytes);
  void demand_piece(Nanoseconds now, Command& command, std::uint64_t first, std::uint64_t last,
                    std::uint64_t size_bytes);
  void wait_for(std::uint32_t piece, Command& command, std::uint64_t size_bytes);
  void demand_done(Nanoseconds now, std::uint32_t piece);
  void forget_fetched(std::uint64_t first, std::uint64_t end);
  void carry(Nanoseconds now, Command& command, std::uint64_t size_bytes);
  void part_done(Nanoseconds now, Command& command);
  void read_ahead(Nanoseconds now, int stream);
  void piece_arrived(Nanoseconds now, std::uint64_t token);

  void begin_write(Nanoseconds now, Command& command);
  void fill(Nanoseconds now, Command& command, std::uint64_t unit);
  void filled(Nanoseconds now, Command& command);
  bool accept(Nanoseconds now, Command& command);
  void write_through(Nanoseconds now, Command& command);
  void destage(Nanoseconds now, bool partial);
  void begin_flush(Nanoseconds now, Command& command);
  void end_flushes(Nanoseconds now);
  void begin_discard(Nanoseconds now, Command& command);
  void respond(Nanoseconds now, Command& command);

  [[nodiscard]] std::uint64_t first_unit(std::uint64_t offset_bytes) const { return offset_bytes / unit_bytes_; }
  [[nodiscard]] std::uint64_t end_unit(std::uint64_t end_bytes) const {
    return (end_bytes + unit_bytes_ - 1) / unit_bytes_;
  }

  ControllerParameters controller_;
  WriteBufferParameters buffer_parameters_;
  std::int64_t max_outstanding_;
  Link& link_;
  EventQueue& events_;
  Counters& counters_;
  std::unique_ptr<Ftl> ftl_;
  Nanoseconds background_idle_;
  std::uint64_t unit_bytes_;
  std::uint64_t piece_units_;  // units of one demand piece: those of a flash page
  ReadCache read_cache_;
  bool keeps_written_;
  ReadAhead read_ahead_;
  WriteBuffer buffer_;
  UnitTable fetching_;  // which piece brings a unit; kept where there is a read cache to bring it to
  SlotPool<Piece> pieces_;
  SlotPool<Waiting> waiting_;
  bool write_back_;
  Nanoseconds accepts_from_ = 0;  // the next command
  std::vector<State> states_;
  std::vector<std::uint64_t> batch_;  // units on their way to the FTL
  Command* waiting_first_ = nullptr;  // writes that found the buffer full, in the order of arrival
  Command* waiting_last_ = nullptr;
  std::vector<Command*> flushes_;
  std::int64_t commands_ = 0;  // in the drive
  bool destage_timer_ = false;
  bool idle_timer_ = false;
  Nanoseconds last_activity_ = 0;
};

}  // namespace twin
