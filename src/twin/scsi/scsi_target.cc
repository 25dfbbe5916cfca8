// Execution of SCSI commands, according to SPC-4 and SBC-3.
#include "scsi/scsi_target.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace twin {
namespace {

// Sense keys and additional sense codes (SPC-4, annex D).
constexpr std::uint8_t kIllegalRequest = 0x05;
constexpr std::uint16_t kInvalidOperationCode = 0x2000;
constexpr std::uint16_t kInvalidFieldInCdb = 0x2400;
constexpr std::uint16_t kParameterListLengthError = 0x1A00;
constexpr std::uint16_t kInvalidFieldInParameterList = 0x2600;
constexpr std::uint16_t kSavingNotSupported = 0x3900;

enum : std::uint8_t {
  kTestUnitReady = 0x00,
  kRequestSense = 0x03,
  kInquiry = 0x12,
  kModeSelect6 = 0x15,
  kModeSense6 = 0x1A,
  kStartStopUnit = 0x1B,
  kReadCapacity10 = 0x25,
  kSynchronizeCache10 = 0x35,
  kLogSense = 0x4D,
  kModeSelect10 = 0x55,
  kModeSense10 = 0x5A,
  kAtaPassThrough16 = 0x85,
  kSynchronizeCache16 = 0x91,
  kServiceActionIn16 = 0x9E,
  kReportLuns = 0xA0,
  kAtaPassThrough12 = 0xA1,
};

// Operation codes of READ, WRITE, VERIFY, UNMAP and similar commands, in all lengths.
constexpr std::uint8_t kDataCommands[] = {0x08, 0x0A, 0x28, 0x2A, 0x2E, 0x2F, 0x41, 0x42,
                                          0x88, 0x8A, 0x8E, 0x8F, 0x93, 0xA8, 0xAA, 0xAE};

// Pages that cannot be changed: read-write error recovery, control, informational exceptions.
using FixedPage = std::array<std::uint8_t, 12>;
constexpr FixedPage kErrorRecoveryPage = {0x01, 0x0A, 0xC0, 0x01, 0, 0, 0, 0, 0x05, 0, 0xFF, 0xFF};
constexpr FixedPage kControlPage = {0x0A, 0x0A, 0x02, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0};
constexpr FixedPage kExceptionsPage = {0x1C, 0x0A, 0x00, 0x06, 0, 0, 0, 0, 0, 0, 0, 0};

ScsiResult check_condition(std::uint16_t code) {
  ScsiResult result;
  result.status = 0x02;
  result.sense[0] = 0x70;
  result.sense[2] = kIllegalRequest;
  result.sense[7] = 10;  // bytes that follow
  result.sense[12] = static_cast<std::uint8_t>(code >> 8);
  result.sense[13] = static_cast<std::uint8_t>(code);
  result.sense_bytes = 18;
  return result;
}

template <class Integer>
std::uint64_t big_endian(const Integer* bytes, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | bytes[i];
  return value;
}

// Returns the length of a command, which follows from the group of its operation code (SPC-4 4.2.5.1).
std::size_t cdb_length(std::uint8_t code) {
  constexpr std::size_t kByGroup[] = {6, 10, 10, 10, 16, 12, 6, 6};
  return kByGroup[code >> 5];
}

constexpr std::string_view kBehaviourNames[] = {"fixed", "changeable", "refused", "ignored"};  // by Behaviour

Behaviour parse_behaviour(const std::string& key, const std::string& text) {
  const auto found = std::find(std::begin(kBehaviourNames), std::end(kBehaviourNames), text);
  if (found != std::end(kBehaviourNames)) return static_cast<Behaviour>(found - kBehaviourNames);
  throw std::invalid_argument(key + ": '" + text + "' is not valid; valid are fixed, changeable, refused, ignored");
}

}  // namespace

// Data on their way to the caller.
struct ScsiTarget::Reply {
  std::vector<std::uint8_t> bytes;

