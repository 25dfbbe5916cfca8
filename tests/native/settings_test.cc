// Settings of the SCSI target over time: what outlives the model they were made with, several programs at once, and
// what they do to the drive.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "scsi/apply_mode_pages.h"

namespace twin {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::string text_of(const std::string& mode_pages, const char* rotation = "1", const char* transport = "sas") {
  return "capacity.size 400088457216\nidentity.vendor TOSHIBA\nidentity.product PX05SMB040\nidentity.revision 0102\n"
         "identity.serial SERIAL01\nidentity.naa 5000039600000540\nidentity.rotation_rpm " +
         std::string(rotation) + "\nidentity.form_factor 3\nidentity.transport " + transport + "\n" + mode_pages;
}

const std::string kAllChangeable = text_of(
    "mode_page.WCE 1 changeable\nmode_page.RCD 0 changeable\nmode_page.DRA 0 changeable\nmode_page.FSW 0 changeable\n"
    "mode_page.MAPF 65535 changeable\nmode_page.NCS 32 fixed\nmode_page.savable 1\n");

struct Folder {
  Folder() { REQUIRE(mkdtemp(path) != nullptr); }
  ~Folder() {
    unlink(settings().c_str());
    rmdir(path);
  }
  [[nodiscard]] std::string settings() const { return std::string(path) + "/mode-pages"; }

