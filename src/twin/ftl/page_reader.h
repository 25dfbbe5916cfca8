// Reads mapping units from flash: the one read path of both FTLs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/event_queue.h"
#include "core/slot_pool.h"
#include "flash/flash.h"
#include "ftl/ftl.h"
#include "ftl/layout.h"

namespace twin {

// A read operation is one call of Ftl::read(), and consists of page reads. A page read is an array read followed by the
// transfer of its data over the channel, in pieces of a few KiB. Thus the first piece can leave the drive while later
// pieces are still being transferred. The client is called for each piece, and when all page reads of the operation are
// complete.
class PageReader final : private EventHandler {
 public:
  // All arguments must outlive the reader.
  PageReader(EventQueue& events, Flash& flash, FtlClient& client) : events_(events), flash_(flash), client_(client) {}

  // Begins an operation and returns its number. The operation stays open until end() or end_of_call() is called.
  std::uint32_t begin(std::uint64_t token) { return operations_.take({token, 1}); }

  // Starts the page reads for `count` units from `first` on, from which the client needs `size_bytes`.
  // Neighbouring units are read together as long as `ftl.reads_together(page, run, next)` is true: whether physical
  // page `next` belongs to the same page read as the `run` physical pages from `page` on.
  template <class MappedFtl>
  void read_units(const MappedFtl& ftl, Nanoseconds now, std::uint32_t operation, std::uint32_t first,
                  std::uint32_t count, std::uint64_t size_bytes) {
    std::uint64_t left_bytes = size_bytes;
    for (std::uint32_t i = 0; i < count;) {
      const std::uint32_t page = ftl.physical_page_of(first + i);
      std::uint32_t run = 1;
      while (page != kNoUnit && i + run < count) {
        const std::uint32_t next = ftl.physical_page_of(first + i + run);
        if (next == kNoUnit || !ftl.reads_together(page, run, next)) break;
        ++run;
      }
      const std::uint64_t wanted_bytes = std::min(left_bytes, run * ftl.properties().unit_bytes);
      left_bytes -= wanted_bytes;
      if (page != kNoUnit) read_page(now, operation, ftl.flash_page_of(page), wanted_bytes);
      i += run;
    }
  }

  // Closes an operation from within Ftl::read(), when all its page reads have been started. Returns false if there were
  // none; the client is never called then.
  bool end_of_call(std::uint32_t operation) {
    if (--operations_[operation].pending > 0) return true;
    operations_.release(operation);
    return false;
  }

  // Closes an operation from within an event. Calls read_done() of the client if no page read is outstanding.
  void end(Nanoseconds now, std::uint32_t operation);

 private:
  struct Operation {
    std::uint64_t token = 0;
    std::uint32_t pending = 0;  // outstanding page reads, plus one while the operation is open
  };

  struct PageRead {
    std::uint32_t operation = 0;
    std::uint32_t die = 0;
    std::uint64_t left_bytes = 0;   // requested data that have not been transferred
    std::uint64_t extra_bytes = 0;  // the rest of the codewords, transferred with the first piece
  };

  void read_page(Nanoseconds now, std::uint32_t operation, FlashPage page, std::uint64_t size_bytes);
  void transfer_piece(Nanoseconds now, std::uint32_t page_read);
  void on_event(Nanoseconds now, std::uint64_t what) override;

  EventQueue& events_;
  Flash& flash_;
  FtlClient& client_;
  SlotPool<Operation> operations_;
  SlotPool<PageRead> page_reads_;
};

}  // namespace twin
