// The SCSI target of a simulated drive: INQUIRY with vital product data, mode pages, log pages, capacity, and ATA
// commands of a SATA drive (ATA PASS-THROUGH). Settings are kept in a folder, so they affect later programs.
//
// Commands that read or write the drive's data are not executed, only recognized (`data_command`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "drive/parameters.h"
#include "scsi/ata_device.h"
#include "scsi/caching_page.h"
#include "scsi/settings_store.h"

namespace twin {

struct ScsiResult {
  std::uint8_t status = 0;  // 00h GOOD, 02h CHECK CONDITION
  // 18 bytes in fixed format, or 22 in the format of descriptors after an ATA command; all 0 if the status is GOOD
  std::array<std::uint8_t, 22> sense{};
  std::size_t sense_bytes = 0;
  std::size_t transferred_bytes = 0;  // data returned to the caller
  bool data_command = false;          // whether the command reads or writes data; such a command is not executed
};

class ScsiTarget {
 public:
  // `text` is the text form of a drive (see drive/parameters.h), from which these lines are used: `identity.<key>
  // <value>`, `mode_page.<field> <value> <behaviour>`, `mode_page.savable 0|1` and `capacity.size <bytes>`. `folder` is
  // where settings are kept. Throws std::invalid_argument, naming the key, for a line that is missing or invalid, and
  // std::runtime_error for settings that cannot be read.
  ScsiTarget(std::string_view text, std::string folder);

  // Executes a command. `out` is the data from the caller to the drive, `in` is space for the data from the drive.
  ScsiResult execute(const std::uint8_t* cdb, std::size_t cdb_bytes, const std::uint8_t* out, std::size_t out_bytes,
                     std::uint8_t* in, std::size_t in_bytes);

  // Returns false for NVMe, because Linux does not translate SCSI for such a drive.
  [[nodiscard]] bool speaks_scsi() const { return transport_ != "nvme"; }

  // Returns the current value of a field of the caching page. `field` is sdparm's acronym, and must exist.
  [[nodiscard]] std::uint32_t caching(std::string_view field) const;

  // Returns what the model states about the drive: `key` is "vendor", "product", "revision", "serial" or "naa".
  [[nodiscard]] const std::string& identity(const std::string& key) const { return value("identity." + key); }

  // Returns whether a field differs from its factory setting.
  [[nodiscard]] bool is_changed(std::string_view field) const;

 private:
  struct Reply;

  [[nodiscard]] const std::string& value(const std::string& key) const;
  // Returns the number of a key, or `missing` if there is no such key.
  [[nodiscard]] std::int64_t number(const std::string& key, std::int64_t missing) const;
  Behaviour behaviour_of(const CachingField& field) const {
    return behaviours_[static_cast<std::size_t>(&field - kCachingFields.data())];
  }
  void read_mode_pages();
  void load_settings();

  ScsiResult inquiry(const std::uint8_t* cdb, Reply& reply) const;
  ScsiResult mode_sense(const std::uint8_t* cdb, bool ten, Reply& reply) const;
  ScsiResult mode_select(const std::uint8_t* cdb, bool ten, const std::uint8_t* list, std::size_t list_bytes);
  ScsiResult select_page(const std::uint8_t* page, std::size_t page_bytes, CachingPage& caching) const;
  ScsiResult read_capacity(const std::uint8_t* cdb, bool sixteen, Reply& reply) const;
  ScsiResult log_sense(const std::uint8_t* cdb, Reply& reply) const;
  ScsiResult pass_through(const std::uint8_t* cdb, Reply& reply);
  [[nodiscard]] AtaIdentity ata_identity() const;
  [[nodiscard]] bool is_ata() const { return transport_ == "sata"; }

  Values values_;  // lines of the drive's text form
  std::string transport_;
  std::uint64_t sectors_ = 0;
  std::uint32_t rotation_ = 1;
  bool savable_ = false;
  std::array<Behaviour, kCachingFields.size()> behaviours_{};
  CachingPage factory_ = empty_caching_page();
  CachingPage changeable_ = empty_caching_page();
  SettingsStore store_;
  StoredSettings settings_{};
  AtaDevice ata_;
};

}  // namespace twin
