// A drive as SCSI sees it: INQUIRY and vital product data, mode pages, capacity. Settings are kept in a folder, so that
// they act on the programs that come later.
//
// Reads and changes no data of the drive: READ, WRITE and their kind are told apart as `data_command`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "scsi/caching_page.h"
#include "scsi/settings_store.h"

namespace twin {

struct ScsiResult {
  std::uint8_t status = 0;               // 00h GOOD, 02h CHECK CONDITION
  std::array<std::uint8_t, 18> sense{};  // fixed format; all 0 with GOOD
  std::size_t transferred_bytes = 0;     // of the data to the caller
  bool data_command = false;             // a command that would read or write the drive's data: not done
};

class ScsiTarget {
 public:
  // `text` has lines `identity.<key> <value>`, `mode_page.<field> <value> <behaviour>`, `mode_page.savable 0|1`,
  // `capacity.size <bytes>`; others are left alone. `folder` is where settings are kept. Throws std::invalid_argument
  // naming the key of a line that is wrong or missing, std::runtime_error for settings that cannot be read.
  ScsiTarget(std::string_view text, std::string folder);

  // Executes one command. `out` are the caller's data to the drive, `in` is the room for its answer.
  ScsiResult execute(const std::uint8_t* cdb, std::size_t cdb_bytes, const std::uint8_t* out, std::size_t out_bytes,
                     std::uint8_t* in, std::size_t in_bytes);

  // False for NVMe: Linux does not translate SCSI for such a drive.
  [[nodiscard]] bool speaks_scsi() const { return transport_ != "nvme"; }

  // The current value of a field of the caching page, by sdparm's name. There must be such a field.
  [[nodiscard]] std::uint32_t caching(std::string_view field) const;

  // Whether that field is no longer as it left the factory.
  [[nodiscard]] bool is_changed(std::string_view field) const;

 private:
  struct Reply;  // data on their way to the caller

  [[nodiscard]] std::string identity(const char* key) const;
  Behaviour behaviour_of(const CachingField& field) const {
    return behaviours_[static_cast<std::size_t>(&field - kCachingFields.data())];
  }
  void read_mode_pages(const std::map<std::string, std::string, std::less<>>& values);
  void load_settings();

  ScsiResult inquiry(const std::uint8_t* cdb, Reply& reply) const;
  ScsiResult mode_sense(const std::uint8_t* cdb, bool ten, Reply& reply) const;
  ScsiResult mode_select(const std::uint8_t* cdb, bool ten, const std::uint8_t* list, std::size_t list_bytes);
  ScsiResult select_page(const std::uint8_t* page, std::size_t page_bytes, CachingPage& caching) const;
  ScsiResult read_capacity(const std::uint8_t* cdb, bool sixteen, Reply& reply) const;

  std::map<std::string, std::string, std::less<>> identity_;
  std::string transport_;
  std::uint64_t sectors_ = 0;
  std::uint32_t rotation_ = 1;
  bool savable_ = false;
  std::array<Behaviour, kCachingFields.size()> behaviours_{};
  CachingPage factory_ = empty_caching_page();
  CachingPage changeable_ = empty_caching_page();
  SettingsStore store_;
  StoredSettings settings_{};
};

}  // namespace twin