  char path[32] = "/tmp/scsi-test-XXXXXX";
};

// The answer to a command, cut to what was transferred.
Bytes answer(ScsiTarget& target, const Bytes& cdb, std::uint8_t status = 0) {
  Bytes in(512, 0xEE);
  const ScsiResult result = target.execute(cdb.data(), cdb.size(), nullptr, 0, in.data(), in.size());
  REQUIRE(result.status == status);
  in.resize(result.transferred_bytes);
  return in;
}

// All pages with all page controls, by the ten-byte command.
Bytes all_pages(ScsiTarget& target) {
  Bytes all;
  for (int control = 0; control < 4; ++control) {
    const Bytes pages =
        answer(target, {0x5A, 0, static_cast<std::uint8_t>(control << 6 | 0x3F), 0xFF, 0, 0, 0, 2, 0, 0});
    REQUIRE(pages.size() == 8 + 8 + 3 * 12 + kCachingPageBytes);
    REQUIRE((pages[0] << 8 | pages[1]) == static_cast<int>(pages.size()) - 2);
    REQUIRE(pages[7] == 8);
    all.insert(all.end(), pages.begin(), pages.end());
  }
  return all;
}

// The caching page; control 0 is the current one, 3 the saved one.
CachingPage page_of(ScsiTarget& target, int control = 0) {
  const Bytes pages =
      answer(target, {0x5A, 0x08, static_cast<std::uint8_t>(control << 6 | 0x08), 0, 0, 0, 0, 0, 255, 0});
  REQUIRE(pages.size() == 8 + kCachingPageBytes);
  CachingPage page;
  std::copy(pages.begin() + 8, pages.end(), page.begin());
  page[0] &= 0x3F;
  return page;
}

std::uint8_t change(ScsiTarget& target, const char* name, std::uint32_t value, bool save = false) {
  CachingPage page = page_of(target);
  set(page, *find_caching_field(name), value);
  Bytes list(8, 0);
  list.insert(list.end(), page.begin(), page.end());
  const Bytes cdb{0x55, static_cast<std::uint8_t>(save ? 0x11 : 0x10), 0, 0, 0, 0, 0,
                  0,    static_cast<std::uint8_t>(list.size()),        0};
  return target.execute(cdb.data(), cdb.size(), list.data(), list.size(), nullptr, 0).status;
}

TEST_CASE("changing and restoring gives the same pages, to the byte") {
  const Folder folder;
  ScsiTarget target(kAllChangeable, folder.path);
  const Bytes before = all_pages(target);
  for (const char* name : {"WCE", "RCD", "DRA", "FSW", "MAPF"}) {
    for (const bool save : {false, true}) {
      const std::uint32_t value = target.caching(name);
      REQUIRE(change(target, name, value ^ 1, save) == 0);
      CHECK(target.is_changed(name));
      CHECK(all_pages(target) != before);
      REQUIRE(change(target, name, value, save) == 0);
      CHECK(!target.is_changed(name));
      CHECK(all_pages(target) == before);
    }
  }
}

TEST_CASE("settings older than the model do not hold what it says cannot change") {
  const Folder folder;
  {
    ScsiTarget target(kAllChangeable, folder.path);
    REQUIRE(change(target, "DRA", 1, true) == 0);
    REQUIRE(change(target, "WCE", 0) == 0);
  }
  for (const char* behaviour : {"fixed", "refused", "ignored"}) {
    const std::string text = text_of("mode_page.WCE 1 changeable\nmode_page.DRA 0 " + std::string(behaviour) +
                                     "\nmode_page.NCS 16 fixed\nmode_page.savable 0\n");
    ScsiTarget target(text, folder.path);
    CHECK(target.caching("DRA") == 0);
    CHECK(target.caching("NCS") == 16);
    CHECK(target.caching("WCE") == 0);
    CHECK(change(target, "WCE", 0) == 0);  // and the page as it reads can be written back
  }
  // those of the older model stand in the file until something changes
  CHECK(ScsiTarget(kAllChangeable, folder.path).caching("WCE") == 0);
}

TEST_CASE("reserved bits in the file of settings come to nothing") {
  const Folder folder;
  std::ofstream(folder.settings()) << "current 0812ffffffffffffffffffffffffffffffffffff\n"
                                   << "saved 0812ffffffffffffffffffffffffffffffffffff\n";
  ScsiTarget target(kAllChangeable, folder.path);
  const CachingPage page = page_of(target);
  CHECK(page[16] == 0);
  CHECK(target.caching("NCS") == 32);
  CHECK(change(target, "DRA", 0) == 0);
}

TEST_CASE("a program does not undo what another has saved since it began") {
  const Folder folder;
  ScsiTarget one(kAllChangeable, folder.path);
  ScsiTarget other(kAllChangeable, folder.path);
  CachingPage asked = page_of(other);
  set(asked, *find_caching_field("WCE"), 0);
  REQUIRE(change(one, "DRA", 1, true) == 0);
  Bytes list(4, 0);
  list.insert(list.end(), asked.begin(), asked.end());
  const Bytes cdb{0x15, 0x10, 0, 0, static_cast<std::uint8_t>(list.size()), 0};
  REQUIRE(other.execute(cdb.data(), cdb.size(), list.data(), list.size(), nullptr, 0).status == 0);
  // what was asked for is a whole page, as a program had read it before; what is saved is the first one's
  CHECK(other.caching("DRA") == 0);
  CHECK(all_pages(one) == all_pages(other));
  CHECK(get(page_of(one, 3), *find_caching_field("DRA")) == 1);
  CHECK(get(page_of(one, 3), *find_caching_field("WCE")) == 1);
}

TEST_CASE("programs that change settings at the same time lose nothing that was saved") {
  const Folder folder;
  std::vector<pid_t> children;
  for (const char* name : {"DRA", "WCE", "RCD", "FSW"}) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ScsiTarget target(kAllChangeable, folder.path);
      const bool saves = std::string_view(name) == "DRA";
      bool good = true;
      for (std::uint32_t i = 0; i < 200; ++i) {
        good = change(target, name, i & 1, saves) == 0 && good;
        // nobody else saves, so that what was saved stays
        if (saves) good = get(page_of(target, 3), *find_caching_field("DRA")) == (i & 1) && good;
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  ScsiTarget next(kAllChangeable, folder.path);
  CHECK(get(page_of(next, 3), *find_caching_field("DRA")) == 1);
}

TEST_CASE("a switch that was changed acts, one that was not leaves the parameter as it is") {
  const Folder folder;
  ScsiTarget target(kAllChangeable, folder.path);
  Parameters parameters;
  parameters.read_ahead.window = 1 << 20;
  for (const bool enabled : {false, true}) {
    parameters.read_ahead.enabled = parameters.read_cache.enabled = parameters.write_buffer.enabled = enabled;
    parameters.disk.read_ahead = parameters.disk.read_cache = parameters.disk.write_cache_enabled = enabled;
    apply_mode_pages(target, parameters);
    CHECK(parameters.read_ahead.enabled == enabled);
    CHECK(parameters.read_cache.enabled == enabled);
    CHECK(parameters.write_buffer.enabled == enabled);
    CHECK(parameters.disk.read_ahead == enabled);
    CHECK(parameters.disk.read_cache == enabled);
    CHECK(parameters.disk.write_cache_enabled == enabled);
  }
  for (const char* name : {"RCD", "WCE", "DRA"}) REQUIRE(change(target, name, target.caching(name) ^ 1) == 0);
  apply_mode_pages(target, parameters);
  CHECK(!(parameters.read_ahead.enabled || parameters.read_cache.enabled || parameters.write_buffer.enabled));
  CHECK(!(parameters.disk.read_ahead || parameters.disk.read_cache || parameters.disk.write_cache_enabled));

  parameters.read_ahead.refill = 1 << 17;
  for (const auto& [sectors, window] : {std::pair{65535, 1 << 20}, {0, 1 << 20}, {1024, 1 << 19}}) {
    REQUIRE(change(target, "MAPF", static_cast<std::uint32_t>(sectors)) == 0);
    apply_mode_pages(target, parameters);
    CHECK(parameters.read_ahead.window == window);
  }
}

TEST_CASE("a hard disk deallocates nothing, an SSD says that it does") {
  const Folder folder;
  ScsiTarget disk(text_of("mode_page.WCE 1 changeable\nmode_page.savable 0\n", "7200", "sata"), folder.path);
  ScsiTarget ssd(kAllChangeable, folder.path);
  const Bytes capacity{0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0};
  CHECK(answer(disk, capacity)[14] == 0);
  CHECK(answer(ssd, capacity)[14] == 0x80);
  CHECK(answer(disk, {0x12, 1, 0, 0, 255, 0}).back() == 0xB1);
  CHECK(answer(ssd, {0x12, 1, 0, 0, 255, 0}).back() == 0xB2);
  answer(disk, {0x12, 1, 0xB2, 0, 255, 0}, 2);
  CHECK(answer(ssd, {0x12, 1, 0xB2, 0, 255, 0}).size() == 8);
  CHECK(answer(disk, {0x12, 1, 0xB0, 0, 255, 0})[20] == 0);
  CHECK(answer(ssd, {0x12, 1, 0xB0, 0, 255, 0})[20] == 0xFF);
}

TEST_CASE("sense data come in the format that is asked for") {
  const Folder folder;
  ScsiTarget target(kAllChangeable, folder.path);
  CHECK(answer(target, {0x03, 0, 0, 0, 252, 0})[0] == 0x70);
  const Bytes descriptors = answer(target, {0x03, 1, 0, 0, 252, 0});
  CHECK(descriptors.size() == 8);
  CHECK(descriptors[0] == 0x72);
}

TEST_CASE("half a million commands leave the pages whole and what is fixed as it is") {
  const Folder folder;
  ScsiTarget target(
      text_of(
          "mode_page.WCE 1 changeable\nmode_page.RCD 0 changeable\nmode_page.DRA 0 refused\nmode_page.FSW 0 ignored\n"
          "mode_page.NCS 32 fixed\nmode_page.savable 1\n"),
      folder.path);
  std::mt19937 chance(11);
  const std::uint8_t codes[] = {0x00, 0x03, 0x12, 0x15, 0x1A, 0x1B, 0x25, 0x35,
                                0x4D, 0x55, 0x5A, 0x7F, 0x85, 0x9E, 0xA0};
  std::uint64_t selected = 0;
  for (int i = 0; i < 500'000; ++i) {
    // exactly as large as said, so that a step beyond is found by the sanitizer
    Bytes cdb(chance() % 8 == 0 ? chance() % 17 : 16);
    Bytes out(chance() % 4 == 0 ? chance() % 64 : 0);
    Bytes room(chance() % 96);
    for (auto& byte : cdb) byte = static_cast<std::uint8_t>(chance() % 2 == 0 ? chance() : 0);
    for (auto& byte : out) byte = static_cast<std::uint8_t>(chance() % 4 == 0 ? chance() : 0);
    if (!cdb.empty() && chance() % 8 != 0) cdb[0] = codes[chance() % std::size(codes)];
    // now and then nearly right, by either command
    if (cdb.size() == 16 && chance() % 128 == 0) {
      const bool ten = chance() % 2 == 0;
      const std::size_t header = ten ? 8 : 4;
      CachingPage page = page_of(target);
      page[chance() % page.size()] ^= static_cast<std::uint8_t>(chance() % 2 == 0 ? 1U << chance() % 8 : 0);
      out.assign(header, 0);
      out.insert(out.end(), page.begin(), page.end());
      std::fill(cdb.begin(), cdb.end(), std::uint8_t{0});
      cdb[0] = ten ? 0x55 : 0x15;
      cdb[1] = static_cast<std::uint8_t>(0x10 | chance() % 2);
      cdb[ten ? 8 : 4] = static_cast<std::uint8_t>(chance() % 4 == 0 ? chance() % 40 : out.size());
    }
    const ScsiResult result = target.execute(cdb.data(), cdb.size(), out.data(), out.size(), room.data(), room.size());
    REQUIRE((result.status == 0 || result.status == 2));
    REQUIRE(result.transferred_bytes <= room.size());
    const bool sensed =
        std::any_of(result.sense.begin(), result.sense.end(), [](std::uint8_t byte) { return byte != 0; });
    REQUIRE(sensed == (result.status == 2));
    if (sensed) {
      REQUIRE(result.sense[0] == 0x70);
      REQUIRE(result.sense[2] == 5);
      const std::uint8_t codes_known[] = {0x1A, 0x20, 0x24, 0x26, 0x39};
      REQUIRE(std::count(std::begin(codes_known), std::end(codes_known), result.sense[12]) == 1);
    } else if (!cdb.empty() && (cdb[0] == 0x15 || cdb[0] == 0x55)) {
      ++selected;
    }
  }
  CHECK(selected > 1000);
  CHECK(target.caching("DRA") + target.caching("FSW") == 0);
  CHECK(target.caching("NCS") == 32);
  const CachingPage page = page_of(target);
  CachingPage rest = page;
  for (const CachingField& field : kCachingFields) set(rest, field, 0);
  CHECK(rest == empty_caching_page());
  CHECK(ScsiTarget(kAllChangeable, folder.path).caching("WCE") == target.caching("WCE"));
}

}  // namespace
}  // namespace twin
