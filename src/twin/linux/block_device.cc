// The messages of vhost-user and the request ring.
#include "linux/block_device.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "linux/wire.h"

#define VIRTIO_RING_NO_LEGACY
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>

namespace twin {
namespace {

enum Kind : std::uint32_t {
  kGetFeatures = 1,
  kSetFeatures = 2,
  kSetOwner = 3,
  kResetOwner = 4,
  kSetMemoryTable = 5,
  kSetRingSize = 8,
  kSetRingAddresses = 9,
  kSetRingBase = 10,
  kSetRingKick = 12,
  kSetRingCall = 13,
  kSetRingError = 14,
  kGetProtocolFeatures = 15,
  kSetProtocolFeatures = 16,
  kGetQueueCount = 17,
  kSetRingEnabled = 18,
  kSetBackendDescriptor = 21,
  kGetConfig = 24,
  kSetConfig = 25,
  kKick = 35,
};
constexpr std::uint32_t kBackendCall = 4;
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kIsReply = 1U << 2;
constexpr std::uint32_t kNeedsReply = 1U << 3;
// The feature bit for protocol features, and four protocol features: replies, a socket for interrupts, configuration,
// in-band kicks.
constexpr std::uint64_t kHasProtocolFeatures = 1ULL << 30;
constexpr std::uint64_t kProtocolFeatures = 1ULL << 3 | 1ULL << 5 | 1ULL << 9 | 1ULL << 14;

constexpr std::size_t kMostPayload = 4096;
// One segment for each page, as if no two pages were contiguous in the guest's memory: 2 MiB, more than the largest
// request that linux.py allows. Segments are in an indirect table, so the ring needs no room for them.
constexpr std::uint32_t kSegmentsOfARequest = 512;
constexpr std::size_t kMostSegments = kSegmentsOfARequest + 2;  // with the head and the status of the request
constexpr std::uint32_t kMostRingEntries = 1024;
constexpr std::uint32_t kMostDiscardSectors = 1U << 22;

constexpr std::uint64_t bit(unsigned number) { return 1ULL << number; }

}  // namespace

struct BlockDevice::Message {
  struct Head {
    std::uint32_t kind, flags, size_bytes;
  } head;
  unsigned char payload[kMostPayload];

  template <class T>
  [[nodiscard]] T at(std::size_t offset) const {
    if (offset + sizeof(T) > head.size_bytes) throw std::runtime_error("the guest sends a message that is too short");
    T value;
    std::memcpy(&value, payload + offset, sizeof value);
    return value;
  }
};

BlockDevice::BlockDevice(int socket, const Settings& settings, Requests& requests, Contents& contents,
                         Calendar& calendar, std::function<void()> marked)
    : socket_(socket),
      settings_(settings),
      requests_(requests),
      contents_(contents),
      calendar_(calendar),
      marked_(std::move(marked)) {
  config_.capacity = settings.size_bytes / kSectorBytes;
  config_.seg_max = kSegmentsOfARequest;
  config_.blk_size = kSectorBytes;
  config_.physical_block_exp = 3;  // 4 KiB
  config_.num_queues = 1;
  if (settings.discards) {
    config_.max_discard_sectors = kMostDiscardSectors;
    config_.max_discard_seg = 1;
    config_.discard_sector_alignment = 8;
  }
}

BlockDevice::~BlockDevice() {
  for (const Region& region : regions_) munmap(region.bytes, region.size_bytes);
  if (interrupts_ >= 0) close(interrupts_);
}

unsigned char* BlockDevice::memory(std::uint64_t address, std::uint64_t size_bytes) const {
  for (const Region& region : regions_) {
    if (address >= region.guest_address && size_bytes <= region.size_bytes &&
        address - region.guest_address <= region.size_bytes - size_bytes) {
      return region.bytes + (address - region.guest_address);
    }
  }
  throw std::runtime_error("the guest refers to memory that it has not shared");
}

void BlockDevice::receive_message(Message& message) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)];
  iovec part{&message.head, sizeof message.head};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got = recvmsg(socket_, &header, MSG_WAITALL | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof message.head)) throw GuestGone{};
  descriptors_.clear();
  for (cmsghdr* each = CMSG_FIRSTHDR(&header); each != nullptr; each = CMSG_NXTHDR(&header, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const std::size_t before = descriptors_.size();
    descriptors_.resize(before + count);
    std::memcpy(descriptors_.data() + before, CMSG_DATA(each), count * sizeof(int));
  }
  if (message.head.size_bytes > kMostPayload) throw std::runtime_error("the guest sends a message that is too long");
  receive(socket_, message.payload, message.head.size_bytes);
}

