// The SCSI target: mode pages as the model has them, faults in sense data, and no memory touched that is not its own.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "scsi/scsi_target.h"

namespace twin {
namespace {

constexpr const char* kText =
    "capacity.size 400088457216\nidentity.vendor TOSHIBA\nidentity.product PX05SMB040\nidentity.revision 0102\n"
    "identity.serial SERIAL01\nidentity.naa 5000039600000540\nidentity.rotation_rpm 1\nidentity.form_factor 3\n"
    "identity.transport sas\nmode_page.WCE 1 changeable\nmode_page.RCD 0 fixed\nmode_page.DRA 0 refused\n"
    "mode_page.FSW 0 ignored\nmode_page.NCS 32 fixed\nmode_page.savable 1\n";

// A target with a folder of its own.
struct Fixture {
  Fixture() : target(kText, mkdtemp(folder)) {}
  ~Fixture() {
    unlink((std::string(folder) + "/mode-pages").c_str());
    rmdir(folder);
  }

  ScsiResult run(const std::vector<std::uint8_t>& cdb, const std::vector<std::uint8_t>& out = {}) {
    in.assign(512, 0xEE);
    const ScsiResult result = target.execute(cdb.data(), cdb.size(), out.data(), out.size(), in.data(), in.size());
    in.resize(result.transferred_bytes);
    return result;
  }

  // The caching page, by page control: 0 current, 1 changeable, 2 default, 3 saved.
  CachingPage page(std::uint8_t control) {
    REQUIRE(run({0x1A, 0x08, static_cast<std::uint8_t>(control << 6 | 0x08), 0, 255, 0}).status == 0);
    REQUIRE(in.size() == 4 + kCachingPageBytes);
    CachingPage result;
    std::copy(in.begin() + 4, in.end(), result.begin());
    result[0] &= 0x3F;
    return result;
  }

  ScsiResult select(const CachingPage& changed, bool save = false) {
    std::vector<std::uint8_t> list(4, 0);
    list.insert(list.end(), changed.begin(), changed.end());
    const auto flags = static_cast<std::uint8_t>(save ? 0x11 : 0x10);
    return run({0x15, flags, 0, 0, static_cast<std::uint8_t>(list.size()), 0}, list);
  }

  ScsiResult change(const char* field, std::uint32_t value, bool save = false) {
    CachingPage changed = page(0);
    set(changed, *find_caching_field(field), value);
    return select(changed, save);
  }

