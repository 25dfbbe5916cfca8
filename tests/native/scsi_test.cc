// The SCSI target: replies, errors, mode pages, their effect on the drive, and settings that several programs share.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
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

// A target with all four behaviours of fields.
const std::string kMixed = text_of(
    "mode_page.WCE 1 changeable\nmode_page.RCD 0 fixed\nmode_page.DRA 0 refused\nmode_page.FSW 0 ignored\n"
    "mode_page.NCS 32 fixed\nmode_page.savable 1\n");

struct Folder {
  Folder() { REQUIRE(mkdtemp(path) != nullptr); }
  ~Folder() {
    unlink(settings().c_str());
    rmdir(path);
  }
  [[nodiscard]] std::string settings() const { return std::string(path) + "/mode-pages"; }

  char path[32] = "/tmp/scsi-test-XXXXXX";
};

ScsiResult execute(ScsiTarget& target, const Bytes& cdb, const Bytes& out = {}) {
  return target.execute(cdb.data(), cdb.size(), out.data(), out.size(), nullptr, 0);
}

// Returns the data that a command transfers to the caller.
Bytes answer(ScsiTarget& target, const Bytes& cdb, std::uint8_t status = 0) {
  Bytes in(512, 0xEE);
  const ScsiResult result = target.execute(cdb.data(), cdb.size(), nullptr, 0, in.data(), in.size());
  REQUIRE(result.status == status);
  in.resize(result.transferred_bytes);
  return in;
}

bool is_error(const ScsiResult& result, std::uint8_t code) {
  return result.status == 2 && (result.sense[0] & 0x7F) == 0x70 && result.sense[2] == 5 && result.sense[12] == code;
}

// Returns all pages with all page controls.
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

// Returns the caching page. `control` is 0 for the current values, 1 changeable, 2 default, 3 saved.
CachingPage page_of(ScsiTarget& target, int control = 0) {
  const Bytes pages =
      answer(target, {0x5A, 0x08, static_cast<std::uint8_t>(control << 6 | 0x08), 0, 0, 0, 0, 0, 255, 0});
  REQUIRE(pages.size() == 8 + kCachingPageBytes);
  CachingPage page;
  std::copy(pages.begin() + 8, pages.end(), page.begin());
  page[0] &= 0x3F;
  return page;
}

std::uint32_t value_of(const CachingPage& page, const char* field) { return get(page, *find_caching_field(field)); }

// Sends a caching page by MODE SELECT, in its ten-byte or its six-byte form.
ScsiResult select(ScsiTarget& target, const CachingPage& page, bool save = false, bool ten = true) {
  Bytes list(ten ? 8 : 4, 0);
  list.insert(list.end(), page.begin(), page.end());
  const auto flags = static_cast<std::uint8_t>(save ? 0x11 : 0x10);
  const auto size = static_cast<std::uint8_t>(list.size());
  return execute(target, ten ? Bytes{0x55, flags, 0, 0, 0, 0, 0, 0, size, 0} : Bytes{0x15, flags, 0, 0, size, 0}, list);
}

ScsiResult change(ScsiTarget& target, const char* name, std::uint32_t value, bool save = false) {
  CachingPage page = page_of(target);
  set(page, *find_caching_field(name), value);
  return select(target, page, save);
}

TEST_CASE("inquiry and vital product data are given by the model") {
  const Folder folder;
  ScsiTarget target(kMixed, folder.path);
  Bytes in = answer(target, {0x12, 0, 0, 0, 255, 0});
  CHECK(std::string(in.begin() + 8, in.begin() + 36) == "TOSHIBA PX05SMB040      0102");
  in = answer(target, {0x12, 1, 0x80, 0, 255, 0});
  CHECK(std::string(in.begin() + 4, in.end()) == "SERIAL01");
  CHECK(answer(target, {0x12, 1, 0xB1, 0, 255, 0})[5] == 1);
  CHECK(is_error(execute(target, {0x12, 1, 0x77, 0, 255, 0}), 0x24));
  CHECK(answer(target, {0x12, 0, 0, 0, 5, 0}).size() == 5);  // the allocation length
}

