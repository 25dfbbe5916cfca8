// The pool of reusable objects.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <random>

#include "core/slot_pool.h"

namespace twin {
namespace {

TEST_CASE("a slot pool gives each object its own number, never moves it, and reuses the slot released last") {
  SlotPool<std::uint64_t> pool;
  std::map<std::uint32_t, std::uint64_t*> taken;
  std::mt19937_64 random(11);
  for (int step = 0; step < 20'000; ++step) {
    if (taken.empty() || random() % 5 < 3) {
      const std::uint32_t slot = pool.take(0);
      REQUIRE(!taken.contains(slot));
      taken[slot] = &pool[slot];
      pool[slot] = slot;
    } else {
      const std::uint32_t slot = taken.begin()->first;
      pool.release(slot);
      REQUIRE(pool[slot] == slot);  // its value until it is taken again
      REQUIRE(pool.take(slot) == slot);
      pool.release(slot);
      taken.erase(slot);
    }
    REQUIRE(pool.in_use() == taken.size());
    for (const auto& [slot, address] : taken) {
      REQUIRE(address == &pool[slot]);
      REQUIRE(*address == slot);
    }
    if (taken.size() > 300) {
      for (const auto& [slot, address] : taken) pool.release(slot);
      taken.clear();
    }
  }
}

}  // namespace
}  // namespace twin