void BlockDevice::reply(const Message& message, const void* payload, std::uint32_t size_bytes) {
  Message answer;
  answer.head = {message.head.kind, kVersion | kIsReply, size_bytes};
  std::memcpy(answer.payload, payload, size_bytes);
  send_all(socket_, &answer, sizeof answer.head + size_bytes);
}

void BlockDevice::reply(const Message& message, std::uint64_t value) { reply(message, &value, sizeof value); }

void BlockDevice::map_memory(const Message& message) {
  const auto count = message.at<std::uint32_t>(0);
  for (const Region& region : regions_) munmap(region.bytes, region.size_bytes);
  regions_.clear();
  if (count > descriptors_.size()) throw std::runtime_error("the guest shares memory without a descriptor");
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t offset = 8 + std::size_t{32} * i;
    Region region{message.at<std::uint64_t>(offset), message.at<std::uint64_t>(offset + 8),
                  message.at<std::uint64_t>(offset + 16), message.at<std::uint64_t>(offset + 24), nullptr};
    void* const mapped = mmap(nullptr, region.size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors_[i],
                              static_cast<off_t>(region.offset));
    if (mapped == MAP_FAILED) throw std::runtime_error(std::string("the guest's memory: ") + std::strerror(errno));
    region.bytes = static_cast<unsigned char*>(mapped);
    regions_.push_back(region);
  }
}

void BlockDevice::set_addresses(const Message& message) {
  if (entries_ == 0) throw std::runtime_error("the guest sends the address of its ring before the size");
  // this kernel uses its own addresses as device addresses
  table_ = reinterpret_cast<vring_desc*>(memory(message.at<std::uint64_t>(8), sizeof(vring_desc) * entries_));
  used_ = reinterpret_cast<vring_used*>(memory(message.at<std::uint64_t>(16), 6 + sizeof(vring_used_elem) * entries_));
  available_ = reinterpret_cast<vring_avail*>(memory(message.at<std::uint64_t>(24), 6 + 2 * std::uint64_t{entries_}));
}