  // Appends a number of `count` bytes.
  void add(std::uint64_t value, std::size_t count) {
    bytes.resize(bytes.size() + count);
    put(bytes.size() - count, value, count);
  }
  void put(std::size_t at, std::uint64_t value, std::size_t count) {
    for (; count > 0; --count) bytes[at++] = static_cast<std::uint8_t>(value >> (8 * (count - 1)));
  }
  // Sets a length field of `count` bytes to the number of bytes after it.
  void set_length(std::size_t at, std::size_t count) { put(at, bytes.size() - at - count, count); }
  // Adds text of a fixed width, padded with spaces.
  void add_text(const std::string& text, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) bytes.push_back(i < text.size() ? static_cast<std::uint8_t>(text[i]) : ' ');
  }
  void add_bytes(const auto& data) { bytes.insert(bytes.end(), data.begin(), data.end()); }
  void pad_to(std::size_t size) { bytes.resize(std::max(bytes.size(), size)); }

  // Copies as much as fits into the caller's space and the command's allocation length. Returns the size.
  std::size_t copy_to(std::uint8_t* in, std::size_t in_bytes, std::uint64_t allocation) const {
    const std::size_t size = std::min({bytes.size(), in_bytes, static_cast<std::size_t>(allocation)});
    if (size > 0) std::memcpy(in, bytes.data(), size);
    return size;
  }
};

ScsiTarget::ScsiTarget(std::string_view text, std::string folder)
    : values_(read_values(text)),
      transport_(value("identity.transport")),
      sectors_(parse_number<std::uint64_t>("capacity.size", value("capacity.size")) / kSectorBytes),
      rotation_(parse_number<std::uint32_t>("identity.rotation_rpm", value("identity.rotation_rpm"))),
      store_(std::move(folder)) {
  read_mode_pages();
  load_settings();
}

const std::string& ScsiTarget::value(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) throw std::invalid_argument(key + ": is missing");
  return found->second;
}

std::int64_t ScsiTarget::number(const std::string& key, std::int64_t missing) const {
  const auto found = values_.find(key);
  return found == values_.end() ? missing : parse_number<std::int64_t>(key, found->second);
}

void ScsiTarget::read_mode_pages() {
  constexpr std::string_view kPrefix = "mode_page.";
  for (const auto& [key, text] : values_) {
    if (!key.starts_with(kPrefix)) continue;
    if (key == "mode_page.savable") {
      savable_ = parse_number<int>(key, text) != 0;
      continue;
    }
    const CachingField* field = find_caching_field(key.substr(kPrefix.size()));
    if (field == nullptr) throw std::invalid_argument(key + ": is not a field of the caching page");
    const std::size_t space = text.find(' ');
    if (space == std::string::npos) throw std::invalid_argument(key + ": needs a value and a behaviour");
    const auto number = parse_number<std::uint32_t>(key, text.substr(0, space));
    if (number >> field->width != 0) {
      throw std::invalid_argument(key + ": " + std::to_string(number) + " is too large for " +
                                  std::to_string(field->width) + " bits");
    }
    const Behaviour behaviour = parse_behaviour(key, text.substr(space + 1));
    behaviours_[static_cast<std::size_t>(field - kCachingFields.data())] = behaviour;
    set(factory_, *field, number);
    if (behaviour != Behaviour::kFixed) set(changeable_, *field, ~0U);
  }
}

// Loads the settings in the folder, which another program may have changed. They may also be older than the model; then
// a field that the model does not allow to change gets its factory setting, because no command could ever correct it.
void ScsiTarget::load_settings() {
  StoredSettings found{factory_, factory_};
  store_.load(found);
  if (!savable_) found.saved = factory_;
  settings_ = {factory_, factory_};
  for (const CachingField& field : kCachingFields) {
    if (behaviour_of(field) != Behaviour::kChangeable) continue;
    set(settings_.current, field, get(found.current, field));
    set(settings_.saved, field, get(found.saved, field));
  }
}

std::uint32_t ScsiTarget::caching(std::string_view field) const {
  return get(settings_.current, *find_caching_field(field));
}

bool ScsiTarget::is_changed(std::string_view field) const {
  return caching(field) != get(factory_, *find_caching_field(field));
}

