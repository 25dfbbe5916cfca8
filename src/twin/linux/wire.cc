// Repeats recv() and send() until a message is complete.
#include "linux/wire.h"

#include <sys/socket.h>

#include <cerrno>

namespace twin {

void receive(int socket, void* to, std::size_t size_bytes) {
  char* next = static_cast<char*>(to);
  while (size_bytes > 0) {
    const ssize_t got = recv(socket, next, size_bytes, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw GuestGone{};
    next += got;
    size_bytes -= static_cast<std::size_t>(got);
  }
}

void send_all(int socket, const void* from, std::size_t size_bytes) {
  const char* next = static_cast<const char*>(from);
  while (size_bytes > 0) {
    const ssize_t sent = send(socket, next, size_bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) throw GuestGone{};
    next += sent;
    size_bytes -= static_cast<std::size_t>(sent);
  }
}

}  // namespace twin
