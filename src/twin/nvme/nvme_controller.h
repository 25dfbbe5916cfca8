// The admin commands of a simulated NVMe drive: Identify, Get Log Page, Get Features (NVM Express 1.4).
//
// A field for which the model has no value is 0, with which the standard says "not reported" or "not supported".
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "drive/parameters.h"

namespace twin {

struct NvmeResult {
  std::uint16_t status = 0;  // the status field of a completion, without the phase tag
  std::uint32_t value = 0;   // the command-specific result
};

class NvmeController {
 public:
  // An admin command. Its fields have the names of the NVMe standard.
  struct Command {
    std::uint8_t opcode;
    std::uint32_t namespace_id;
    std::uint32_t cdw10;
    std::uint32_t cdw11;
    std::uint32_t cdw12;
  };

  // `text` is the text form of a drive (see drive/parameters.h).
  explicit NvmeController(std::string_view text) : values_(read_values(text)) {}

  // Executes a command. `data` is space of `data_bytes` for the data from the drive.
  NvmeResult execute(const Command& command, std::uint8_t* data, std::size_t data_bytes) const;

  // "vendor product", the model number of the controller.
  [[nodiscard]] std::string model() const;

 private:
  using Page = std::array<std::uint8_t, 4096>;

  [[nodiscard]] const std::string& value(const std::string& key) const;
  [[nodiscard]] std::int64_t number(const std::string& key) const;
  [[nodiscard]] bool caches_writes() const { return number("write_buffer.enabled") != 0; }

  bool identify(const Command& command, Page& page) const;
  bool log_page(std::uint8_t identifier, Page& page) const;

  Values values_;  // lines of the drive's text form
};

}  // namespace twin