ScsiResult ScsiTarget::execute(const std::uint8_t* cdb, std::size_t cdb_bytes, const std::uint8_t* out,
                               std::size_t out_bytes, std::uint8_t* in, std::size_t in_bytes) {
  if (cdb_bytes == 0 || cdb_bytes < cdb_length(cdb[0])) return check_condition(kInvalidFieldInCdb);
  ScsiResult result;
  Reply reply;
  std::uint64_t allocation = 0;
  const bool descriptors = (cdb[1] & 0x01) != 0;
  switch (cdb[0]) {
    case kTestUnitReady:
    case kStartStopUnit:
    case kSynchronizeCache10:
    case kSynchronizeCache16:
      break;
    case kRequestSense:  // no sense data are ever pending, because every error is returned with its command
      reply.add(descriptors ? 0x72 : 0x70, 1);
      reply.add(descriptors ? 0 : 10, 7);  // bytes that follow
      reply.pad_to(descriptors ? 8 : 18);
      allocation = cdb[4];
      break;
    case kInquiry:
      result = inquiry(cdb, reply);
      allocation = big_endian(cdb + 3, 2);
      break;
    case kModeSense6:
    case kModeSense10:
      load_settings();
      result = mode_sense(cdb, cdb[0] == kModeSense10, reply);
      allocation = cdb[0] == kModeSense10 ? big_endian(cdb + 7, 2) : cdb[4];
      break;
    case kModeSelect6:
    case kModeSelect10:
      return mode_select(cdb, cdb[0] == kModeSelect10, out, out_bytes);
    case kLogSense:
      if (is_ata()) return check_condition(kInvalidOperationCode);  // as Linux translates for such a drive
      result = log_sense(cdb, reply);
      allocation = big_endian(cdb + 7, 2);
      break;
    case kAtaPassThrough12:
    case kAtaPassThrough16:
      if (!is_ata()) return check_condition(kInvalidOperationCode);
      result = pass_through(cdb, reply);
      allocation = reply.bytes.size();
      break;
    case kReadCapacity10:
      result = read_capacity(cdb, false, reply);
      allocation = 8;
      break;
    case kServiceActionIn16:
      if ((cdb[1] & 0x1F) != 0x10) return check_condition(kInvalidFieldInCdb);
      result = read_capacity(cdb, true, reply);
      allocation = big_endian(cdb + 10, 4);
      break;
    case kReportLuns:
      reply.add(8, 4);
      reply.pad_to(16);
      allocation = big_endian(cdb + 6, 4);
      break;
    default:
      if (std::find(std::begin(kDataCommands), std::end(kDataCommands), cdb[0]) != std::end(kDataCommands)) {
        result.data_command = true;
        return result;
      }
      return check_condition(kInvalidOperationCode);
  }
  const bool has_data = result.status == 0 || cdb[0] == kAtaPassThrough12 || cdb[0] == kAtaPassThrough16;
  if (has_data) result.transferred_bytes = reply.copy_to(in, in_bytes, allocation);
  return result;
}

