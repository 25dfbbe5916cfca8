// The guest's /dev/vda: a virtio block device, served over vhost-user.
//
// The guest's kernel sends the address of its memory and of the request ring in it. It sends a kick when the ring has
// new requests. The device takes each request from the ring, transfers the data and submits the request to the
// simulated drive. On completion the device interrupts the guest. Kicks and interrupts are messages on the sockets ("in
// band"), so that the exchange is synchronous. Protocol: docs/interop/vhost-user.rst of QEMU; virtio 1.2, sections 2.7
// and 5.2.
#pragma once

#include <linux/virtio_blk.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "core/units.h"
#include "linux/calendar.h"
#include "linux/contents.h"
#include "linux/requests.h"

// Only the .cc file needs the definitions, from a header of the kernel that is written for C.
struct vring_desc;
struct vring_avail;
struct vring_used;

namespace twin {

class BlockDevice {
 public:
  struct Settings {
    std::uint64_t size_bytes = 0;
    bool discards = false;       // whether the drive accepts discards
    bool volatile_cache = true;  // whether the drive has a volatile cache, which the guest must flush
  };

  // `socket` is connected to the guest. `marked` is called whenever the guest reads the drive's serial number, by which
  // the guest's first process signals that the command begins. All arguments must outlive this object.
  BlockDevice(int socket, const Settings& settings, Requests& requests, Contents& contents, Calendar& calendar,
              std::function<void()> marked);
  ~BlockDevice();
  BlockDevice(const BlockDevice&) = delete;
  BlockDevice& operator=(const BlockDevice&) = delete;

  [[nodiscard]] int socket() const { return socket_; }

  // Returns a pointer to `size_bytes` of the guest's memory. Throws std::runtime_error if they are not shared.
  [[nodiscard]] unsigned char* memory(std::uint64_t address, std::uint64_t size_bytes) const;

  // Reads and answers one message. Throws GuestGone, and std::runtime_error for an invalid message.
  void serve();

  // Reports the requests with these tickets to the guest as complete.
  void complete(const std::vector<std::uint64_t>& tickets);

 private:
  struct Message;
  struct Region {
    std::uint64_t guest_address, size_bytes, user_address, offset;
    unsigned char* bytes;
  };
  // A contiguous part of a request's memory in the guest.
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
  std::vector<int> descriptors_;  // received with the last message
  std::vector<Segment> segments_;
  // the ring
  std::uint32_t entries_ = 0;
  vring_desc* table_ = nullptr;
  vring_avail* available_ = nullptr;
  vring_used* used_ = nullptr;
  std::uint16_t taken_ = 0;
  bool enabled_ = false;
  std::vector<std::uint32_t> answered_bytes_;  // by the head of a request: bytes written to the guest's memory
};

}  // namespace twin
