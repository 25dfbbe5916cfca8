// The guest's /dev/vda: a virtio block device, served over vhost-user.
//
// The guest's kernel says where its memory and the ring of requests in it are, and kicks when requests are there; each
// is taken from the ring, its data moved, and it is then on its way through the simulated drive. When that has ended,
// the guest is interrupted. Kicks and interrupts go through the sockets too ("in band"), so that all is synchronous.
// Protocol: docs/interop/vhost-user.rst of QEMU; virtio 1.2, sections 2.7 and 5.2.
#pragma once

#include <linux/virtio_blk.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "core/units.h"
#include "linux/calendar.h"
#include "linux/contents.h"
#include "linux/requests.h"

// the kernel's header has them for C; what follows needs none of them but the layouts
struct vring_desc;
struct vring_avail;
struct vring_used;

namespace twin {

class BlockDevice {
 public:
  struct Settings {
    std::uint64_t size_bytes = 0;
    bool discards = false;       // whether the drive can be told of what is no longer used
    bool volatile_cache = true;  // whether the guest flushes it
  };

  // `socket` is connected to the guest. `marked` is called each time the guest asks for the drive's serial number: with
  // nothing else to tell the device by, the guest's first process says so where it has come to. All must outlive this.
  BlockDevice(int socket, const Settings& settings, Requests& requests, Contents& contents, Calendar& calendar,
              std::function<void()> marked);
  ~BlockDevice();
  BlockDevice(const BlockDevice&) = delete;
  BlockDevice& operator=(const BlockDevice&) = delete;

  [[nodiscard]] int socket() const { return socket_; }

  // So many bytes of the guest's memory. Throws std::runtime_error where the guest has not shared them.
  [[nodiscard]] unsigned char* memory(std::uint64_t address, std::uint64_t size_bytes) const;

  // Reads and answers one message. Throws GuestGone, std::runtime_error for one that makes no sense.
  void serve();

  // Tells the guest that the requests with these tickets are complete.
  void complete(const std::vector<std::uint64_t>& tickets);

 private:
  struct Message;
  struct Region {
    std::uint64_t guest_address, size_bytes, user_address, offset;
    unsigned char* bytes;
  };
  // A piece of the guest's memory in a request.
  struct Segment {
    unsigned char* bytes;
    std::uint32_t size_bytes;
    bool to_guest;
  };

  void receive_message(Message& message);
  void reply(const Message& message, const void* payload, std::uint32_t size_bytes);
  void reply(const Message& message, std::uint64_t value);
  void map_memory(const Message& message);
  void set_addresses(const Message& message);
  void take_requests();
  void collect(std::uint16_t head);
  std::uint8_t begin(std::uint16_t head);
  void interrupt();

  int socket_;
  int interrupts_ = -1;
  Settings settings_;
  Requests& requests_;
  Contents& contents_;
  Calendar& calendar_;
  std::function<void()> marked_;
  virtio_blk_config config_{};
  std::vector<Region> regions_;
  std::vector<int> descriptors_;  // that came with the last message
  std::vector<Segment> segments_;
  // the ring
  std::uint32_t entries_ = 0;
  vring_desc* table_ = nullptr;
  vring_avail* available_ = nullptr;
  vring_used* used_ = nullptr;
  std::uint16_t taken_ = 0;
  bool enabled_ = false;
  std::vector<std::uint32_t> answered_bytes_;  // by the head of a request: how much of the guest's memory was written
};

}  // namespace twin
