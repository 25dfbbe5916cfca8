// The replay of traces, and the counters of a drive, for Python.
#include "drive/replay.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "drive/drive.h"
#include "drive/file_recorder.h"
#include "drive/parameters.h"
#include "python/bindings.h"

namespace nb = nanobind;

namespace twin {
namespace {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Returns one column of the completed requests as a numpy array that owns its memory.
template <class T, class Get>
nb::object column(const std::vector<Replayed>& done, Get get) {
  auto* values = new T[done.size()];
  std::transform(done.begin(), done.end(), values, get);
  nb::capsule owner(values, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(values, {done.size()}, owner));
}

nb::tuple columns(const std::vector<Replayed>& done) {
  return nb::make_tuple(column<std::uint64_t>(done, [](const Replayed& each) { return each.request; }),
                        column<std::int64_t>(done, [](const Replayed& each) { return each.issue_ns; }),
                        column<std::int64_t>(done, [](const Replayed& each) { return each.latency_ns; }));
}

// A drive and a replay on it.
class Session {
 public:
  Session(const std::string& parameters, std::uint32_t threads, std::uint32_t depth, std::uint64_t seed)
      : drive_(parse_parameters(parameters), seed), without_depth_(depth == 0), replay_(drive_, threads, depth) {
    if (threads == 0) throw std::invalid_argument("threads must be at least 1");
  }

  void record(const std::string& path, std::int64_t interval_ns, std::uint64_t interval_bytes) {
    recorder_ = std::make_unique<FileRecorder>(path.c_str());
    drive_.record_to(*recorder_, interval_ns, interval_bytes);
  }

  nb::tuple feed(const Column<std::int64_t>& delay_ns, const Column<std::uint8_t>& operation,
                 const Column<std::uint64_t>& offset_bytes, const Column<std::uint64_t>& size_bytes,
                 const std::optional<Column<std::uint64_t>>& after) {
    const std::size_t count = operation.shape(0);
    if (offset_bytes.shape(0) != count || size_bytes.shape(0) != count ||
        delay_ns.shape(0) != (without_depth_ ? count : 0) || (after && after->shape(0) != count)) {
      throw std::invalid_argument("all columns of a trace must have the same length");
    }
    const TracePiece piece{delay_ns.data(),   after ? after->data() : nullptr,
                           operation.data(),  offset_bytes.data(),
                           size_bytes.data(), count};
    check(piece);
    std::vector<Replayed> done;
    done.reserve(count);
    {
      nb::gil_scoped_release released;
      replay_.feed(piece, done);
    }
    fed_ += count;
    return columns(done);
  }

  nb::tuple finish() {
    std::vector<Replayed> done;
    {
      nb::gil_scoped_release released;
      replay_.finish(done);
    }
    if (recorder_ && !recorder_->flush())
      throw std::runtime_error("the time series could not be written completely: the disk may be full");
    return columns(done);
  }

  [[nodiscard]] nb::dict counters() const {
    nb::dict result;
    visit_counters(drive_.counters(), [&](const char* name, std::uint64_t value) { result[name] = value; });
    return result;
  }

  [[nodiscard]] Nanoseconds end_ns() const { return replay_.end_ns(); }
  [[nodiscard]] std::uint64_t size_bytes() const { return drive_.size_bytes(); }

 private:
  // Throws std::invalid_argument, naming the request, if the drive cannot serve one of the requests.
  void check(const TracePiece& piece) {
    const std::uint64_t drive_bytes = drive_.size_bytes();
    for (std::size_t i = 0; i < piece.count; ++i) {
      const std::uint64_t offset = piece.offset_bytes[i];
      const std::uint64_t size = piece.size_bytes[i];
      if (piece.operation[i] > static_cast<std::uint8_t>(Operation::kDiscard)) {
        throw std::invalid_argument(request(i) + "operation " + std::to_string(piece.operation[i]) +
                                    " is not valid; valid are 0 to 3");
      }
      const bool flush = piece.operation[i] == static_cast<std::uint8_t>(Operation::kFlush);
      if (!flush && (size == 0 || offset % kSectorBytes != 0 || size % kSectorBytes != 0 || offset > drive_bytes ||
                     size > drive_bytes - offset)) {
        throw std::invalid_argument(request(i) + std::to_string(size) + " bytes at " + std::to_string(offset) +
                                    " are not complete sectors within the drive of " + std::to_string(drive_bytes) +
                                    " bytes");
      }
      if (!without_depth_) continue;
      const std::uint64_t after = piece.after == nullptr ? 0 : piece.after[i];
      if (piece.delay_ns[i] < (after == last_after_ ? last_delay_ns_ : 0)) {
        throw std::invalid_argument(request(i) + "arrives before the previous request");
      }
      if (after < last_after_ || after > fed_ + i) {
        throw std::invalid_argument(request(i) + "waits for " + std::to_string(after) + " requests; valid are " +
                                    std::to_string(last_after_) + " to " + std::to_string(fed_ + i));
      }
      last_after_ = after;
      last_delay_ns_ = piece.delay_ns[i];
    }
  }

  [[nodiscard]] std::string request(std::size_t i) const { return "request " + std::to_string(fed_ + i) + ": "; }

  Drive drive_;
  bool without_depth_;
  Replay replay_;
  std::unique_ptr<FileRecorder> recorder_;
  std::uint64_t fed_ = 0;
  std::uint64_t last_after_ = 0;
  Nanoseconds last_delay_ns_ = 0;
};

}  // namespace

void bind_replay(nb::module_& module) {
  nb::class_<Session>(module, "Replay", "A drive, and the replay of a trace on it, piece by piece.")
      .def(nb::init<const std::string&, std::uint32_t, std::uint32_t, std::uint64_t>(), nb::arg("parameters"),
           nb::arg("threads"), nb::arg("depth"), nb::arg("seed") = 0,
           "Create a drive. depth 0: requests are issued by delay_ns. seed: of the drive's random behaviour.")
      .def("record", &Session::record, nb::arg("path"), nb::arg("interval_ns"), nb::arg("interval_bytes"),
           "Record time series to a file, with snapshots every interval_ns and interval_bytes (0: never).")
      .def(
          "feed", &Session::feed, nb::arg("delay_ns"), nb::arg("operation"), nb::arg("offset_bytes"),
          nb::arg("size_bytes"), nb::arg("after") = nb::none(),
          "Submit requests, each delay_ns after the given number of completions (by default 0: at its time of arrival);"
          " return (request, issue_ns, latency_ns) of complete requests.")
      .def("finish", &Session::finish, "Wait for the outstanding requests; return (request, issue_ns, latency_ns).")
      .def("counters", &Session::counters, "Return the counters of the drive by their names.")
      .def_prop_ro("end_ns", &Session::end_ns, "Time at which the last request was complete.")
      .def_prop_ro("size_bytes", &Session::size_bytes, "Size of the drive.");
}

}  // namespace twin