TEST_CASE("all fields but fixed ones are marked as changeable") {
  const Folder folder;
  ScsiTarget target(kMixed, folder.path);
  const CachingPage mask = page_of(target, 1);
  for (const char* field : {"WCE", "DRA", "FSW"}) CHECK(value_of(mask, field) == 1);
  for (const char* field : {"RCD", "NCS"}) CHECK(value_of(mask, field) == 0);
}

TEST_CASE("each field reacts to a change as its behaviour in the model says") {
  const Folder folder;
  ScsiTarget target(kMixed, folder.path);
  CHECK(change(target, "WCE", 0).status == 0);
  CHECK(target.caching("WCE") == 0);
  CHECK(is_error(change(target, "RCD", 1), 0x26));
  CHECK(is_error(change(target, "DRA", 1), 0x26));
  CHECK(change(target, "FSW", 1).status == 0);
  CHECK(target.caching("RCD") + target.caching("DRA") + target.caching("FSW") == 0);
  CHECK(value_of(page_of(target, 2), "WCE") == 1);
}

TEST_CASE("a page with an invalid change changes nothing") {
  const Folder folder;
  ScsiTarget target(kMixed, folder.path);
  CachingPage changed = page_of(target);
  set(changed, *find_caching_field("WCE"), 0);
  set(changed, *find_caching_field("RCD"), 1);
  CHECK(is_error(select(target, changed), 0x26));
  CHECK(target.caching("WCE") == 1);
  changed = page_of(target);
  changed[16] = 1;  // reserved
  CHECK(is_error(select(target, changed), 0x26));
}

TEST_CASE("the next program sees current settings, and saved ones in the saved page") {
  const Folder folder;
  ScsiTarget target(kMixed, folder.path);
  CHECK(change(target, "WCE", 0).status == 0);
  CHECK(value_of(page_of(target, 3), "WCE") == 1);
  CHECK(ScsiTarget(kMixed, folder.path).caching("WCE") == 0);
  CHECK(change(target, "WCE", 0, true).status == 0);
  CHECK(value_of(page_of(target, 3), "WCE") == 0);
  std::ofstream(folder.settings()) << "nonsense\n";
  CHECK_THROWS_WITH_AS(ScsiTarget(kMixed, folder.path), doctest::Contains("mode-pages"), std::runtime_error);
}

TEST_CASE("wrong parameter list lengths and unknown commands are errors") {
  const Folder folder;
  ScsiTarget target(kMixed, folder.path);
  CHECK(is_error(execute(target, {0x15, 0x10, 0, 0, 20, 0}, Bytes(8, 0)), 0x1A));
  CHECK(is_error(execute(target, {0x15, 0x00, 0, 0, 4, 0}, Bytes(4, 0)), 0x24));
  CHECK(is_error(execute(target, {0xC1, 0, 0, 0, 0, 0}), 0x20));
  CHECK(is_error(execute(target, {0x1A, 0, 0x33, 0, 255, 0}), 0x24));
  CHECK(execute(target, {0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0}).data_command);
}

TEST_CASE("the capacity is reported in sectors") {
  const Folder folder;
  ScsiTarget target(kMixed, folder.path);
  const Bytes in = answer(target, {0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0});
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < 8; ++i) last = last << 8 | in[i];
  CHECK(last + 1 == 400088457216 / 512);
  CHECK(execute(target, {0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0}).status == 0);
}

TEST_CASE("changing and restoring a field gives the same bytes in all pages") {
  const Folder folder;
  ScsiTarget target(kAllChangeable, folder.path);
  const Bytes before = all_pages(target);
  for (const char* name : {"WCE", "RCD", "DRA", "FSW", "MAPF"}) {
    for (const bool save : {false, true}) {
      const std::uint32_t value = target.caching(name);
      REQUIRE(change(target, name, value ^ 1, save).status == 0);
      CHECK(target.is_changed(name));
      CHECK(all_pages(target) != before);
      REQUIRE(change(target, name, value, save).status == 0);
      CHECK(!target.is_changed(name));
      CHECK(all_pages(target) == before);
    }
  }
}

