// The admin commands of an NVMe drive: identity, log pages, features and errors.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "nvme/nvme_controller.h"

namespace twin {
namespace {

const std::string kText =
    "capacity.size 1920383410176\nidentity.vendor GENERIC\nidentity.product NVMe\nidentity.revision 1.0\n"
    "identity.serial SERIAL01\nidentity.naa 0025385000000001\nwrite_buffer.enabled 1\nageing.cycles 600\n"
    "ageing.rated_cycles 3000\n";

struct Answer {
  NvmeResult result;
  std::vector<std::uint8_t> data = std::vector<std::uint8_t>(4096, 0xEE);
};

Answer send(const NvmeController::Command& command) {
  Answer answer;
  answer.result = NvmeController(kText).execute(command, answer.data.data(), answer.data.size());
  return answer;
}

std::uint64_t number(const std::vector<std::uint8_t>& data, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i > 0; --i) value = value << 8 | data[at + i - 1];
  return value;
}

TEST_CASE("an NVMe drive identifies its controller and its namespace") {
  const Answer controller = send({0x06, 0, 1, 0, 0});
  CHECK(controller.result.status == 0);
  CHECK(std::string(controller.data.begin() + 4, controller.data.begin() + 14) == "SERIAL01  ");
  CHECK(std::string(controller.data.begin() + 24, controller.data.begin() + 37) == "GENERIC NVMe ");
  CHECK(number(controller.data, 516, 4) == 1);
  const Answer space = send({0x06, 1, 0, 0, 0});
  CHECK(number(space.data, 0, 8) == 1920383410176 / 512);
  CHECK(space.data[130] == 9);
  CHECK(send({0x06, 7, 0, 0, 0}).result.status == 0x400B);     // no such namespace
  CHECK(send({0x06, 0, 0x40, 0, 0}).result.status == 0x4002);  // no such structure
}

TEST_CASE("an NVMe drive reports its wear and its firmware, and refuses other log pages and commands") {
  const Answer health = send({0x02, ~0U, 0x007F0002, 0, 0});
  CHECK(health.result.status == 0);
  CHECK(health.data[5] == 20);  // percent of the rated cycles
  CHECK(health.data[511] == 0);
  CHECK(health.data[512] == 0xEE);  // 512 bytes were asked for; the rest of the space is as before
  const Answer rest = send({0x02, ~0U, 0x007F0002, 0, 5});
  CHECK(rest.data[0] == 20);  // from an offset
  CHECK(send({0x02, 0, 0x007F0003, 0, 0}).data[8] == '1');
  CHECK(send({0x02, 0, 0x007F00C0, 0, 0}).result.status == 0x4109);
  CHECK(send({0x0A, 0, 6, 0, 0}).result.value == 1);
  CHECK(send({0x80, 0, 0, 0, 0}).result.status == 0x4001);  // FORMAT NVM
}

}  // namespace
}  // namespace twin