void BlockDevice::serve() {
  Message message;
  receive_message(message);
  switch (message.head.kind) {
    case kGetFeatures: {
      std::uint64_t features = bit(VIRTIO_F_VERSION_1) | kHasProtocolFeatures | bit(VIRTIO_BLK_F_SEG_MAX) |
                               bit(VIRTIO_BLK_F_BLK_SIZE) | bit(VIRTIO_BLK_F_TOPOLOGY) |
                               bit(VIRTIO_RING_F_INDIRECT_DESC);
      if (settings_.volatile_cache) features |= bit(VIRTIO_BLK_F_FLUSH);
      if (settings_.discards) features |= bit(VIRTIO_BLK_F_DISCARD);
      reply(message, features);
      return;
    }
    case kGetProtocolFeatures:
      reply(message, kProtocolFeatures);
      return;
    case kGetQueueCount:
      reply(message, 1);
      return;
    case kGetConfig: {
      // the guest's offset, size and flags, then the configuration
      unsigned char answer[kMostPayload] = {};
      std::memcpy(answer, message.payload, 12);
      const auto offset = message.at<std::uint32_t>(0);
      const auto wanted = message.at<std::uint32_t>(4);
      if (offset < sizeof config_ && wanted <= kMostPayload - 12) {
        const auto* from = reinterpret_cast<const unsigned char*>(&config_) + offset;
        std::memcpy(answer + 12, from, std::min<std::size_t>(wanted, sizeof config_ - offset));
      }
      reply(message, answer, message.head.size_bytes);
      return;
    }
    case kSetFeatures:
    case kSetOwner:
    case kResetOwner:
    case kSetProtocolFeatures:
    case kSetConfig:
    case kSetRingKick:  // kicks and interrupts are in band
    case kSetRingCall:
    case kSetRingError:
      break;
    case kSetBackendDescriptor:
      if (descriptors_.empty()) throw std::runtime_error("the guest sends no socket for interrupts");
      interrupts_ = descriptors_.front();
      descriptors_.erase(descriptors_.begin());
      fcntl(interrupts_, F_SETFL, fcntl(interrupts_, F_GETFL) & ~(O_NONBLOCK | O_ASYNC));
      break;
    case kSetMemoryTable:
      map_memory(message);
      break;
    case kSetRingSize:
      entries_ = message.at<std::uint32_t>(4);
      if (entries_ == 0 || entries_ > kMostRingEntries)
        throw std::runtime_error("the guest's ring has an invalid size");
      answered_bytes_.assign(entries_, 0);
      break;
    case kSetRingBase:
      taken_ = static_cast<std::uint16_t>(message.at<std::uint32_t>(4));
      break;
    case kSetRingAddresses:
      set_addresses(message);
      break;
    case kSetRingEnabled:
      enabled_ = message.at<std::uint32_t>(4) != 0;
      break;
    case kKick:
      calendar_.look();
      take_requests();
      // The guest must know the time of the next interrupt before it continues. It reads the calendar's socket first,
      // so it receives the new limit before the reply to its kick.
      if (calendar_.is_virtual() && !calendar_.guest_waits()) calendar_.shorten(requests_.earliest_completion_ns());
      break;
    default:
      throw std::runtime_error("the guest sends the unknown vhost-user message " + std::to_string(message.head.kind));
  }
  for (const int descriptor : descriptors_) close(descriptor);
  if ((message.head.flags & kNeedsReply) != 0) reply(message, 0);
}

void BlockDevice::take_requests() {
  if (!enabled_ || available_ == nullptr) return;
  for (;;) {
    const std::uint16_t end = __atomic_load_n(&available_->idx, __ATOMIC_ACQUIRE);
    if (end == taken_) return;
    const std::uint16_t head = available_->ring[taken_++ % entries_];
    if (head >= entries_) throw std::runtime_error("the guest's ring has an entry beyond its size");
    collect(head);
    *segments_.back().bytes = begin(head);
  }
}

void BlockDevice::collect(std::uint16_t head) {
  segments_.clear();
  const vring_desc* table = table_;
  std::uint64_t entries = entries_;
  std::uint16_t index = head;
  if ((table[index].flags & VRING_DESC_F_INDIRECT) != 0) {
    const vring_desc indirect = table[index];
    entries = indirect.len / sizeof(vring_desc);
    table = reinterpret_cast<const vring_desc*>(memory(indirect.addr, indirect.len));
    index = 0;
  }
  for (;;) {
    if (index >= entries || segments_.size() >= kMostSegments)
      throw std::runtime_error("a request of the guest has too many or invalid segments");
    const vring_desc piece = table[index];
    segments_.push_back({memory(piece.addr, piece.len), piece.len, (piece.flags & VRING_DESC_F_WRITE) != 0});
    if ((piece.flags & VRING_DESC_F_NEXT) == 0) break;
    index = piece.next;
  }
  if (segments_.size() < 2 || segments_.front().size_bytes < sizeof(virtio_blk_outhdr) || !segments_.back().to_guest ||
      segments_.back().size_bytes != 1) {
    throw std::runtime_error("a request of the guest has no head or no byte for its status");
  }
}

