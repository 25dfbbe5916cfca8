// Repeats recv() and send() until a message is complete.
#include "linux/wire.h"

#include <sys/socket.h>

#include <cerrno>

namespace twin {

namespace {

// Repeats `call`, which transfers at most `size_bytes` at `next`, until all bytes are transferred.
template <class Byte, class Call>
void transfer_all(Byte* next, std::size_t size_bytes, Call call) {
  while (size_bytes > 0) {
    const ssize_t moved = call(next, size_bytes);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) throw GuestGone{};
    next += moved;
    size_bytes -= static_cast<std::size_t>(moved);
  }
}

}  // namespace

void receive(int socket, void* to, std::size_t size_bytes) {
  transfer_all(static_cast<char*>(to), size_bytes,
               [socket](char* next, std::size_t left) { return recv(socket, next, left, MSG_WAITALL); });
}

void send_all(int socket, const void* from, std::size_t size_bytes) {
  transfer_all(static_cast<const char*>(from), size_bytes,
               [socket](const char* next, std::size_t left) { return send(socket, next, left, MSG_NOSIGNAL); });
}

}  // namespace twin