TEST_CASE("old settings do not override fields that the model does not allow to change") {
  const Folder folder;
  {
    ScsiTarget target(kAllChangeable, folder.path);
    REQUIRE(change(target, "DRA", 1, true).status == 0);
    REQUIRE(change(target, "WCE", 0).status == 0);
  }
  for (const char* behaviour : {"fixed", "refused", "ignored"}) {
    const std::string text = text_of("mode_page.WCE 1 changeable\nmode_page.DRA 0 " + std::string(behaviour) +
                                     "\nmode_page.NCS 16 fixed\nmode_page.savable 0\n");
    ScsiTarget target(text, folder.path);
    CHECK(target.caching("DRA") == 0);
    CHECK(target.caching("NCS") == 16);
    CHECK(target.caching("WCE") == 0);
    CHECK(change(target, "WCE", 0).status == 0);  // the page can be written as it was read
  }
  // the file keeps the settings of the older model until something changes
  CHECK(ScsiTarget(kAllChangeable, folder.path).caching("WCE") == 0);
}

TEST_CASE("reserved bits in the settings file are ignored") {
  const Folder folder;
  std::ofstream(folder.settings()) << "current 0812ffffffffffffffffffffffffffffffffffff\n"
                                   << "saved 0812ffffffffffffffffffffffffffffffffffff\n";
  ScsiTarget target(kAllChangeable, folder.path);
  CHECK(page_of(target)[16] == 0);
  CHECK(target.caching("NCS") == 32);
  CHECK(change(target, "DRA", 0).status == 0);
}

TEST_CASE("a program does not undo what another program has saved since it started") {
  const Folder folder;
  ScsiTarget one(kAllChangeable, folder.path);
  ScsiTarget other(kAllChangeable, folder.path);
  CachingPage requested = page_of(other);
  set(requested, *find_caching_field("WCE"), 0);
  REQUIRE(change(one, "DRA", 1, true).status == 0);
  REQUIRE(select(other, requested, false, false).status == 0);
  // `other` sets all fields to the values that it has read before; the saved page has the values of `one`
  CHECK(other.caching("DRA") == 0);
  CHECK(all_pages(one) == all_pages(other));
  CHECK(value_of(page_of(one, 3), "DRA") == 1);
  CHECK(value_of(page_of(one, 3), "WCE") == 1);
}

TEST_CASE("programs that change settings concurrently lose no saved setting") {
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
        good = change(target, name, i & 1, saves).status == 0 && good;
        // no other program saves, so the saved value must not change
        if (saves) good = value_of(page_of(target, 3), "DRA") == (i & 1) && good;
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
  CHECK(value_of(page_of(next, 3), "DRA") == 1);
}

TEST_CASE("a changed switch sets its parameter, an unchanged one does not") {
  const Folder folder;
  ScsiTarget target(kAllChangeable, folder.path);
  Parameters parameters;
  parameters.read_ahead.window = 1 << 20;
  const std::vector<bool*> switches = {&parameters.read_ahead.enabled,   &parameters.read_cache.enabled,
                                       &parameters.write_buffer.enabled, &parameters.disk.read_ahead,
                                       &parameters.disk.read_cache,      &parameters.disk.write_cache_enabled};
  for (const bool enabled : {false, true}) {
    for (bool* each : switches) *each = enabled;
    apply_mode_pages(target, parameters);
    for (const bool* each : switches) CHECK(*each == enabled);
  }
  for (const char* name : {"RCD", "WCE", "DRA"}) REQUIRE(change(target, name, target.caching(name) ^ 1).status == 0);
  apply_mode_pages(target, parameters);
  for (const bool* each : switches) CHECK(!*each);

  parameters.read_ahead.refill = 1 << 17;
  for (const auto& [sectors, window] : {std::pair{65535, 1 << 20}, {0, 1 << 20}, {1024, 1 << 19}}) {
    REQUIRE(change(target, "MAPF", static_cast<std::uint32_t>(sectors)).status == 0);
    apply_mode_pages(target, parameters);
    CHECK(parameters.read_ahead.window == window);
  }
}