// Transfers the data of a request and submits the request to the drive, or completes it at once. Returns its status.
std::uint8_t BlockDevice::begin(std::uint16_t head) {
  virtio_blk_outhdr header;
  std::memcpy(&header, segments_.front().bytes, sizeof header);
  const auto data = segments_.begin() + 1;
  const auto data_end = segments_.end() - 1;
  std::uint32_t& answered = answered_bytes_[head] = 1;  // the status
  Request request;
  const std::uint64_t sectors = settings_.size_bytes / kSectorBytes;
  const auto within = [sectors](std::uint64_t first, std::uint64_t count) {
    return count > 0 && first <= sectors && count <= sectors - first;
  };
  const auto answer = [this, head](std::uint8_t status) {
    requests_.answer(calendar_.now(), head);
    return status;
  };
  switch (header.type) {
    case VIRTIO_BLK_T_IN:
    case VIRTIO_BLK_T_OUT: {
      const bool reads = header.type == VIRTIO_BLK_T_IN;
      request.operation = reads ? Operation::kRead : Operation::kWrite;
      for (auto each = data; each != data_end; ++each) request.size_bytes += each->size_bytes;
      if (request.size_bytes % kSectorBytes != 0 || !within(header.sector, request.size_bytes / kSectorBytes)) {
        return answer(VIRTIO_BLK_S_IOERR);
      }
      request.offset_bytes = header.sector * kSectorBytes;
      std::uint64_t offset = request.offset_bytes;
      for (auto each = data; each != data_end; ++each) {
        if (reads) {
          contents_.read(offset, each->bytes, each->size_bytes);
          answered += each->size_bytes;
        } else {
          contents_.write(offset, each->bytes, each->size_bytes);
        }
        offset += each->size_bytes;
      }
      break;
    }
    case VIRTIO_BLK_T_FLUSH:
      request.operation = Operation::kFlush;
      break;
    case VIRTIO_BLK_T_DISCARD: {
      virtio_blk_discard_write_zeroes range{};
      if (data != data_end && data->size_bytes == sizeof range) std::memcpy(&range, data->bytes, sizeof range);
      if (!settings_.discards || !within(range.sector, range.num_sectors)) return answer(VIRTIO_BLK_S_IOERR);
      request.operation = Operation::kDiscard;
      request.offset_bytes = range.sector * kSectorBytes;
      request.size_bytes = std::uint64_t{range.num_sectors} * kSectorBytes;
      contents_.discard(request.offset_bytes, request.size_bytes);
      break;
    }
    case VIRTIO_BLK_T_GET_ID:
      for (auto each = data; each != data_end; ++each) {
        std::memset(each->bytes, 0, each->size_bytes);
        answered += each->size_bytes;
      }
      marked_();
      return answer(VIRTIO_BLK_S_OK);
    default:
      return answer(VIRTIO_BLK_S_UNSUPP);
  }
  requests_.submit(calendar_.now(), request, head);
  return VIRTIO_BLK_S_OK;
}

void BlockDevice::complete(const std::vector<std::uint64_t>& tickets) {
  for (const std::uint64_t ticket : tickets) {
    vring_used_elem& element = used_->ring[used_->idx % entries_];
    element.id = static_cast<std::uint32_t>(ticket);
    element.len = answered_bytes_[ticket];
    __atomic_store_n(&used_->idx, static_cast<std::uint16_t>(used_->idx + 1), __ATOMIC_RELEASE);
  }
  if ((available_->flags & VRING_AVAIL_F_NO_INTERRUPT) == 0) interrupt();
}

// Interrupts the guest. Serves the guest's time messages until the guest confirms the interrupt.
void BlockDevice::interrupt() {
  struct Pair {
    Message::Head head;
    std::uint32_t values[2];
  };
  const Pair call{{kBackendCall, calendar_.is_virtual() ? kVersion | kNeedsReply : kVersion, 8}, {0, 0}};
  send_all(interrupts_, &call, sizeof call);
  // in real time the guest may be waiting for the reply to a kick
  if (!calendar_.is_virtual()) return;
  for (;;) {
    pollfd ends[] = {{calendar_.socket(), POLLIN, 0}, {interrupts_, POLLIN, 0}};
    if (poll(ends, 2, -1) < 0) continue;
    if (ends[0].revents != 0) {
      calendar_.serve();
      continue;
    }
    Pair confirmation;
    receive(interrupts_, &confirmation, sizeof confirmation);
    if (confirmation.values[0] != 0) throw std::runtime_error("the guest refuses an interrupt");
    return calendar_.see_request();
  }
}

}  // namespace twin
