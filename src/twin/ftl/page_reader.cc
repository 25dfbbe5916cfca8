// The events of page reads: the end of the array read, and the end of each transfer.
#include "ftl/page_reader.h"

#include <utility>

namespace twin {
namespace {

// Kinds of events. An event consists of its kind and the number of the page read.
enum : std::uint64_t { kInRegister, kPieceArrived };
constexpr unsigned kWhatBits = 1;

std::uint64_t event(std::uint64_t what, std::uint32_t page_read) {
  return static_cast<std::uint64_t>(page_read) << kWhatBits | what;
}

}  // namespace

void PageReader::read_page(Nanoseconds now, std::uint32_t operation, FlashPage page, std::uint64_t size_bytes) {
  ++operations_[operation].pending;
  const std::uint64_t extra_bytes = flash_.in_codewords(size_bytes) - size_bytes;
  const std::uint32_t page_read = page_reads_.take({operation, page.die, size_bytes, extra_bytes});
  events_.schedule(flash_.array_read(now, page, ReadFor::kHost), *this, event(kInRegister, page_read));
}

void PageReader::transfer_piece(Nanoseconds now, std::uint32_t number) {
  PageRead& page_read = page_reads_[number];
  const std::uint64_t piece = std::min(page_read.left_bytes, kBlockBytes) + std::exchange(page_read.extra_bytes, 0);
  events_.schedule(flash_.transfer(now, page_read.die, piece), *this, event(kPieceArrived, number));
}

void PageReader::on_event(Nanoseconds now, std::uint64_t what) {
  const auto number = static_cast<std::uint32_t>(what >> kWhatBits);
  if ((what & ((1U << kWhatBits) - 1)) == kInRegister) return transfer_piece(now, number);
  PageRead& page_read = page_reads_[number];
  const std::uint32_t operation = page_read.operation;
  const std::uint64_t arrived_bytes = std::min(page_read.left_bytes, kBlockBytes);
  page_read.left_bytes -= arrived_bytes;
  client_.read_progress(now, operations_[operation].token, arrived_bytes);
  if (page_read.left_bytes > 0) return transfer_piece(now, number);
  page_reads_.release(number);
  end(now, operation);
}

void PageReader::end(Nanoseconds now, std::uint32_t operation) {
  if (--operations_[operation].pending > 0) return;
  const std::uint64_t token = operations_[operation].token;
  operations_.release(operation);  // before the call, from within which the client may start further reads
  client_.read_done(now, token);
}

}  // namespace twin