ScsiResult ScsiTarget::inquiry(const std::uint8_t* cdb, Reply& reply) const {
  const std::uint8_t page = cdb[2];
  if ((cdb[1] & 1) == 0) {
    if (page != 0) return check_condition(kInvalidFieldInCdb);
    reply.add(0x00000602, 4);  // a disk, SPC-4, response data format 2
    reply.add(31, 1);          // bytes that follow
    reply.add(0x000002, 3);    // command queuing
    reply.add_text(value("identity.vendor"), 8);
    reply.add_text(value("identity.product"), 16);
    reply.add_text(value("identity.revision"), 4);
    return {};
  }
  reply.add(0, 1);
  reply.add(page, 1);
  reply.add(0, 2);  // length, set below
  switch (page) {
    case 0x00:
      for (const std::uint64_t supported : {0x00, 0x80, 0x83}) reply.add(supported, 1);
      if (is_ata()) reply.add(0x89, 1);
      for (const std::uint64_t supported : {0xB0, 0xB1}) reply.add(supported, 1);
      if (rotation_ == 1) reply.add(0xB2, 1);
      break;
    case 0x80:
      reply.add_text(value("identity.serial"), value("identity.serial").size());
      break;
    case 0x83:
      reply.add(0x01030008, 4);  // designator of the logical unit: NAA, eight bytes
      reply.add(parse_number<std::uint64_t>("identity.naa", value("identity.naa"), 16), 8);
      break;
    case 0x89:  // ATA information: the translation, the signature of the drive and its IDENTIFY data
      if (!is_ata()) return check_condition(kInvalidFieldInCdb);
      reply.add(0, 4);
      reply.add_text("linux", 8);
      reply.add_text("libata", 16);
      reply.add_text("3.00", 4);
      reply.add(0x34005001, 4);  // a register frame from the drive: status, and the signature in the address
      reply.add(0, 8);
      reply.add(0x01, 1);
      reply.pad_to(56);
      reply.add(0xEC000000, 4);  // IDENTIFY DEVICE
      reply.add_bytes(identify_data(ata_identity()));
      break;
    case 0xB0:
      reply.pad_to(64);
      reply.bytes[7] = 8;  // optimal transfer granularity: 4 KiB
      if (rotation_ == 1) {
        std::fill_n(reply.bytes.begin() + 20, 4, std::uint8_t{0xFF});  // UNMAP of any length,
        reply.bytes[27] = 1;                                           // in one piece
      }
      break;
    case 0xB1:
      reply.add(rotation_, 2);
      reply.add(0, 1);
      reply.add(parse_number<std::uint64_t>("identity.form_factor", value("identity.form_factor")), 1);
      reply.pad_to(64);
      break;
    case 0xB2:
      if (rotation_ != 1) return check_condition(kInvalidFieldInCdb);  // a hard disk deallocates nothing
      reply.add(0x00E0, 2);                                            // UNMAP and WRITE SAME deallocate
      reply.pad_to(8);
      break;
    default:
      return check_condition(kInvalidFieldInCdb);
  }
  reply.set_length(2, 2);
  return {};
}

ScsiResult ScsiTarget::mode_sense(const std::uint8_t* cdb, bool ten, Reply& reply) const {
  const bool no_descriptor = (cdb[1] & 0x08) != 0;
  const std::uint8_t control = cdb[2] >> 6;
  const std::uint8_t page = cdb[2] & 0x3F;
  const std::uint8_t subpage = cdb[3];
  if (control == 3 && !savable_) return check_condition(kSavingNotSupported);
  if (subpage != 0 && !(page == 0x3F && subpage == 0xFF)) return check_condition(kInvalidFieldInCdb);

  const std::size_t descriptor_bytes = no_descriptor ? 0 : 8;
  reply.add(0, ten ? 2 : 1);  // length, set below
  reply.add(0x0010, 2);       // medium type; DPO and FUA are supported
  if (ten) reply.add(0, 2);
  reply.add(descriptor_bytes, ten ? 2 : 1);
  if (!no_descriptor) {
    reply.add(std::min<std::uint64_t>(sectors_, 0xFFFFFFFF), 4);
    reply.add(kSectorBytes, 4);
  }
  const std::size_t before = reply.bytes.size();
  const auto add = [&](const auto& bytes) {
    if (page == 0x3F || page == (bytes[0] & 0x3F)) reply.add_bytes(bytes);
  };
  const auto add_fixed = [&](const FixedPage& bytes) { add(control == 1 ? FixedPage{bytes[0], bytes[1]} : bytes); };
  const CachingPage* const by_control[] = {&settings_.current, &changeable_, &factory_, &settings_.saved};
  CachingPage caching = *by_control[control];
  if (savable_) caching[0] |= 0x80;
  add_fixed(kErrorRecoveryPage);
  add(caching);
  add_fixed(kControlPage);
  add_fixed(kExceptionsPage);
  if (reply.bytes.size() == before) return check_condition(kInvalidFieldInCdb);

  reply.set_length(0, ten ? 2 : 1);
  return {};
}