  char folder[32] = "/tmp/scsi-test-XXXXXX";
  ScsiTarget target;
  std::vector<std::uint8_t> in;
};

bool is_fault(const ScsiResult& result, std::uint8_t code) {
  return result.status == 2 && (result.sense[0] & 0x7F) == 0x70 && result.sense[2] == 5 && result.sense[12] == code;
}

TEST_CASE_FIXTURE(Fixture, "inquiry and vital product data are those of the model") {
  REQUIRE(run({0x12, 0, 0, 0, 255, 0}).status == 0);
  CHECK(std::string(in.begin() + 8, in.begin() + 36) == "TOSHIBA PX05SMB040      0102");
  REQUIRE(run({0x12, 1, 0x80, 0, 255, 0}).status == 0);
  CHECK(std::string(in.begin() + 4, in.end()) == "SERIAL01");
  REQUIRE(run({0x12, 1, 0xB1, 0, 255, 0}).status == 0);
  CHECK(in[5] == 1);
  CHECK(is_fault(run({0x12, 1, 0x77, 0, 255, 0}), 0x24));
  REQUIRE(run({0x12, 0, 0, 0, 5, 0}).status == 0);
  CHECK(in.size() == 5);  // the allocation length cuts
}

TEST_CASE_FIXTURE(Fixture, "the mask of changeable values shows all but what is fixed") {
  const CachingPage mask = page(1);
  CHECK(get(mask, *find_caching_field("WCE")) == 1);
  CHECK(get(mask, *find_caching_field("DRA")) == 1);
  CHECK(get(mask, *find_caching_field("FSW")) == 1);
  CHECK(get(mask, *find_caching_field("RCD")) == 0);
  CHECK(get(mask, *find_caching_field("NCS")) == 0);
}

TEST_CASE_FIXTURE(Fixture, "each field answers a change as the model says") {
  CHECK(change("WCE", 0).status == 0);
  CHECK(target.caching("WCE") == 0);
  CHECK(is_fault(change("RCD", 1), 0x26));
  CHECK(is_fault(change("DRA", 1), 0x26));
  CHECK(change("FSW", 1).status == 0);
  CHECK(target.caching("RCD") + target.caching("DRA") + target.caching("FSW") == 0);
  CHECK(get(page(2), *find_caching_field("WCE")) == 1);
}

TEST_CASE_FIXTURE(Fixture, "a list that asks for anything impossible changes nothing") {
  CachingPage changed = page(0);
  set(changed, *find_caching_field("WCE"), 0);
  set(changed, *find_caching_field("RCD"), 1);
  CHECK(is_fault(select(changed), 0x26));
  CHECK(target.caching("WCE") == 1);
  changed = page(0);
  changed[16] = 1;  // reserved
  CHECK(is_fault(select(changed), 0x26));
}

TEST_CASE_FIXTURE(Fixture, "settings are seen by the next program, saved ones in the saved page") {
  CHECK(change("WCE", 0).status == 0);
  CHECK(get(page(3), *find_caching_field("WCE")) == 1);
  const ScsiTarget next(kText, folder);
  CHECK(next.caching("WCE") == 0);
  CHECK(change("WCE", 0, true).status == 0);
  CHECK(get(page(3), *find_caching_field("WCE")) == 0);
  std::ofstream(std::string(folder) + "/mode-pages") << "nonsense\n";
  CHECK_THROWS_WITH_AS(ScsiTarget(kText, folder), doctest::Contains("mode-pages"), std::runtime_error);
}

TEST_CASE_FIXTURE(Fixture, "parameter lists of a wrong length and unknown commands are faults") {
  CHECK(is_fault(run({0x15, 0x10, 0, 0, 20, 0}, std::vector<std::uint8_t>(8, 0)), 0x1A));
  CHECK(is_fault(run({0x15, 0x00, 0, 0, 4, 0}, std::vector<std::uint8_t>(4, 0)), 0x24));
  CHECK(is_fault(run({0xC1, 0, 0, 0, 0, 0}), 0x20));
  CHECK(is_fault(run({0x1A, 0, 0x33, 0, 255, 0}), 0x24));
  CHECK(run({0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0}).data_command);
}

TEST_CASE_FIXTURE(Fixture, "capacity is told in sectors") {
  REQUIRE(run({0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0}).status == 0);
  std::uint64_t last = 0;
  for (int i = 0; i < 8; ++i) last = last << 8 | in[static_cast<std::size_t>(i)];
  CHECK(last + 1 == 400088457216 / 512);
  CHECK(run({0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0}).status == 0);
}

TEST_CASE_FIXTURE(Fixture, "whatever comes, the answer is whole, within its room, and fixed fields stay") {
  std::mt19937 chance(5);
  const std::uint8_t codes[] = {0x00, 0x03, 0x12, 0x15, 0x1A, 0x1B, 0x25, 0x35, 0x55, 0x5A, 0x9E, 0xA0};
  for (int i = 0; i < 200'000; ++i) {
    // exactly as large as said, so that a step beyond is found by the sanitizer
    std::vector<std::uint8_t> cdb(chance() % 17);
    std::vector<std::uint8_t> out(chance() % 64);
    std::vector<std::uint8_t> room(chance() % 96);
    for (auto& byte : cdb) byte = static_cast<std::uint8_t>(chance());
    for (auto& byte : out) byte = static_cast<std::uint8_t>(chance() % 4 == 0 ? chance() : 0);
    if (!cdb.empty() && chance() % 8 != 0) cdb[0] = codes[chance() % std::size(codes)];
    if (out.size() > 24 && chance() % 2 == 0) {
      const CachingPage current = page(0);
      std::copy(current.begin(), current.end(), out.begin() + 4);
      std::fill(out.begin(), out.begin() + 4, std::uint8_t{0});
      out[4 + chance() % 20] ^= static_cast<std::uint8_t>(1U << chance() % 8);
    }
    const ScsiResult result = target.execute(cdb.data(), cdb.size(), out.data(), out.size(), room.data(), room.size());
    REQUIRE((result.status == 0 || (result.status == 2 && result.sense[2] == 5)));
    REQUIRE(result.transferred_bytes <= room.size());
  }
  CHECK(target.caching("RCD") + target.caching("DRA") + target.caching("FSW") == 0);
  CHECK(target.caching("NCS") == 32);
}

}  // namespace
}  // namespace twin
