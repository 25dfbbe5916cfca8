// Fuzzes the SCSI target with libFuzzer: commands that a program sends to a simulated drive, and the file with its
// settings.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "scsi/scsi_target.h"

namespace {

const std::string kText =
    "capacity.size 400088457216\nidentity.vendor TOSHIBA\nidentity.product PX05SMB040\nidentity.revision 0102\n"
    "identity.serial SERIAL01\nidentity.naa 5000039600000540\nidentity.rotation_rpm 1\nidentity.form_factor 3\n"
    "identity.transport sas\nmode_page.WCE 1 changeable\nmode_page.RCD 0 fixed\nmode_page.DRA 0 refused\n"
    "mode_page.FSW 0 ignored\nmode_page.NCS 32 fixed\nmode_page.savable 1\n";

std::string new_folder() {
  char path[] = "/tmp/scsi-fuzz-XXXXXX";
  if (mkdtemp(path) == nullptr) std::abort();
  return path;
}

}  // namespace

// The first byte decides: either the other bytes are the file with the settings, or they are commands. Each command has
// its length, the length of its data, and the space for data from the drive (in units of 8 bytes) before it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string folder = new_folder();
  const std::string settings = folder + "/mode-pages";
  unlink(settings.c_str());
  if (size == 0) return 0;
  const std::uint8_t* const end = data + size;
  if (*data++ == 's') {
    std::ofstream(settings, std::ios::binary).write(reinterpret_cast<const char*>(data), end - data);
    try {
      twin::ScsiTarget(kText, folder);
    } catch (const std::runtime_error&) {  // a refusal
    }
    return 0;
  }
  twin::ScsiTarget target(kText, folder);
  while (end - data >= 3) {
    const std::size_t command_bytes = *data++ % 33;
    const std::size_t out_bytes = *data++;
    // of exact sizes, so that the address sanitizer sees each access beyond them
    std::vector<std::uint8_t> in(std::size_t{*data++} * 8);
    const auto taken = [&](std::size_t wanted) {
      const std::size_t bytes = std::min(wanted, static_cast<std::size_t>(end - data));
      data += bytes;
      return std::vector<std::uint8_t>(data - bytes, data);
    };
    const std::vector<std::uint8_t> command = taken(command_bytes);
    const std::vector<std::uint8_t> out = taken(out_bytes);
    const twin::ScsiResult result =
        target.execute(command.data(), command.size(), out.data(), out.size(), in.data(), in.size());
    if (result.transferred_bytes > in.size()) std::abort();
  }
  return 0;
}