ScsiResult ScsiTarget::mode_select(const std::uint8_t* cdb, bool ten, const std::uint8_t* list,
                                   std::size_t list_bytes) {
  const bool page_format = (cdb[1] & 0x10) != 0;
  const bool save = (cdb[1] & 0x01) != 0;
  if (!page_format || (save && !savable_)) return check_condition(kInvalidFieldInCdb);
  const std::uint64_t length = ten ? big_endian(cdb + 7, 2) : cdb[4];
  if (length == 0) return {};
  const std::size_t header = ten ? 8 : 4;
  if (length > list_bytes || length < header) return check_condition(kParameterListLengthError);
  const std::uint64_t descriptors = ten ? big_endian(list + 6, 2) : list[3];
  if (descriptors != 0 && descriptors != 8) return check_condition(kInvalidFieldInParameterList);
  if (header + descriptors > length) return check_condition(kParameterListLengthError);
  if (descriptors == 8 && big_endian(list + header + 5, 3) != kSectorBytes) {
    return check_condition(kInvalidFieldInParameterList);
  }

  // all pages are checked before any setting is changed; the lock keeps other programs from changing settings meanwhile
  const SettingsStore::Lock lock = store_.lock();
  load_settings();
  StoredSettings changed = settings_;
  for (std::size_t at = header + static_cast<std::size_t>(descriptors); at < length;) {
    if (at + 2 > length || at + 2U + list[at + 1] > length) return check_condition(kParameterListLengthError);
    const std::size_t page_bytes = 2U + list[at + 1];
    if (const ScsiResult wrong = select_page(list + at, page_bytes, changed.current); wrong.status != 0) return wrong;
    at += page_bytes;
  }
  if (save) changed.saved = changed.current;
  store_.store(changed);
  settings_ = changed;
  return {};
}

// Applies the values of a page to `caching`. A page that cannot be changed must have its current values.
ScsiResult ScsiTarget::select_page(const std::uint8_t* page, std::size_t page_bytes, CachingPage& caching) const {
  const auto is_fixed = [&](const FixedPage& bytes) {
    return (page[0] & 0x7F) == bytes[0] && std::equal(page + 1, page + page_bytes, bytes.begin() + 1, bytes.end());
  };
  if (is_fixed(kErrorRecoveryPage) || is_fixed(kControlPage) || is_fixed(kExceptionsPage)) return {};
  if ((page[0] & 0x7F) != 0x08 || page_bytes != kCachingPageBytes) return check_condition(kInvalidFieldInParameterList);
  CachingPage requested;
  std::copy_n(page, page_bytes, requested.begin());
  requested[0] &= 0x3F;
  for (const CachingField& field : kCachingFields) {
    if (get(requested, field) == get(caching, field)) continue;
    switch (behaviour_of(field)) {
      case Behaviour::kFixed:
      case Behaviour::kRefused:
        return check_condition(kInvalidFieldInParameterList);
      case Behaviour::kIgnored:
        set(requested, field, get(caching, field));
        break;
      case Behaviour::kChangeable:
        break;
    }
  }
  // all bits outside the fields are reserved
  CachingPage rest = requested;
  for (const CachingField& field : kCachingFields) set(rest, field, 0);
  if (rest != empty_caching_page()) return check_condition(kInvalidFieldInParameterList);
  caching = requested;
  return {};
}

ScsiResult ScsiTarget::read_capacity(const std::uint8_t*, bool sixteen, Reply& reply) const {
  const std::uint64_t last = sectors_ - 1;
  reply.add(sixteen ? last : std::min<std::uint64_t>(last, 0xFFFFFFFF), sixteen ? 8 : 4);
  reply.add(kSectorBytes, 4);
  if (sixteen) {
    reply.add(0x0003, 2);                       // eight sectors in a physical block
    reply.add(rotation_ == 1 ? 0x8000 : 0, 2);  // whether logical blocks can be deallocated (LBPME)
    reply.pad_to(32);
  }
  return {};
}

