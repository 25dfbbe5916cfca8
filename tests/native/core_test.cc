// What all layers stand on: the pool of reused objects.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "core/slot_pool.h"

namespace twin {
namespace {

TEST_CASE("a pool gives each object a number of its own, keeps it where it is, and reuses what was released last") {
  SlotPool<std::uint64_t> pool;
  std::map<std::uint32_t, std::uint64_t*> taken;
  std::mt19937_64 random(11);
  for (int step = 0; step < 20'000; ++step) {
    if (taken.empty() || random() % 5 < 3) {
      const std::uint64_t value = random();
      const std::uint32_t slot = pool.take(value);
      REQUIRE(!taken.contains(slot));
      taken[slot] = &pool[slot];
      REQUIRE(pool[slot] == value);
      *taken[slot] = slot;
    } else {
      const auto any = taken.begin();
      const std::uint32_t slot = any->first;
      REQUIRE(pool[slot] == slot);  // nobody else has written to it
      pool.release(slot);
      taken.erase(any);
      if (step % 2 == 0) {
        const std::uint32_t again = pool.take_as_left();
        REQUIRE(again == slot);
        REQUIRE(pool[again] == slot);
        pool.release(again);
      }
    }
    REQUIRE(pool.in_use() == taken.size());
    for (const auto& [slot, address] : taken) REQUIRE(address == &pool[slot]);
    if (taken.size() > 300) {
      for (const auto& [slot, address] : taken) pool.release(slot);
      taken.clear();
    }
  }
}

}  // namespace
}  // namespace twin
