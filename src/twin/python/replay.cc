// Python's way to replay traces and to read a drive's counters.
#include "drive/replay.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
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

// One column of the completed requests, as an array of numpy's own.
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
      : drive_(parse_parameters(parameters), seed), open_loop_(depth == 0), replay_(drive_, threads, depth) {
    if (threads == 0) throw std::invalid_argument("threads must be at least 1");
  }

  void record(const std::string& path, std::int64_t interval_ns, std::uint64_t interval_bytes) {
    recorder_ = std::make_unique<FileRecorder>(path.c_str());
    drive_.record_to(*recorder_, interval_ns, interval_bytes);
  }

  nb::tuple feed(const Column<std::int64_t>& arrival_ns, const Column<std::uint8_t>& operation,
                 const Column<std::uint64_t>& offset_bytes, const Column<std::uint64_t>& size_bytes) {
    const std::size_t count = operation.shape(0);
    if (offset_bytes.shape(0) != count || size_bytes.shape(0) != count ||
        arrival_ns.shape(0) != (open_loop_ ? count : 0)) {
      throw std::invalid_argument("the columns of a trace must be of the same length");
    }
    const TracePiece piece{arrival_ns.data(), operation.data(), offset_bytes.data(), size_bytes.data(), count};
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
    if (recorder_ && !recorder_->flush()) throw std::runtime_error("the counters could not be written in full");
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
  // Throws std::invalid_argument naming the request that the drive cannot serve.
  void check(const TracePiece& piece) {
    const std::uint64_t drive_bytes = drive_.size_bytes();
    for (std::size_t i = 0; i < piece.count; ++i) {
      const std::uint64_t offset = piece.offset_bytes[i];
      const std::uint64_t size = piece.size_bytes[i];
      if (piece.operation[i] > static_cast<std::uint8_t>(Operation::kDiscard)) {
        throw std::invalid_argument(request(i) + "no such operation");
      }
      const bool flush = piece.operation[i] == static_cast<std::uint8_t>(Operation::kFlush);
      if (!flush && (size == 0 || offset % kSectorBytes != 0 || size % kSectorBytes != 0 || offset > drive_bytes ||
                     size > drive_bytes - offset)) {
        throw std::invalid_argument(request(i) + std::to_string(size) + " bytes at " + std::to_string(offset) +
                                    " are no whole sectors of a drive of " + std::to_string(drive_bytes) + " bytes");
      }
      if (open_loop_) {
        if (piece.arrival_ns[i] < last_arrival_) {
          throw std::invalid_argument(request(i) + "arrives before the one in front of it");
        }
        last_arrival_ = piece.arrival_ns[i];
      }
    }
  }

  [[nodiscard]] std::string request(std::size_t i) const { return "request " + std::to_string(fed_ + i) + ": "; }

  Drive drive_;
  bool open_loop_;
  Replay replay_;
  std::unique_ptr<FileRecorder> recorder_;
  std::uint64_t fed_ = 0;
  Nanoseconds last_arrival_ = 0;
};

}  // namespace

void bind_replay(nb::module_& module) {
  nb::class_<Session>(module, "Replay", "A drive, and a trace replayed on it piece by piece.")
      .def(nb::init<const std::string&, std::uint32_t, std::uint32_t, std::uint64_t>(), nb::arg("parameters"),
           nb::arg("threads"), nb::arg("depth"), nb::arg("seed") = 0,
           "depth 0: open loop, by the trace's own times; seed: of what is left to chance in the drive")
      .def("record", &Session::record, nb::arg("path"), nb::arg("interval_ns"), nb::arg("interval_bytes"))
      .def("feed", &Session::feed, nb::arg("arrival_ns"), nb::arg("operation"), nb::arg("offset_bytes"),
           nb::arg("size_bytes"), "Return (request, issue_ns, latency_ns) of the requests that are over.")
      .def("finish", &Session::finish, "Wait for the requests in flight; return what feed() returns.")
      .def("counters", &Session::counters)
      .def_prop_ro("end_ns", &Session::end_ns)
      .def_prop_ro("size_bytes", &Session::size_bytes);
}

}  // namespace twin