// The log pages: supported pages, temperature, wear of an SSD, and informational exceptions (SPC-4 7.3, SBC-3 6.4). The
// temperature is unknown: the standard's value for that is FFh.
ScsiResult ScsiTarget::log_sense(const std::uint8_t* cdb, Reply& reply) const {
  constexpr std::uint64_t kUnknown = 0xFF;
  const std::uint8_t page = cdb[2] & 0x3F;
  const std::int64_t rated_cycles = number("ageing.rated_cycles", 0);
  if (cdb[3] != 0) return check_condition(kInvalidFieldInCdb);
  reply.add(page, 1);
  reply.add(0, 3);  // subpage, and length, set below
  const auto add_parameter = [&](std::uint64_t code, std::uint64_t value, std::size_t bytes) {
    reply.add(code, 2);
    reply.add(0x03, 1);  // a parameter in binary format
    reply.add(bytes, 1);
    reply.add(value, bytes);
  };
  switch (page) {
    case 0x00:
      reply.add(0x000D10, 3);
      if (rated_cycles > 0) reply.add(0x11, 1);
      reply.add(0x2F, 1);
      break;
    case 0x0D:
      add_parameter(0x0000, kUnknown, 2);
      add_parameter(0x0001, kUnknown, 2);
      break;
    case 0x10:  // the last 20 self-tests: none
      for (std::uint64_t test = 1; test <= 20; ++test) {
        add_parameter(test, 0, 8);
        reply.add(0, 8);
        reply.bytes[reply.bytes.size() - 17] = 16;  // the length of the parameter
      }
      break;
    case 0x11: {
      if (rated_cycles <= 0) return check_condition(kInvalidFieldInCdb);
      const std::int64_t percent = number("ageing.cycles", 0) * 100 / rated_cycles;
      add_parameter(0x0001, static_cast<std::uint64_t>(std::min<std::int64_t>(percent, 255)), 4);
      break;
    }
    case 0x2F:
      add_parameter(0x0000, 0x0000FFFF, 4);  // no exception; temperature and threshold are unknown
      break;
    default:
      return check_condition(kInvalidFieldInCdb);
  }
  reply.set_length(2, 2);
  return {};
}

AtaIdentity ScsiTarget::ata_identity() const {
  return {.model = value("identity.product"),
          .firmware = value("identity.revision"),
          .serial = value("identity.serial"),
          .naa = parse_number<std::uint64_t>("identity.naa", value("identity.naa"), 16),
          .sectors = sectors_,
          .rotation = rotation_,
          .form_factor = parse_number<std::uint32_t>("identity.form_factor", value("identity.form_factor")),
          .link_bytes_a_second = number("link.rate", 0),
          .queue_slots = static_cast<std::uint32_t>(number("link.queue_slots", 1)),
          .write_cache = caching("WCE") != 0,
          .read_ahead = caching("DRA") == 0};
}

// ATA PASS-THROUGH of 12 or 16 bytes (SAT-3 12.2). Only commands without data or with data from the drive are executed.
ScsiResult ScsiTarget::pass_through(const std::uint8_t* cdb, Reply& reply) {
  const bool sixteen = cdb[0] == kAtaPassThrough16;
  const bool return_registers = (cdb[2] & 0x20) != 0;
  const AtaDevice::Registers registers = sixteen ? AtaDevice::Registers{cdb[14], cdb[4], cdb[8], cdb[10], cdb[12]}
                                                 : AtaDevice::Registers{cdb[9], cdb[3], cdb[5], cdb[6], cdb[7]};
  load_settings();
  const AtaResult done = ata_.execute(registers, ata_identity());
  if (done.data != nullptr) reply.add_bytes(*done.data);
  if (!return_registers && !done.aborted) return {};

  constexpr std::uint8_t kReady = 0x50;  // the status register
  constexpr std::uint8_t kError = 0x01;
  constexpr std::uint8_t kAborted = 0x04;  // the error register
  ScsiResult result;
  result.status = 0x02;
  result.sense_bytes = result.sense.size();
  auto& sense = result.sense;
  sense[0] = 0x72;
  sense[1] = done.aborted ? 0x0B : 0x01;  // aborted command, recovered error
  sense[3] = done.aborted ? 0x00 : 0x1D;  // ATA pass-through information available
  sense[7] = 14;                          // bytes that follow
  sense[8] = 0x09;                        // the descriptor of the registers
  sense[9] = 12;
  sense[11] = done.aborted ? kAborted : 0;
  sense[13] = done.count;
  sense[15] = registers.lba_low;
  sense[17] = done.lba_mid;
  sense[19] = done.lba_high;
  sense[21] = done.aborted ? kReady | kError : kReady;
  return result;
}

}  // namespace twin
