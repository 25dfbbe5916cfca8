// Messages of fixed size over the sockets between the guest's kernel and this process.
#pragma once

#include <cstddef>
#include <exception>

namespace twin {

// The guest's kernel has ended, or has closed a socket.
struct GuestGone final : std::exception {};

// Both functions return when all `size_bytes` are transferred. They throw GuestGone if the other end is closed.
void receive(int socket, void* to, std::size_t size_bytes);
void send_all(int socket, const void* from, std::size_t size_bytes);

}  // namespace twin