TEST_CASE("an SSD reports that it deallocates blocks, a hard disk does not") {
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

const std::string kSata = text_of("mode_page.WCE 1 changeable\nmode_page.savable 0\n", "1", "sata");

Bytes pass_through(std::uint8_t command, std::uint8_t features = 0, std::uint8_t flags = 0x0E) {
  return {0x85, 0x08, flags, 0, features, 0, 1, 0, 0, 0, 0x4F, 0, 0xC2, 0, command, 0};
}

std::string swapped(const Bytes& data, std::size_t word, std::size_t words) {
  std::string text;
  for (std::size_t i = 2 * word; i < 2 * (word + words); ++i) text += static_cast<char>(data[i ^ 1]);
  return text;
}

TEST_CASE("a SATA drive answers IDENTIFY DEVICE with its identity and current settings") {
  const Folder folder;
  ScsiTarget target(kSata + "link.rate 550000000\nlink.queue_slots 32\n", folder.path);
  const Bytes data = answer(target, pass_through(0xEC));
  REQUIRE(data.size() == 512);
  const auto word = [&](std::size_t index) { return data[2 * index] | data[2 * index + 1] << 8; };
  CHECK(swapped(data, 27, 20) == "PX05SMB040                              ");
  CHECK(swapped(data, 10, 10) == "SERIAL01            ");
  CHECK(word(100) + (word(101) << 16) == 400088457216 / 512);
  CHECK(word(75) == 31);
  CHECK(word(76) == 0x010E);  // three generations, and native command queuing
  CHECK(word(108) == 0x5000);
  CHECK(word(217) == 1);
  CHECK((word(85) & 0x20) != 0);
  CHECK(std::accumulate(data.begin(), data.end(), 0) % 256 == 0);
  REQUIRE(change(target, "WCE", 0).status == 0);
  CHECK((answer(target, pass_through(0xEC))[170] & 0x20) == 0);
  CHECK(answer(target, {0xA1, 0x08, 0x0E, 0, 1, 0, 0, 0, 0, 0xEC, 0, 0}).size() == 512);
  const Bytes page = answer(target, {0x12, 1, 0x89, 3, 0, 0});
  CHECK(page.size() == 512);  // the space; the page has 572 bytes
  CHECK(page[60] == data[0]);
}

TEST_CASE("a SATA drive reports its health, and aborts commands that it does not have") {
  const Folder folder;
  ScsiTarget target(kSata, folder.path);
  CHECK(answer(target, pass_through(0xB0, 0xD0)).size() == 512);
  // RETURN STATUS with the registers: no threshold is exceeded
  ScsiResult result = execute(target, pass_through(0xB0, 0xDA, 0x2C));
  CHECK(result.status == 2);
  CHECK(result.sense_bytes == 22);
  CHECK(result.sense[1] == 1);
  CHECK(result.sense[17] == 0x4F);
  CHECK(result.sense[19] == 0xC2);
  result = execute(target, pass_through(0x25));  // READ DMA EXT
  CHECK(result.sense[1] == 0x0B);
  CHECK((result.sense[21] & 1) == 1);
  CHECK(is_error(execute(target, {0x4D, 0, 0x40, 0, 0, 0, 0, 1, 0, 0}), 0x20));
}

TEST_CASE("a SAS drive has log pages, and takes no ATA commands") {
  const Folder folder;
  ScsiTarget target(kAllChangeable + "ageing.cycles 300\nageing.rated_cycles 3000\n", folder.path);
  const auto log = [&](std::uint8_t page) {
    return answer(target, {0x4D, 0, static_cast<std::uint8_t>(0x40 | page), 0, 0, 0, 0, 2, 0, 0});
  };
  CHECK(log(0x00) == Bytes{0, 0, 0, 5, 0x00, 0x0D, 0x10, 0x11, 0x2F});
  CHECK(log(0x11).back() == 10);    // percent of the rated cycles
  CHECK(log(0x0D).back() == 0xFF);  // the temperature is unknown
  CHECK(log(0x10).size() == 4 + 20 * 20);
  CHECK(log(0x10)[7] == 16);
  CHECK(is_error(execute(target, {0x4D, 0, 0x42, 0, 0, 0, 0, 1, 0, 0}), 0x24));
  CHECK(is_error(execute(target, pass_through(0xEC)), 0x20));
}

TEST_CASE("sense data have the requested format") {
  const Folder folder;
  ScsiTarget target(kAllChangeable, folder.path);
  CHECK(answer(target, {0x03, 0, 0, 0, 252, 0})[0] == 0x70);
  const Bytes descriptors = answer(target, {0x03, 1, 0, 0, 252, 0});
  CHECK(descriptors.size() == 8);
  CHECK(descriptors[0] == 0x72);
}

TEST_CASE("random commands get valid replies, access no other memory, and change no field that is not changeable") {
  const Folder folder;
  ScsiTarget target(kMixed, folder.path);
  std::mt19937 chance(11);
  const std::uint8_t codes[] = {0x00, 0x03, 0x12, 0x15, 0x1A, 0x1B, 0x25, 0x35,
                                0x4D, 0x55, 0x5A, 0x7F, 0x85, 0x9E, 0xA0};
  std::uint64_t selected = 0;
  for (int i = 0; i < 500'000; ++i) {
    // vectors of exactly the given size, so that the sanitizer finds an access beyond it
    Bytes cdb(chance() % 8 == 0 ? chance() % 17 : 16);
    Bytes out(chance() % 4 == 0 ? chance() % 64 : 0);
    Bytes in(chance() % 96);
    for (auto& byte : cdb) byte = static_cast<std::uint8_t>(chance() % 2 == 0 ? chance() : 0);
    for (auto& byte : out) byte = static_cast<std::uint8_t>(chance() % 4 == 0 ? chance() : 0);
    if (!cdb.empty() && chance() % 8 != 0) cdb[0] = codes[chance() % std::size(codes)];
    // sometimes a MODE SELECT that is nearly valid
    if (cdb.size() == 16 && chance() % 128 == 0) {
      const bool ten = chance() % 2 == 0;
      CachingPage page = page_of(target);
      page[chance() % page.size()] ^= static_cast<std::uint8_t>(chance() % 2 == 0 ? 1U << chance() % 8 : 0);
      out.assign(ten ? 8 : 4, 0);
      out.insert(out.end(), page.begin(), page.end());
      std::fill(cdb.begin(), cdb.end(), std::uint8_t{0});
      cdb[0] = ten ? 0x55 : 0x15;
      cdb[1] = static_cast<std::uint8_t>(0x10 | chance() % 2);
      cdb[ten ? 8 : 4] = static_cast<std::uint8_t>(chance() % 4 == 0 ? chance() % 40 : out.size());
    }
    const ScsiResult result = target.execute(cdb.data(), cdb.size(), out.data(), out.size(), in.data(), in.size());
    REQUIRE((result.status == 0 || result.status == 2));
    REQUIRE(result.transferred_bytes <= in.size());
    if (result.status == 2) {
      REQUIRE(result.sense[0] == 0x70);
      REQUIRE(result.sense[2] == 5);
      const std::uint8_t known[] = {0x1A, 0x20, 0x24, 0x26, 0x39};
      REQUIRE(std::count(std::begin(known), std::end(known), result.sense[12]) == 1);
    } else {
      REQUIRE(result.sense == ScsiResult().sense);
      selected += !cdb.empty() && (cdb[0] == 0x15 || cdb[0] == 0x55);
    }
  }
  CHECK(selected > 1000);
  CHECK(target.caching("RCD") + target.caching("DRA") + target.caching("FSW") == 0);
  CHECK(target.caching("NCS") == 32);
  CachingPage rest = page_of(target);
  for (const CachingField& field : kCachingFields) set(rest, field, 0);
  CHECK(rest == empty_caching_page());
  CHECK(ScsiTarget(kMixed, folder.path).caching("WCE") == target.caching("WCE"));
}

}  // namespace
}  // namespace twin
